"""What a trained network gets right, counted over all images."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from convdyno.app.cells import look_into, looks_anew, one_value, shared_out
from convdyno.app.place import launcher
from convdyno.app.requests import EvaluateRequest
from convdyno.app.shown import Shown
from convdyno.blueprint.weight_file import read_header
from convdyno.engines import registry
from convdyno.errors import BadWeights, Interrupted, TrialFailed, UsageError, signal_of
from convdyno.report.console import Screen
from convdyno.run.checkpoint import latest, standing_of
from convdyno.stage.progress import SILENCE, Narrator
from convdyno.trial.spec import Trial, make_trial

KEPT = ("network", "image_size", "classes", "width", "resize", "on_bad")
"""What evaluation takes over from training besides what can be given anew."""


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation(Shown):
    """What came of evaluating a checkpoint."""

    checkpoint: Path
    trial: Trial
    found: dict[str, Any]
    """Counts, shares and their intervals, as `eval --json` has them."""

    @property
    def about(self) -> dict[str, Any]:
        """What was evaluated, and by what."""
        names = ("network", "engine", "precision", "data")
        about = {name: getattr(self.trial, name) for name in names}
        return {"checkpoint": str(self.checkpoint), **about}

    def show(self, screen: Screen) -> None:
        """Print what it got right."""
        screen.evaluation(str(self.checkpoint), self.trial, self.found)

    def to_dicts(self) -> list[dict[str, Any]]:
        """One flat dict, since one checkpoint was evaluated."""
        return [self.about | flat_accuracy(self.found)]


def flat_accuracy(found: Mapping[str, Any]) -> dict[str, Any]:
    """What an evaluation found as plain values: an interval becomes `..._low` and `..._high`."""
    flat: dict[str, Any] = {}
    for name, value in found.items():
        if name.endswith("_interval"):
            flat |= zip((f"{name[:-9]}_low", f"{name[:-9]}_high"), value, strict=True)
        elif not isinstance(value, list | dict):
            flat[name] = value
    return flat


@looks_anew
def evaluate(request: EvaluateRequest, narrator: Narrator = SILENCE) -> Evaluation:
    """Top-1, top-5 and loss over every test image exactly once."""
    checkpoint, given = request.checkpoint, request.axes
    file = latest(checkpoint) if checkpoint.is_dir() else checkpoint
    if file is None:
        raise BadWeights(f"there is no checkpoint in {checkpoint}")
    trained = standing_of(read_header(file)).training.trial
    if (request.network or trained.network) != trained.network:
        raise BadWeights(f"{file} is a checkpoint of {trained.network}, not of {request.network}")
    if request.network is None and ":" in trained.network:
        # A file from elsewhere must not choose which code runs here.
        raise BadWeights(
            f"{file} is a checkpoint of {trained.network}, a network that is not convdyno's: "
            "repeat that name with --network"
        )
    engines = registry.chosen(given.get("engine") or trained.engine)
    if len(engines) != 1:
        raise UsageError(f"evaluation is by one engine, not by {', '.join(engines)}")
    values = {name: getattr(trained, name) for name in (*KEPT, "data", "batch", "view")}
    values |= {name: one_value(name, given) for name in ("data", "batch", "view") if name in given}
    values |= {name: one_value(name, given) for name in ("precision", "device")}
    silence, patience = request.read("watchdog"), request.read("rank_timeout")
    with launcher(narrator=narrator) as there:
        spread = shared_out(there, given)
        trial = make_trial(engine=engines[0], mode="infer", **values | spread)
        look_into(trial.data, "validation")
        team = there.start(trial, patience)
        try:
            found = team.ask(
                "evaluate",
                silence=silence,
                checkpoint=str(file),
                trial=trial.model_dump(mode="json"),
                averaged=not request.raw,
                full=request.full,
            )
        except KeyboardInterrupt as end:
            kept = "nothing was counted to its end, and nothing is written"
            raise Interrupted(signal_of(end), f"{kept}; the same command begins anew") from None
        except TrialFailed as failure:
            if failure.status == "refused":
                raise UsageError(str(failure)) from None
            raise
        finally:
            team.end()
    return Evaluation(file, trial, {key: found[key] for key in found if key != "event"})

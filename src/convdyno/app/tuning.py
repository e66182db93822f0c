"""The fastest settings of one network and engine, for the same mathematics."""

from __future__ import annotations

import re
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from convdyno.app.benchmark import goal_of, limits_of
from convdyno.app.cells import looks_anew, make_trials, refuse_idle, with_room
from convdyno.app.requests import TuneRequest
from convdyno.app.shown import Shown
from convdyno.engines import registry
from convdyno.errors import Interrupted, NothingMeasured, UsageError, signal_of
from convdyno.launch.local import Here
from convdyno.machine import facts, kinds
from convdyno.report.columns import flat
from convdyno.report.console import Screen
from convdyno.report.tune import Tuning, tuning
from convdyno.stage.progress import SILENCE, Narrator
from convdyno.stage.tuning import FACTORS, Tuner
from convdyno.store.folder import Store
from convdyno.store.preset import Preset, check_name, own_folder
from convdyno.trial.axes import MAX
from convdyno.trial.spec import Trial

FOLDER = "tune"
"""Where the records of searches are, apart from those of benchmarks."""


@dataclass(frozen=True, eq=False, repr=False)
class Tuned(Shown):
    """What a search found, and the preset that was made of it."""

    tuning: Tuning
    preset: Preset
    kept: Path
    """The preset's file."""
    folder: Path
    """Where the records are."""

    def show(self, screen: Screen) -> None:
        """Print the winner, the default, and what each setting brings."""
        self.tuning.show(screen, self.kept, self.preset.name)

    def to_dicts(self) -> list[dict[str, Any]]:
        """A flat dict for each cell: the default, the winner, and all that was tried."""
        found = self.tuning
        cells = {"default": [found.default], "winner": [found.winner], "tried": found.tried}
        return [{"part": part} | flat(cell) for part, some in cells.items() for cell in some]


@looks_anew
def tune(request: TuneRequest, narrator: Narrator = SILENCE) -> Tuned:
    """Search every setting that was not given, and keep the winner as a preset."""
    with closing(Here()) as there:
        limits = limits_of(request)
        tuner = Tuner(
            store=Store(request.out / FOLDER),
            narrator=narrator,
            machine=facts.machine(),
            command=request.command,
            there=there,
            goal=goal_of(request),
            budget_seconds=limits.budget_seconds,
            silence_seconds=limits.silence_seconds,
            rank_seconds=request.read("rank_timeout"),
        )
        trial = _one_trial(request, there)
        usual = re.sub(r"[^A-Za-z0-9._-]+", "-", f"{trial.network}-{trial.engine}").strip("-.")
        called = check_name(usual if request.name is None else request.name)
        alone = {"bucket_mb"} if trial.devices == 1 else set()
        free = [name for name in FACTORS if name not in request.axes.keys() | alone]
        if not free:
            raise UsageError("every setting is given, so there is nothing to search")
        tuner.store.prepare()
        if request.axes.get("batch") == MAX:
            trial = with_room(there, trial, request, narrator)
        found = _search(tuner, trial, free)
        preset = found.preset(called, tuner.machine["host"], kinds.kind(tuner.machine))
        kept = preset.write(own_folder() if request.own else request.out)
    return Tuned(found, preset, kept, tuner.store.folder)


def _one_trial(request: TuneRequest, there: Here) -> Trial:
    given = request.given
    if given.get("batch") == MAX:
        del given["batch"]
    refuse_idle(given)
    trials = make_trials(there, given)
    if len(trials) != 1:
        raise UsageError(
            f"tune is for one network, engine and kind of work at a time, not for {len(trials)}: "
            "give one value of each option"
        )
    registry.check(trials[0].engine)
    return trials[0]


def _search(tuner: Tuner, trial: Trial, free: list[str]) -> Tuning:
    try:
        found = tuner.tune(trial, free)
    except KeyboardInterrupt as end:
        kept = f"no preset was made; the records are in {tuner.store.folder}"
        raise Interrupted(signal_of(end), f"{kept}, and the same command begins anew") from None
    finally:
        tuner.narrator.clear()
    if not (found.default.measured and found.winner.measured):
        raise NothingMeasured(
            f"the budget of {tuner.budget_seconds:g} s was too short for rounds after the search: "
            "give a longer --budget"
        )
    contrasts = [(one.factor, one.ours, one.theirs, one.record) for one in found.contrasts]
    seconds = found.search_seconds, found.final_seconds
    return tuning(found.default, found.winner, contrasts, found.tried, seconds)

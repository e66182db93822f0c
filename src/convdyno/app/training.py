"""A trained and evaluated network, by the step that is benchmarked.

Each run has workers of its own: what they say, the signals they get, the record.
"""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from convdyno.app.benchmark import labels_of
from convdyno.app.cells import looks_anew, one_value
from convdyno.app.evaluation import flat_accuracy
from convdyno.app.place import launcher
from convdyno.app.requests import TrainRequest
from convdyno.app.shown import Shown
from convdyno.app.training_plan import make_training
from convdyno.errors import BadStore, Refused, TrialFailed, UsageError
from convdyno.launch.launcher import Team
from convdyno.machine import facts
from convdyno.report.console import Screen
from convdyno.report.training import Watcher, flat_run, run_words, summary
from convdyno.run import checkpoint
from convdyno.stage.progress import SILENCE, Narrator
from convdyno.stage.signals import heeding
from convdyno.store import training_runs
from convdyno.store.training_runs import RunRecord, Status
from convdyno.trial import axes, parse
from convdyno.trial.recipes import RECIPES
from convdyno.trial.spec import Trial
from convdyno.trial.training import Training, Watching

ABOUT = ("network", "engine", "precision", "batch", "data")
"""What a row says of the trial that was trained."""


class Unwatched(Watcher):
    """Nobody looks at the run."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, quiet=True)

    def warn(self, sentence: str) -> None:
        """Nothing: the record has it."""


@dataclass(frozen=True, eq=False, repr=False)
class Trained(Shown):
    """What came of training: a run for each seed."""

    training: Training
    runs: list[dict[str, Any]]
    """As `train --json` has them; one that was stopped has a `signal`."""

    @property
    def ok(self) -> bool:
        """Whether every run was trained to its end."""
        return all(run["status"] == "finished" for run in self.runs)

    def show(self, screen: Screen) -> None:
        """Print what came of each run, and of all together."""
        screen.lines(map(run_words, self.runs))
        if len(self.runs) > 1:
            screen.lines(summary(self.training, self.runs))

    def to_dicts(self) -> list[dict[str, Any]]:
        """A flat dict for each run."""
        about = {name: getattr(self.training.trial, name) for name in ABOUT}
        return [
            {**about, **flat_run(run), **flat_accuracy(run.get("evaluation") or {})}
            for run in self.runs
        ]


@looks_anew
def train(
    request: TrainRequest, watch: Callable[[Path], Watcher] = Unwatched,
    narrator: Narrator = SILENCE,
) -> Trained:  # fmt: skip
    """Train with every seed; `watch` makes what follows the run in a folder."""
    seconds = {
        name: parse.duration(f"--{name.replace('_', '-')}")(axes.word(getattr(request, name)))
        for name in ("save_interval", "summary_interval")
    }
    watching = Watching(
        display_every=request.display_every,
        display_seconds=request.display_seconds,
        save_seconds=seconds["save_interval"],
        summary_seconds=seconds["summary_interval"],
        keep=request.keep,
    )
    labels = labels_of(request.labels)
    silence, patience = request.read("watchdog"), request.read("rank_timeout")
    whole = request.log_dir or Path("runs") / request.network.replace(":", "-")
    first = one_value("seed", request.axes)
    seeds = range(first, first + request.seeds)
    folders = {n: whole / f"seed-{n}" if request.seeds > 1 else whole for n in seeds}
    begun = (any(folder.glob("checkpoint-*.safetensors")) for folder in folders.values())
    if request.resume and not any(begun):
        raise UsageError(f"there is nothing to resume in {whole}")
    runs: list[dict[str, Any]] = []
    with launcher(narrator=narrator) as there:
        training = make_training(there, request)
        start = partial(there.start, rank_seconds=patience)
        trainer = Trainer(watching, silence, start, request.command, labels)
        for seed, folder in folders.items():
            trial = training.trial.model_copy(update={"seed": seed})
            wanted = training.model_copy(update={"trial": trial})
            runs.append(trainer.run(wanted, folder, watch(folder)))
            if "signal" in runs[-1]:
                break
    return Trained(training, runs)


@dataclass(frozen=True)
class Trainer:
    """What runs of training have in common."""

    watching: Watching
    silence_seconds: float
    start: Callable[[Trial], Team]
    command: str
    labels: Mapping[str, str]

    def run(self, training: Training, folder: Path, watcher: Watcher) -> dict[str, Any]:
        """One run in workers of its own, and its record; a failure is a status with a reason.

        What is refused leaves the folder as it was.
        """
        new = [one for one in (folder, *folder.parents) if not one.exists()]
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as wrong:
            raise UsageError(f"--log-dir {folder} cannot be made: {wrong.strerror}") from None
        about = {"folder": str(folder), "seed": training.trial.seed}
        with training_runs.claimed(folder):
            recipe = RECIPES.get(training.recipe)
            record = training_runs.begin(
                folder, training, self.watching, recipe, self.command, facts.machine(), self.labels
            )
            watcher.start(training)
            begun: dict[str, Any] = {}
            try:
                ended = self._follow(record, folder, watcher, begun)
            except TrialFailed as failure:
                ended = {"status": failure.status, "reason": str(failure)}
            except Refused as refusal:
                ended = {"status": "refused", "reason": str(refusal)}
            if ended["status"] != "refused":
                ended = _close(record, folder, ended, begun)
        if ended["status"] == "refused":
            _unmake(new)
            raise UsageError(ended["reason"])
        return about | {"versions": begun.get("versions")} | ended

    def _follow(
        self, record: RunRecord, folder: Path, watcher: Watcher, begun: dict[str, Any]
    ) -> dict[str, Any]:
        """What the workers say, to their end; signals make them save and stop."""
        training = record.training
        team = self.start(training.trial)
        try:
            with _passing_on(team, begun) as signals:
                events = team.events(
                    "train",
                    silence=self.silence_seconds,
                    training=training.model_dump(mode="json"),
                    watching=self.watching.model_dump(mode="json"),
                    folder=str(folder),
                )
                try:
                    for event in events:
                        if event["event"] == "begun":
                            record.write(folder)
                            begun.update(event)
                        watcher.see(event)
                        if event["event"] == "trained":
                            break
                except (TrialFailed, _Stopped):
                    if not signals:
                        raise
                    return {"status": "stopped", "signal": signals[0], "reason": _by(signals[0])}
        finally:
            watcher.end()
            team.end()
        result = {name: value for name, value in event.items() if name != "event"}
        lost = _lost(event, folder)
        if event["finished"]:
            return {"status": "failed" if lost else "finished", "reason": lost, **result}
        number = signals[0] if signals else signal.SIGTERM
        reason = "; ".join(filter(None, (_by(number), lost)))
        return {"status": "stopped", "signal": int(number), "reason": reason, **result}


def _lost(trained: dict[str, Any], folder: Path) -> str:
    """What became of steps that could not be saved, and what was kept; nothing if all are saved."""
    if not trained["unsaved"]:
        return ""
    kept = "no checkpoint was kept"
    if trained["saved"] >= 0:
        path = folder / checkpoint.name(trained["saved"])
        kept = f"{path} is kept, and the same command goes on from there once it can be written"
    return f"step {trained['step']} is not saved: {trained['unsaved']}; {kept}"


def _unmake(new: Sequence[Path]) -> None:
    """Take folders away again that were made for nothing; the first is a run's."""
    for folder in new[:1]:
        shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):  # Somebody else may have put something there.
        for folder in new[1:]:
            folder.rmdir()


def _close(
    record: RunRecord, folder: Path, ended: dict[str, Any], begun: dict[str, Any]
) -> dict[str, Any]:
    """Write how a run ended; how it did, which is badly where that cannot be written."""
    status: Status = ended["status"]
    network = {name: begun[name] for name in ("digest", "parameters", "macs") if name in begun}
    whole = record.ended(
        status,
        ended["reason"],
        step=ended.get("step"),
        versions=begun.get("versions", {}),
        network=network,
    )
    result = {k: v for k, v in ended.items() if k not in ("status", "reason", "signal")}
    try:
        whole.model_copy(update={"result": result or None}).write(folder)
    except BadStore as wrong:
        reason = "; ".join(filter(None, (ended["reason"], str(wrong))))
        failed = ended["status"] == "finished"
        return ended | {"status": "failed" if failed else status, "reason": reason}
    return ended


class _Stopped(Exception):
    """A signal that there is nothing to save for."""


@contextmanager
def _passing_on(team: Team, begun: dict[str, Any]) -> Iterator[list[int]]:
    """Signals that mean "stop soon" reach workers that train; a second Ctrl-C is final."""
    seen: list[int] = []

    def pass_on(number: int, _: object) -> None:
        again = number == signal.SIGINT and number in seen
        seen.append(number)
        if again or not begun:
            raise _Stopped
        team.nudge()

    with heeding(pass_on):
        yield seen


def _by(number: int) -> str:
    return f"stopped by {signal.Signals(number).name}"

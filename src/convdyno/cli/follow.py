"""One run of training in workers of its own: what they say, the signals they get, the record."""

from __future__ import annotations

import shlex
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from convdyno.errors import BadStore, Refused, TrialFailed, UsageError

if TYPE_CHECKING:
    from convdyno.launch.crew import Team
    from convdyno.report.training import Watcher
    from convdyno.results.runs import RunRecord, Status
    from convdyno.trial.spec import Trial
    from convdyno.trial.training import Training, Watching

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP)


def run(
    training: Training, watching: Watching, folder: Path, silence: float, watcher: Watcher,
    start: Callable[[Trial], Team], labels: Mapping[str, str] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """One run in workers of its own, and its record; a failure is a status with a reason."""
    from convdyno.results import facts, runs
    from convdyno.trial.recipes import RECIPES

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as wrong:
        raise UsageError(f"--log-dir {folder} cannot be made: {wrong.strerror}") from None
    about = {"folder": str(folder), "seed": training.trial.seed}
    command = shlex.join(["convdyno", *sys.argv[1:]])
    with runs.claimed(folder):
        recipe = RECIPES.get(training.recipe)
        record = runs.begin(folder, training, watching, recipe, command, facts.machine(), labels)
        watcher.start(training)
        begun: dict[str, Any] = {}
        try:
            ended = _follow(training, watching, folder, silence, watcher, start, begun)
        except TrialFailed as failure:
            ended = {"status": failure.status, "reason": str(failure)}
        except Refused as refusal:
            ended = {"status": "refused", "reason": str(refusal)}
        _close(record, folder, ended, begun, watcher)
    if ended["status"] == "refused":
        raise UsageError(ended["reason"])
    return about | {"versions": begun.get("versions")} | ended


def _follow(
    training: Training, watching: Watching, folder: Path, silence: float, watcher: Watcher,
    start: Callable[[Trial], Team], begun: dict[str, Any],
) -> dict[str, Any]:  # fmt: skip
    """What the workers say, to their end; signals make them save and stop."""
    team = start(training.trial)
    try:
        with _passing_on(team, begun) as signals:
            events = team.events(
                "train",
                silence=silence,
                training=training.model_dump(mode="json"),
                watching=watching.model_dump(mode="json"),
                folder=str(folder),
            )
            try:
                for event in events:
                    if event["event"] == "begun":
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
    if event["finished"]:
        return {"status": "finished", "reason": "", **result}
    number = signals[0] if signals else signal.SIGTERM
    return {"status": "stopped", "signal": int(number), "reason": _by(number), **result}


def _close(
    record: RunRecord, folder: Path, ended: dict[str, Any], begun: dict[str, Any], watcher: Watcher
) -> None:
    """Write how a run ended; a disk that is full by now is no reason to fail."""
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
        watcher.warn(str(wrong))


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

    before = {number: signal.signal(number, pass_on) for number in STOPPING}
    try:
        yield seen
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _by(number: int) -> str:
    return f"stopped by {signal.Signals(number).name}"

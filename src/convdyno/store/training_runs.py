"""The record of a training run: `run.json` in its folder, written when it begins and when it ends.

A run that was interrupted has several attempts; what each was, where and how it ended stays there.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from convdyno import __version__
from convdyno.errors import BadStore, UsageError
from convdyno.files import lock, open_lock, read_plain
from convdyno.store.folder import write_whole
from convdyno.store.record import Amount, Count, KnownFacts, with_facts
from convdyno.trial.recipes import Recipe
from convdyno.trial.training import Training, Watching

NAME = "run.json"
Status = Literal[
    "running", "finished", "stopped", "failed", "oom", "timeout", "nan", "refused", "killed"
]


class _Result(KnownFacts):
    """What is shown in other words than it stands there."""

    seconds: Amount | None = None
    step: Count | None = None
    best: Amount | None = None


class Attempt(BaseModel):
    """One process that trained, from its start to its end."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    status: Status = "running"
    reason: str = ""
    """Why it did not finish."""
    command: str
    """What repeats it."""
    started: str
    ended: str | None = None
    engine: str
    machine: dict[str, Any]
    versions: dict[str, str] = {}
    network: dict[str, Any] = {}
    step: int | None = None
    """Where it ended; None where nobody could tell."""


class RunRecord(BaseModel):
    """Everything about one run of training but its weights and its curves."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: Literal[1] = 1
    convdyno: str = __version__
    status: Status
    training: Training
    watching: Watching
    recipe: Recipe | None
    """As its author has it; `training` has what was given anew."""
    labels: dict[str, str] = {}
    """What the user calls it by."""
    result: Annotated[dict[str, Any], with_facts(_Result)] | None = None
    """What came out, once it has."""
    attempts: tuple[Attempt, ...]

    def ended(self, status: Status, reason: str, **facts: Any) -> RunRecord:
        """The record with its latest attempt ended."""
        *before, latest = self.attempts
        now = latest.model_copy(
            update={"status": status, "reason": reason, "ended": _now(), **facts}
        )
        return self.model_copy(update={"status": status, "attempts": (*before, now)})

    def write(self, folder: Path) -> None:
        """Write it in place of its earlier state."""
        write_whole(folder / NAME, self.model_dump_json(indent=1))


def begin(
    folder: Path,
    training: Training,
    watching: Watching,
    recipe: Recipe | None,
    command: str,
    machine: dict[str, Any],
    labels: Mapping[str, str] | None = None,
) -> RunRecord:
    """The record of a run that begins or goes on in a folder, written there."""
    earlier = _earlier(folder)
    attempt = Attempt(
        command=command, started=_now(), engine=training.trial.engine, machine=machine
    )
    record = RunRecord(
        status="running",
        training=training,
        watching=watching,
        recipe=recipe,
        labels={**(earlier.labels if earlier else {}), **(labels or {})},
        attempts=(*_attempts(earlier), attempt),
    )
    record.write(folder)
    return record


def read_run(folder: Path) -> RunRecord:
    """The record in a run's folder."""
    path = folder / NAME
    try:
        return RunRecord.model_validate_json(read_plain(path))
    except OSError as wrong:
        raise BadStore(f"{path} cannot be read: {wrong.strerror}") from None
    except ValidationError as wrong:
        raise BadStore(f"{path} is no record of a run: {wrong.errors()[0]['msg']}") from None


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Let nobody else train in a folder meanwhile; a kill sets it free."""
    try:
        held = open_lock(folder / ".lock")
    except OSError as wrong:
        raise UsageError(f"{folder} cannot be trained in: {wrong.strerror}") from None
    try:
        if lock(held) is False:
            raise UsageError(f"another process is training in {folder} now")
        yield
    finally:
        os.close(held)


def read_history(path: Path) -> list[dict[str, Any]]:
    """The whole lines of a run's history; a kill may have left half a line at its end."""
    try:
        text = read_plain(path).decode(errors="replace")
    except FileNotFoundError:
        return []
    found = []
    for words in text.splitlines():
        try:
            line = json.loads(words)
        except (ValueError, RecursionError):
            continue
        if isinstance(line, dict) and type(line.get("step")) is int and _sound(line):
            found.append(line)
    return found


def _sound(line: dict[str, Any]) -> bool:
    """Whether what a line of the history tells by numbers are numbers."""
    needed = {"step"} | ({"top1"} if line.get("kind") == "evaluated" else set())
    told = [line.get(name) for name in needed | (line.keys() & {"seconds"})]
    return all(
        isinstance(value, int | float) and abs(value) < 1e18 and not math.isnan(value)
        for value in told
    )


def _earlier(folder: Path) -> RunRecord | None:
    """What was there before."""
    with suppress(BadStore):
        return read_run(folder)
    return None


def _attempts(earlier: RunRecord | None) -> tuple[Attempt, ...]:
    """The attempts so far; one that nobody ended was killed."""
    return tuple(
        one.model_copy(update={"status": "killed"}) if one.status == "running" else one
        for one in (earlier.attempts if earlier else ())
    )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")

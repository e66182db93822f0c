"""The record of a training run: `run.json` in its folder, written when it begins and when it ends.

A run that was interrupted has several attempts; what each was, where and how it ended stays there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from convdyno import __version__
from convdyno.errors import BadStore, UsageError
from convdyno.files import closing, lock, open_lock, read_plain
from convdyno.store.folder import read_document, write_whole
from convdyno.store.index import is_figure
from convdyno.store.record import Amount, Count, Frozen, KnownFacts, with_facts
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


class Attempt(Frozen):
    """One process that trained, from its start to its end."""

    status: Status = "running"
    reason: str = ""
    """Why it did not finish."""
    command: str
    """What repeats it."""
    started: str
    ended: str | None = None
    engine: str
    machine: dict[str, Any]
    versions: dict[str, str] = Field(default={})
    network: dict[str, Any] = Field(default={})
    step: int | None = None
    """Where it ended; None where nobody could tell."""


class RunRecord(Frozen):
    """Everything about one run of training but its weights and its curves."""

    schema_version: Literal[1] = 1
    convdyno: str = __version__
    status: Status
    training: Training
    watching: Watching
    recipe: Recipe | None
    """As its author has it; `training` has what was given anew."""
    labels: dict[str, str] = Field(default={})
    """What the user calls it by."""
    result: Annotated[dict[str, Any], with_facts(_Result)] | None = None
    """What came out, once it has."""
    attempts: tuple[Attempt, ...]

    def ended(self, status: Status, reason: str, **facts: Any) -> RunRecord:
        """The record with its latest attempt ended."""
        *before, latest = self.attempts
        now = latest.but(status=status, reason=reason, ended=_now(), **facts)
        return self.but(status=status, attempts=(*before, now))

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
    """The record of a run that begins or goes on in a folder; not written yet."""
    known: dict[str, str] = {}
    attempts: list[Attempt] = []
    with suppress(BadStore):
        earlier = read_run(folder)
        known, attempts = earlier.labels, list(earlier.attempts)
    for number, one in enumerate(attempts):
        if one.status == "running":  # Nobody has ended it: it was killed.
            attempts[number] = one.but(status="killed")
    engine = training.trial.engine
    attempts.append(Attempt(command=command, started=_now(), engine=engine, machine=machine))
    return RunRecord(
        status="running",
        training=training,
        watching=watching,
        recipe=recipe,
        labels=known | dict(labels or {}),
        attempts=tuple(attempts),
    )


def read_run(folder: Path) -> RunRecord:
    """The record in a run's folder."""
    return read_document(RunRecord, folder / NAME, "record of a run")


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Let nobody else train in a folder meanwhile; a kill sets it free."""
    try:
        held = open_lock(folder / ".lock")
    except OSError as wrong:
        raise UsageError(f"{folder} cannot be trained in: {wrong.strerror}") from None
    with closing(held):
        if lock(held) is False:
            raise UsageError(f"another process is training in {folder} now")
        yield


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
        if isinstance(line, dict) and type(line.get("step")) is int:
            figures = {"step"} | line.keys() & {"seconds"}
            if line.get("kind") == "evaluated":
                figures.add("top1")
            if all(is_figure(line.get(name)) for name in figures):
                found.append(line)
    return found


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")

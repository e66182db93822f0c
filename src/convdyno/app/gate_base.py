"""Who the base of a gate is: another environment, another setting, or a record of earlier."""

from __future__ import annotations

import shlex
import shutil
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from convdyno.app.cells import make_trials
from convdyno.app.requests import GateRequest
from convdyno.errors import BadStore, TrialFailed, UnknownName, UsageError
from convdyno.launch.local import Here, LocalWorker
from convdyno.launch.transport import WORKER
from convdyno.machine import kinds
from convdyno.store.folder import Store, read_record
from convdyno.store.record import Record
from convdyno.trial import axes, parse
from convdyno.trial.spec import Trial

START_SECONDS = 60.0
"""How long a worker may take to say that it is there."""
SETTINGS = axes.names(how=True)
"""What base and candidate may differ in: how the work is done, not what it is."""


@dataclass(frozen=True)
class Base:
    """The base as the options name it: a stored one, or one that runs here."""

    stored: Path | None = None
    command: tuple[str, ...] | None = None
    """What starts its workers; None is what starts the candidate's."""
    folder: Path | None = None
    """Where its workers run, if not here."""
    settings: dict[str, str] | None = None


def read_base(request: GateRequest) -> Base:
    """The base that was asked for; a sentence if it is none or two."""
    stored, python, command = request.base, request.base_python, request.base_command
    folder, settings = request.base_folder, request.base_set
    here = [python, command, folder, settings]
    if request.floor and stored is None and not any(here):
        return Base()
    if stored is not None and any(option is not None for option in here):
        raise UsageError("--base is a record of earlier; the other --base-... run the base here")
    if stored is None and all(option is None for option in here):
        raise UsageError(
            "what is the base? Give --base-python PATH (another environment), --base-set "
            "layout=nchw (another setting), or --base FOLDER (records of earlier)"
        )
    if python is not None and command is not None:
        raise UsageError("--base-python and --base-command both say how the base is started")
    return Base(stored, _command(python, command, folder), folder, _settings(settings))


def _command(
    python: str | None, command: str | None, folder: Path | None
) -> tuple[str, ...] | None:
    if python is None and command is None and folder is None:
        return None
    if command is not None:
        try:
            words = shlex.split(command)
        except ValueError as wrong:
            raise UsageError(f"--base-command {command!r} cannot be split: {wrong}") from None
        if not words:
            raise UsageError("--base-command is empty")
    else:
        words = [str(Path(python).expanduser()) if python else WORKER[0], *WORKER[1:]]
        if shutil.which(words[0]) is None:
            raise UsageError(f"--base-python: there is no program {words[0]!r}")
    if folder is None:
        return tuple(words)
    if not folder.is_dir():
        raise UsageError(f"--base-folder: there is no folder {str(folder)!r}")
    if "/" in words[0]:
        words[0] = str(Path(words[0]).absolute())
    return ("sh", "-c", 'cd "$0" && exec "$@"', str(folder), *words)


def _settings(text: str | None) -> dict[str, str] | None:
    if text is None:
        return None
    found = {
        name.replace("-", "_"): value
        for name, value in parse.labelled("--base-set", text, "layout=nchw,threads=1").items()
    }
    for name in found:
        if name not in SETTINGS:
            raise UnknownName("setting that base and candidate may differ in", name, SETTINGS)
    return found


def greeted(command: Sequence[str]) -> str:
    """The version of convdyno behind a command that starts workers on this machine."""
    shown = shlex.join(command)
    place: dict[str, Any] = {"pins": None, "local_rank": 0, "local_size": 1, "device": "cpu"}
    try:
        worker = LocalWorker(command=command)
    except OSError as wrong:
        raise UsageError(f"the base cannot be started by {shown!r}: {wrong.strerror}") from None
    try:
        said = worker.ask("greet", silence=START_SECONDS, **place)
    except TrialFailed as failure:
        raise UsageError(f"the base's worker does not answer ({shown}): {failure}") from None
    except (ValueError, KeyError):
        raise UsageError(f"{shown!r} starts something that is no worker of convdyno") from None
    finally:
        worker.end()
    if said.get("host") != socket.gethostname():
        raise UsageError(
            f"the base would run on {said.get('host')}, and the candidate here: a gate compares "
            "two on one machine"
        )
    return str(said.get("convdyno", ""))


def base_trials(
    trials: Sequence[Trial], base: Base, given: axes.Given, batches: Mapping[str, int]
) -> list[Trial]:
    """What the base runs, for each of the candidate's trials."""
    made = list(trials)
    if base.settings:
        made = make_trials(Here(), {**given, **base.settings}, batches)
    if len(made) != len(trials):
        raise UsageError("--base-set gives one value for what the candidate has a list of")
    if all(a == b for a, b in zip(made, trials, strict=True)) and base.command is None:
        raise UsageError("base and candidate are the same: --base-set changes nothing")
    return made


def stored_records(folder: Path, machine: dict[str, Any]) -> list[Record]:
    """The newest measured record of each trial in a folder, or the one in a file.

    One of this machine, where there is any.
    """
    found = [read_record(folder)] if folder.is_file() else list(Store(folder).records())
    newest = {
        record.trial_digest: record
        for record in sorted(found, key=lambda record: kinds.same(record.machine, machine))
        if record.status == "ok" and record.measured and record.role in ("", "candidate")
    }
    if not newest:
        raise BadStore(f"{str(folder)!r} has no record of anything that was measured to its end")
    return list(newest.values())


def base_of(trial: Trial, records: Sequence[Record], folder: Path, machine: Any) -> Record:
    """The stored base of a trial: the same trial, measured on this machine."""
    found = next((record for record in records if record.trial == trial), None)
    if found is None:
        nearest = min(records, key=lambda record: len(trial.differs_in(record.trial)))
        other = ", ".join(
            f"{name} {getattr(nearest.trial, name)}" for name in trial.differs_in(nearest.trial)
        )
        raise UsageError(f"{str(folder)!r} has no record of {trial.label}; the nearest has {other}")
    if not kinds.same(found.machine, machine):
        theirs = f"{found.machine.get('host', 'unknown')} ({kinds.kind(found.machine)})"
        ours = f"{machine['host']} ({kinds.kind(machine)})"
        raise UsageError(
            f"the base in {str(folder)!r} was measured on {theirs} and this is {ours}: speeds of "
            "two machines are not compared; run the base here with --base-python or --base-command"
        )
    return found

"""The noise floor: what the same trial differs from itself on a machine, kept for later gates."""

from __future__ import annotations

import datetime
import hashlib
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from convdyno.errors import BadStore
from convdyno.machine.kinds import kind
from convdyno.store.folder import read_document, write_whole
from convdyno.store.record import Frozen
from convdyno.trial.spec import Trial

FOLDER = "floors"


class Floor(Frozen):
    """One trial measured against itself, round by round."""

    schema_version: Literal[1] = 1
    created: str
    """The time, UTC, ISO 8601."""
    host: str
    machine: str
    """What the machine is, in words."""
    trial: Trial
    log_ratios: tuple[float, ...]
    """Of the same trial in both places, one for each round."""
    seconds: float
    """How long measuring it took."""

    @property
    def seconds_per_round(self) -> float:
        """What a round of two cells costs here."""
        return self.seconds / max(1, len(self.log_ratios))

    def write(self, folder: Path) -> Path:
        """Keep it in place of an earlier one of the same trial and machine."""
        path = _path(folder, self.trial, self.host, self.machine)
        return write_whole(path, self.model_dump_json(indent=1))


def new_floor(
    trial: Trial, machine: dict[str, Any], log_ratios: tuple[float, ...], seconds: float
) -> Floor:
    """What was measured just now."""
    return Floor(
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        host=str(machine.get("host", "")),
        machine=kind(machine),
        trial=trial,
        log_ratios=log_ratios,
        seconds=seconds,
    )


def read_floor(folder: Path, trial: Trial, machine: dict[str, Any]) -> Floor | None:
    """What is known of a trial on a machine; None if nothing readable is."""
    path = _path(folder, trial, str(machine.get("host", "")), kind(machine))
    with suppress(BadStore):
        return read_document(Floor, path, "floor")
    return None


def _path(folder: Path, trial: Trial, host: str, machine: str) -> Path:
    place = hashlib.sha256(f"{host}\n{machine}".encode()).hexdigest()
    return folder / FOLDER / f"{trial.digest[:16]}-{place[:8]}.json"

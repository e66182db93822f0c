"""What earlier runs on this machine have shown, kept to plan later ones better.

How long a step of an image and the start of a process take, how much rounds vary, and how fast the
device was seen to be. It is one file for each machine, in the results folder; only what the same
versions have shown is used, and without it everything works, a little slower.
"""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from convdyno.errors import BadStore
from convdyno.machine.kinds import kind
from convdyno.store.folder import read_document, write_whole
from convdyno.store.record import Amount, Count, Frozen, Peak, Seconds
from convdyno.trial.spec import Trial

SpreadOf = Literal["rate", "ratio"]
FOLDER = "history"
MOST = 200
"""So many cells, and so many spreads, are remembered: the newest."""
PEAKS_DAYS = 30.0
"""Peaks that were seen longer ago are looked for again."""


class PastCell(Frozen):
    """One cell of an earlier run."""

    created: str
    """The time, UTC, ISO 8601."""
    work: str
    """Network, mode, precision and engine."""
    versions: str
    seconds_per_image: Seconds
    start_seconds: Amount
    """What one process takes to be opened and warmed up."""
    peaks: tuple[Peak, ...] = ()


class PastSpread(Frozen):
    """How much the rounds of an earlier run varied: of a cell's rate, or of a ratio."""

    what: SpreadOf
    versions: str
    rounds: Count
    variance: Amount
    """Of the logarithms, from round to round."""
    expected: Amount
    """What the turns of the rounds alone would have made of it."""
    turn: Amount
    """Of the logarithms, from turn to turn in a round."""


class History(Frozen):
    """All that is remembered of one machine, oldest first."""

    schema_version: Literal[1] = 1
    host: str = ""
    machine: str = ""
    cells: tuple[PastCell, ...] = ()
    spreads: tuple[PastSpread, ...] = ()

    def cell(self, trial: Trial, versions: str | None = None) -> PastCell | None:
        """The newest of the same work; by the same versions, where these are known."""
        found = (one for one in reversed(self.cells) if one.work == work_of(trial))
        return next((one for one in found if versions in (None, one.versions)), None)

    def peaks(self, trial: Trial, versions: str) -> tuple[Peak, ...]:
        """How fast the device was seen to be at this precision, if not too long ago."""
        end = f"{trial.precision} {trial.engine}"
        for one in reversed(self.cells):
            fits = one.versions == versions and one.work.endswith(end) and one.peaks
            if fits and _days_since(one.created) <= PEAKS_DAYS:
                return tuple(peak.but(seen=peak.seen or one.created) for peak in one.peaks)
        return ()

    def with_run(self, cells: Sequence[PastCell], spreads: Sequence[PastSpread]) -> History:
        """The same with what a run has shown, and without what is too old."""
        return self.but(
            cells=(*self.cells, *cells)[-MOST:], spreads=(*self.spreads, *spreads)[-MOST:]
        )


def work_of(trial: Trial) -> str:
    """What must be alike for the time of an image to be alike."""
    form = (
        f"{trial.image_size or ''}/{trial.width:g}/{trial.layout}/{trial.kernels}/{trial.compile}"
    )
    return f"{trial.network} {form} {trial.data} {trial.mode} {trial.precision} {trial.engine}"


def versions_of(versions: Mapping[str, str]) -> str:
    """Versions in one word that is another when any of them is."""
    return ", ".join(f"{name} {version}" for name, version in sorted(versions.items()))


def read_history(folder: Path, machine: Mapping[str, Any]) -> tuple[History, str]:
    """What is remembered of a machine, and a sentence about what cannot be read and is set aside.

    What has come from another machine, with its folder, is not used.
    """
    path, nothing = _path(folder, machine), History.model_validate(_about(machine))
    if not path.exists():
        return nothing, ""
    try:
        found = read_document(History, path, "history")
    except BadStore as wrong:
        aside = path.with_suffix(".unreadable")
        with suppress(OSError):
            path.replace(aside)
        return nothing, f"{wrong}; it was set aside as {aside.name}, and a new one is begun"
    same = (found.host, found.machine) == (nothing.host, nothing.machine)
    return (found if same else nothing), ""


def write_history(folder: Path, history: History, machine: Mapping[str, Any]) -> Path:
    """Keep it in place of what was remembered before."""
    return write_whole(_path(folder, machine), history.model_dump_json(indent=1))


def _about(machine: Mapping[str, Any]) -> dict[str, str]:
    return {"host": str(machine.get("host", "")), "machine": kind(machine)}


def _path(folder: Path, machine: Mapping[str, Any]) -> Path:
    place = hashlib.sha256("\n".join(_about(machine).values()).encode()).hexdigest()
    return folder / FOLDER / f"{place[:12]}.json"


def _days_since(moment: str) -> float:
    try:
        then = datetime.datetime.fromisoformat(moment)
        return (datetime.datetime.now(datetime.UTC) - then).total_seconds() / 86400
    except (ValueError, TypeError):
        return float("inf")

"""Old results out of the way: moved into `archived/DATE` below their folder, a store like it."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from convdyno.errors import BadStore

FOLDER = "archived"
DERIVED = ("scaling-*.csv", "scaling-*.csv.ideal", "scaling-*.svg")
"""Files beside the records that are made of them."""


@dataclass(frozen=True)
class Archived:
    """What was moved, and where to."""

    folder: Path
    records: int
    others: int


def archive(folder: Path, names: Sequence[str], *, derived: bool) -> Archived:
    """Move these files of records, and what was made of them if `derived`, into a new folder."""
    if strange := [name for name in names if Path(name).name != name]:
        raise BadStore(f"{strange[0]!r} is no file of {str(folder)!r}")
    target = _new_folder(folder / FOLDER)
    files = [folder / name for name in names]
    others = [path for pattern in DERIVED for path in folder.glob(pattern)] if derived else []
    try:
        target.mkdir(parents=True)
        for path in (*files, *others):
            path.rename(target / path.name)
    except OSError as wrong:
        raise BadStore(f"results cannot be moved to {str(target)!r}: {wrong.strerror}") from None
    return Archived(target, len(files), len(others))


def _new_folder(parent: Path) -> Path:
    """`2026-11-16`, or with a number if there is one of that day already."""
    today = datetime.date.today()
    names = (f"{today}{f'-{n}' if n > 1 else ''}" for n in range(1, 10_000))
    return next(parent / name for name in names if not (parent / name).exists())

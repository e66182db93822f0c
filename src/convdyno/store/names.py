"""What records and runs are called, and how a name may be shortened."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from convdyno.errors import BadStore

MOST_LETTERS = 200
ID = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._+-]{{0,{MOST_LETTERS - 1}}}")
"""What a record may be called: the name of a file, wherever it is taken to, and no path."""
MOST_NAMED = 10
"""So many names stand in a sentence."""


def record_files(folder: Path) -> list[os.DirEntry[str]]:
    """What may be records in a folder, in the order of their names."""
    try:
        with os.scandir(folder) as entries:
            found = [one for one in entries if one.name.endswith(".json") and one.name[0] != "."]
    except (FileNotFoundError, NotADirectoryError):
        hint = "`convdyno bench` makes one"
        raise BadStore(f"there is no results folder {str(folder)!r}; {hint}") from None
    except OSError as wrong:
        raise BadStore(f"{folder} cannot be read: {wrong.strerror}") from None
    return sorted(found, key=lambda one: one.name)


def shortened(wanted: str, names: Sequence[str], what: str) -> str:
    """The name that is or begins with `wanted`; `last` is the last of them."""
    if wanted == "last" and names:
        return names[-1]
    found = [wanted] if wanted in names else [name for name in names if name.startswith(wanted)]
    if len(found) == 1:
        return found[0]
    if not found:
        inside = [name for name in names if wanted in name]
        within = f"; {_some(inside)} {'has' if len(inside) == 1 else 'have'} it inside"
        raise BadStore(f"no {what} begins with {wanted!r} (of {len(names)}){within * bool(inside)}")
    raise BadStore(f"{wanted!r} is the beginning of more than one {what}: {_some(found)}")


def _some(names: Sequence[str]) -> str:
    """The first names of many."""
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more

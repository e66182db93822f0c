"""What training showed while it went on: one JSON line each, none twice."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


class History:
    """A file of lines; when a run is taken up again, lines after its checkpoint are dropped."""

    def __init__(self, path: Path, after: int) -> None:
        self._path = path
        kept = [line for line in _lines(path) if json.loads(line)["step"] <= after]
        part = path.with_name(f".{path.name}-{os.getpid()}.part")
        part.write_text("".join(f"{line}\n" for line in kept))
        part.replace(path)

    def add(self, facts: dict[str, Any]) -> None:
        """Write one line at the end."""
        with self._path.open("a") as file:
            file.write(json.dumps(facts) + "\n")


def _lines(path: Path) -> list[str]:
    """The whole lines of the file; a kill may have left half a line at its end."""
    if not path.exists():
        return []
    found = []
    for line in path.read_text().splitlines():
        try:
            whole = isinstance(json.loads(line)["step"], int)
        except (ValueError, KeyError, TypeError):
            whole = False
        if whole:
            found.append(line)
    return found

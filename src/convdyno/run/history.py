"""What training showed while it went on: one JSON line each, none twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from convdyno.files import write_whole
from convdyno.results.runs import read_history

WHEN = ("kind", "time", "seconds")
"""What a line says about itself: its kind, when it was, and after how long a training."""


class History:
    """A file of lines; when a run is taken up again, lines after its checkpoint are dropped."""

    def __init__(self, path: Path, after: int) -> None:
        self._path = path
        self._kept = [line for line in read_history(path) if line["step"] <= after]
        self._cut = False
        write_whole(path, "".join(json.dumps(line) + "\n" for line in self._kept))

    def last(self, kind: str) -> dict[str, Any] | None:
        """What the latest line of a kind says that was there when the file was opened."""
        found = [line for line in self._kept if line.get("kind") == kind]
        if not found:
            return None
        return {name: value for name, value in found[-1].items() if name not in WHEN}

    def add(self, facts: dict[str, Any]) -> None:
        """Write one line at the end."""
        line = ("\n" if self._cut else "") + json.dumps(facts) + "\n"
        self._cut = True  # A full disk may take half a line.
        with self._path.open("a") as file:
            file.write(line)
        self._cut = False

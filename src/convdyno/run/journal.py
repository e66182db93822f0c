"""What training showed while it went on: lines of its history, points of TensorBoard's curves."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from convdyno.blueprint.weights import Weights
from convdyno.files import write_whole
from convdyno.run.tensorboard import EventFiles
from convdyno.store.training_runs import read_history

WHEN = ("kind", "time", "seconds")
"""What a line says about itself: its kind, when it was, and after how long a training."""


class Journal:
    """A run's history and its files for TensorBoard; a full disk costs lines, never training."""

    def __init__(self, folder: Path, after: int, warn: Callable[[str], None]) -> None:
        self._warn = warn
        self._history = History(folder / "history.jsonl", after)
        self._event_files = EventFiles(folder, after, warn)

    def last(self, kind: str) -> dict[str, Any] | None:
        """What the latest line of a kind says that was there when the journal was opened."""
        return self._history.last(kind)

    def note(self, kind: str, step: int, facts: dict[str, Any], scalars: dict[str, Any]) -> None:
        """One line of the history, and points of curves."""
        try:
            self._history.add({"kind": kind, "time": time.time(), **facts})
        except OSError as wrong:
            self._warn(f"the history was not written: {wrong.strerror}")
        self._event_files.scalars(step, scalars)

    def pictures(self, step: int, weights: Weights, images: Any) -> None:
        """How the weights are distributed, and some of the images that are being trained on."""
        self._event_files.pictures(step, weights, images)

    def close(self) -> None:
        """Write what is left."""
        self._event_files.close()


class History:
    """A file of JSON lines; when a run is taken up again, those after its checkpoint go."""

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

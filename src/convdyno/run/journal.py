"""What training showed while it went on: lines of its history, points of TensorBoard's curves."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from convdyno.blueprint.weights import Weights
from convdyno.files import write_whole
from convdyno.store.training_runs import read_history

WHEN = ("kind", "time", "seconds")
"""What a line says about itself: its kind, when it was, and after how long a training."""
SCALARS = {
    "loss": "train/loss",
    "rate": "train/learning rate",
    "images_per_second": "speed/images per second",
    "wait_share": "speed/share of time waiting for data",
    "test_top1": "test/top-1",
    "test_top5": "test/top-5",
    "test_loss": "test/loss",
}
FLUSH_SECONDS = 10.0
_EDGES = 1e-12 * 1.1 ** np.arange(774)
BINS = np.concatenate([-_EDGES[::-1], [0.0], _EDGES])
"""Of histograms: as TensorFlow has them, each a tenth wider than the one before."""


class Journal:
    """A run's history and its files for TensorBoard; a full disk costs lines, never training.

    The history is JSON lines; when a run is taken up again, those after its checkpoint go.
    """

    def __init__(self, folder: Path, after: int, warn: Callable[[str], None]) -> None:
        self._warn, self._path = warn, folder / "history.jsonl"
        self._kept = [line for line in read_history(self._path) if line["step"] <= after]
        self._cut = self._warned = False
        write_whole(self._path, "".join(json.dumps(line) + "\n" for line in self._kept))
        self.event_files = EventFiles(folder, after, warn)

    def last(self, kind: str) -> dict[str, Any] | None:
        """What the latest line of a kind says that was there when the journal was opened."""
        found = [line for line in self._kept if line.get("kind") == kind]
        if not found:
            return None
        return {name: value for name, value in found[-1].items() if name not in WHEN}

    def note(self, kind: str, step: int, facts: dict[str, Any], scalars: dict[str, Any]) -> None:
        """One line of the history, and points of curves."""
        said = json.dumps({"kind": kind, "time": time.time(), **facts})
        line = ("\n" if self._cut else "") + said + "\n"
        self._cut = True  # A full disk may take half a line.
        try:
            with self._path.open("a") as file:
                file.write(line)
            self._cut = False
        except OSError as wrong:
            if not self._warned:
                self._warn(f"the history was not written: {wrong.strerror}")
            self._warned = True
        self.event_files.scalars(step, scalars)


class EventFiles:
    """Event files of TensorBoard in the run's own folder; none where it is not installed.

    They are written at once and by no thread of their own. A full disk costs points of the curves
    and one warning, never the training.
    """

    def __init__(self, folder: Path, after: int, warn: Callable[[str], None]) -> None:
        self._folder, self._after, self._warn = folder, after, warn
        self._writer: Any = None
        self._warned = False
        self._flushed = time.perf_counter()
        self.on = find_spec("tensorboardX") is not None
        """Whether anything is written."""

    def scalars(self, step: int, shown: dict[str, Any]) -> None:
        """Points of curves."""
        if not self.on:
            return
        from tensorboardX import summary

        points = [summary.scalar(SCALARS[name], shown[name]) for name in SCALARS if name in shown]
        self._write(step, points, flush=time.perf_counter() - self._flushed > FLUSH_SECONDS)

    def pictures(self, step: int, weights: Weights, images: Any) -> None:
        """How the weights are distributed, and some of the images that are being trained on."""
        if not self.on:
            return
        from tensorboardX import summary

        shown = [summary.histogram(name, array, BINS) for name, array in weights.items()]
        if find_spec("PIL") is not None:
            shown += [
                summary.image(f"train/images/{number}", image, dataformats="HWC")
                for number, image in enumerate(images)
            ]
        self._write(step, shown, flush=True)

    def close(self) -> None:
        """Write what is left."""
        if self._writer is not None:
            self._write(0, [], flush=True)
            self._writer = None

    def _write(self, step: int, summaries: list[Any], *, flush: bool) -> None:
        from tensorboardX.proto.event_pb2 import Event

        try:
            writer = self._writer = self._writer or self._open()
            for one in summaries:
                writer.write_event(Event(wall_time=time.time(), step=step, summary=one))
            if flush:
                writer.flush()
                self._flushed = time.perf_counter()
        except OSError as wrong:
            self._writer = None
            if not self._warned:
                self._warned = True
                self._warn(f"TensorBoard's file was not written: {wrong.strerror}")

    def _open(self) -> Any:
        from tensorboardX.event_file_writer import EventsWriter
        from tensorboardX.proto.event_pb2 import Event, SessionLog

        writer = EventsWriter(str(self._folder / "events"), f".{os.getpid()}")
        if self._after:
            # Points after the checkpoint belong to a run that was killed: they are hidden.
            start = SessionLog(status=SessionLog.START)
            writer.write_event(Event(step=self._after + 1, session_log=start))
        return writer

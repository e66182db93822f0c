"""What TensorBoard shows of a run; nothing where it is not installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from convdyno.blueprint.weights import Weights

SCALARS = {
    "loss": "train/loss",
    "rate": "train/learning rate",
    "images_per_second": "speed/images per second",
    "wait_share": "speed/share of time waiting for data",
    "test_top1": "test/top-1",
    "test_top5": "test/top-5",
    "test_loss": "test/loss",
}


class Summaries:
    """Event files in the run's own folder."""

    def __init__(self, folder: Path, after: int) -> None:
        self._writer: Any = None
        try:
            from tensorboardX import SummaryWriter
        except ImportError:
            return
        # Points after the checkpoint belong to a run that was killed: they are hidden.
        self._writer = SummaryWriter(str(folder), purge_step=after + 1 if after else None)

    @property
    def on(self) -> bool:
        """Whether anything is written."""
        return self._writer is not None

    def scalars(self, step: int, shown: dict[str, Any]) -> None:
        """Points of curves."""
        if self._writer is None:
            return
        for name, title in SCALARS.items():
            if name in shown:
                self._writer.add_scalar(title, shown[name], step)

    def pictures(self, step: int, weights: Weights, images: Any = None) -> None:
        """How the weights are distributed, and some of the images that are being trained on."""
        if self._writer is None:
            return
        for name, array in weights.items():
            self._writer.add_histogram(name, array, step)
        if images is not None:
            self._writer.add_images("train/images", images, step, dataformats="NHWC")
        self._writer.flush()

    def close(self) -> None:
        """Write what is left."""
        if self._writer is not None:
            self._writer.close()

"""How good a network is: every image of a split exactly once, the last partial batch too."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convdyno.data.synthetic import HostBatch
from convdyno.engines.contract import Session
from convdyno.stats.accuracy import wilson

TOP = 5


@dataclass(frozen=True)
class Evaluation:
    """What was counted."""

    images: int
    top1: int
    """Images whose class has the highest score; a tie is won by the lower class."""
    top5: int
    loss: float
    """The mean cross-entropy."""
    confusion: NDArray[np.int64]
    """Rows are the classes of the images, columns those that were answered."""

    def to_data(self, classes: tuple[str, ...], *, full: bool = False) -> dict[str, Any]:
        """The evaluation for machines, with intervals; `full` adds what each class came to."""
        data: dict[str, Any] = {
            "images": self.images,
            "top1_images": self.top1,
            "top5_images": self.top5,
            "top1": self.top1 / self.images,
            "top1_interval": wilson(self.top1, self.images),
            "top5": self.top5 / self.images,
            "top5_interval": wilson(self.top5, self.images),
            "loss": self.loss,
        }
        if full:
            counts = self.confusion.sum(axis=1)
            data["classes"] = [
                {
                    "name": name,
                    "images": int(counts[i]),
                    "top1": float(self.confusion[i, i] / counts[i]) if counts[i] else None,
                }
                for i, name in enumerate(classes)
            ]
            data["confusion"] = self.confusion.tolist()
        return data


def evaluate(session: Session, batches: Iterable[HostBatch], classes: int) -> Evaluation:
    """Count over all batches."""
    images = top1 = top5 = 0
    loss = 0.0
    confusion = np.zeros((classes, classes), np.int64)
    for pixels, labels in batches:
        truth = labels.copy()
        scores = session.logits(session.place(pixels, labels)).astype(np.float64)
        own = scores[np.arange(len(truth)), truth][:, None]
        # How many classes come before the right one; an equal score does if its class is lower.
        lower = np.arange(scores.shape[1])[None, :] < truth[:, None]
        before = ((scores > own) | ((scores == own) & lower)).sum(axis=1)
        images += len(truth)
        top1 += int((before == 0).sum())
        top5 += int((before < TOP).sum())
        highest = scores.max(axis=1, keepdims=True)
        loss += float((np.log(np.exp(scores - highest).sum(axis=1)) - (own - highest)[:, 0]).sum())
        np.add.at(confusion, (truth, scores.argmax(axis=1)), 1)
    return Evaluation(images, top1, top5, loss / max(1, images), confusion)

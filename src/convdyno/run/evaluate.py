"""How good a network is: every image of a split exactly once, the last partial batch too."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convdyno.blueprint.graph import Blueprint, is_state
from convdyno.blueprint.weight_file import read_header
from convdyno.blueprint.weights import Weights
from convdyno.data.detect import open_source
from convdyno.data.source import DecodedImages
from convdyno.data.synthetic import HostBatch
from convdyno.data.tolerance import Tolerance
from convdyno.engines.contract import Engine, Session, State
from convdyno.errors import BadData, LossLost, UsageError
from convdyno.run import checkpoint
from convdyno.run.feed import blueprint_of, make_pipeline
from convdyno.run.ranks import Ranks, pack, unpack
from convdyno.stats.accuracy import wilson
from convdyno.trial.spec import Trial

TOP = 5
Told = tuple[int, int, int, float, list[list[int]]]
"""Images, top-1, top-5, the sum of losses; of the confusion: rows, columns, counts above 0."""


@dataclass(frozen=True)
class EvaluationCounts:
    """What was counted."""

    images: int
    top1: int
    """Images whose class has the highest score; a tie is won by the lower class."""
    top5: int
    loss_sum: float
    """Of cross-entropies."""
    confusion: NDArray[np.int64]
    """Rows are the classes of the images, columns those that were answered."""

    @property
    def loss(self) -> float:
        """The mean cross-entropy."""
        return self.loss_sum / self.images

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


def evaluate(
    session: Session, batches: Iterable[HostBatch], classes: int, ranks: Ranks | None = None
) -> EvaluationCounts:
    """Count over all batches, and over those of the other ranks."""
    return together((ranks or Ranks()).gather(count(session, batches, classes)), classes)


def count(session: Session, batches: Iterable[HostBatch], classes: int) -> Told:
    """What the others hear of one rank's share, of which there may be nothing."""
    images = top1 = top5 = 0
    loss = 0.0
    confusion = np.zeros((classes, classes), np.int64)
    for pixels, labels in batches:
        truth = labels.copy()
        scores = session.logits(session.place(pixels, labels)).astype(np.float64)
        if not np.isfinite(scores).all():
            raise LossLost("the network's scores of some test images are not finite numbers")
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
    pairs = np.nonzero(confusion)
    seen = [*(axis.tolist() for axis in pairs), confusion[pairs].tolist()]
    return images, top1, top5, loss, seen


def together(shares: Iterable[Told], classes: int) -> EvaluationCounts:
    """What all ranks have counted, as if one had."""
    images = top1 = top5 = 0
    loss = 0.0
    confusion = np.zeros((classes, classes), np.int64)
    for share in shares:
        images, top1, top5 = images + share[0], top1 + share[1], top5 + share[2]
        loss += share[3]
        truth, answered, counts = np.array(share[4], np.int64).reshape(3, -1)
        np.add.at(confusion, (truth, answered), counts)
    if not images:
        raise BadData("there is no test image that can be read")
    return EvaluationCounts(images, top1, top5, loss, confusion)


class EvaluationStopped(Exception):
    """Somebody asked to end while the test images were looked at."""


def examine(
    session: Session, share: Iterable[HostBatch], blueprint: Blueprint, averaged: bool,
    ranks: Ranks,
) -> EvaluationCounts | None:  # fmt: skip
    """What all ranks count, each on its share; None if `Stopped` came out of one of the shares."""
    told = None
    with _as_judged(session, blueprint, averaged, ranks), suppress(EvaluationStopped):
        told = count(session, share, blueprint.classes)
    shares = [share for share in ranks.gather(told) if share is not None]
    return together(shares, blueprint.classes) if len(shares) == ranks.world.size else None


def alive(batches: Iterable[HostBatch], say: Callable[..., None]) -> Iterator[HostBatch]:
    """Batches as they come, with a sign of life about once a second."""
    last = time.perf_counter()
    for batch in batches:
        yield batch
        if (now := time.perf_counter()) - last > 1:
            last = now
            say("progress", what="evaluating")


class TrainedNetwork:
    """A checkpoint to be evaluated: its weights without auxiliary heads, and its test images.

    The trial says which engine looks at which data, and has the network as it was trained.
    """

    def __init__(self, path: Path, trial: Trial, ranks: Ranks, *, averaged: bool = True) -> None:
        self._trial, self._ranks = trial, ranks
        with ranks.file_of_first(path) as file:
            trained = checkpoint.standing_of(read_header(file)).training.trial
            weights, state, standing = checkpoint.load(file, blueprint_of(trained))
        self._step, self._classes = standing.step, standing.classes
        self._blueprint = blueprint_of(trial)
        prefix = "average/"
        self._averaged = averaged and all(prefix + name in state for name in weights)
        chosen = {n: state[prefix + n] for n in weights} if self._averaged else weights
        self._weights = {name: chosen[name] for name in self._blueprint.weights}
        self._source = open_source(trial.data, "validation")
        found = self._source.facts.classes
        if found != standing.classes:
            raise UsageError(
                f"{trial.data} has other classes than {path} was trained on "
                f"({len(found)} and {len(standing.classes)}; the first that differs "
                f"is {_first_difference(found, standing.classes)})"
            )

    def evaluate(
        self, engine: Engine, say: Callable[..., None], *, full: bool = False
    ) -> dict[str, Any]:
        """What it gets right, and what it took to find out."""
        trial, source, world = self._trial, self._source, self._ranks.world
        tolerance = Tolerance(trial.on_bad, len(source))
        with ExitStack() as kept:
            if not isinstance(source, DecodedImages):
                kept.callback(source.close)
            session = engine.open(self._blueprint, trial, self._weights)
            pipeline = kept.enter_context(
                make_pipeline(
                    source, self._blueprint, trial, world, train=False, tolerance=tolerance
                )
            )
            start = time.perf_counter()
            batches, classes = alive(pipeline, say), self._blueprint.classes
            found = evaluate(session, batches, classes, self._ranks)
            skipped = sum(self._ranks.gather(tolerance.count))
            if skipped > tolerance.share * len(source):
                raise BadData(
                    f"{skipped} of {len(source)} examples are damaged, more than the "
                    f"{tolerance.share:.3g} of them that may be skipped"
                )
            return found.to_data(self._classes, full=full) | {
                "step": self._step,
                "averaged": self._averaged,
                "skipped": skipped,
                "seconds": time.perf_counter() - start,
                "versions": engine.versions(),
                "input": pipeline.facts(),
            }


@contextmanager
def _as_judged(
    session: Session, blueprint: Blueprint, averaged: bool, ranks: Ranks
) -> Iterator[None]:
    """The session with what is judged: the same batch-norm statistics on all ranks, averages."""
    names = blueprint.weights
    if not averaged and (ranks.alone or not any(map(is_state, names))):
        yield
        return
    weights, state = session.weights(), session.state()
    if not ranks.alone:
        weights, state = _of_first(weights, state, ranks)
    session.load({n: state[f"average/{n}"] for n in names} if averaged else weights)
    try:
        yield
    finally:
        session.load(weights)
        session.restore(state)


def _of_first(weights: Weights, state: State, ranks: Ranks) -> tuple[Weights, State]:
    """The same with the statistics of rank 0, which are those of the network.

    Training does not compute with them, so that the other ranks can keep them.
    """
    mine = [
        pack({name: array for name, array in arrays.items() if is_state(name)})
        for arrays in (weights, state)
    ]
    told = ranks.agree(mine if ranks.first else [])
    return weights | unpack(told[0]), state | unpack(told[1])


def _first_difference(one: tuple[str, ...], other: tuple[str, ...]) -> str:
    pairs = zip_longest(one, other, fillvalue="none")
    return next((f"{a!r} instead of {b!r}" for a, b in pairs if a != b), "none")

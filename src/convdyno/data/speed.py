"""How fast the pipeline alone is, and what an image costs: reading, decoding, transforming."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from convdyno.data.batch_filler import PixelRecipe
from convdyno.data.pipeline import Pipeline
from convdyno.data.source import DecodedImages
from convdyno.data.tolerance import Tolerance

BLOCK_SECONDS = 0.4
SAMPLE = 128
"""Examples that the parts are measured on."""
PASSES = 3
PART_SECONDS = 0.3
"""At least, for each part."""
HELD_BYTES = 1 << 29
"""Of decoded images, at most."""


@dataclass(frozen=True, slots=True)
class TimedBatches:
    """Some batches, timed together."""

    batches: int
    seconds: float
    waited_seconds: float


@dataclass(frozen=True, slots=True)
class Parts:
    """What one image costs one thread, in seconds, on the mean of a sample."""

    read_seconds: float
    decode_seconds: float
    transform_seconds: float
    bytes: float
    """Compressed, or held in an array."""

    @property
    def seconds(self) -> float:
        """The sum of all parts."""
        return self.read_seconds + self.decode_seconds + self.transform_seconds


def blocks(pipeline: Pipeline, seconds: float) -> list[TimedBatches]:
    """Time the pipeline for so long, after what it had made ahead has been used up."""
    for _ in range(int(str(pipeline.facts()["prefetch"])) + 2):
        next(pipeline)
    many = 1  # One batch tells little: it may have been ready by chance.
    while _timed(pipeline, many).seconds < BLOCK_SECONDS:
        many *= 2
    found: list[TimedBatches] = []
    end = time.perf_counter() + seconds
    while len(found) < 2 or time.perf_counter() < end:
        found.append(_timed(pipeline, many))
    return found


def _timed(pipeline: Pipeline, batches: int) -> TimedBatches:
    waited, start = pipeline.wait_seconds, time.perf_counter()
    for _ in range(batches):
        next(pipeline)
    return TimedBatches(batches, time.perf_counter() - start, pipeline.wait_seconds - waited)


def parts(recipe: PixelRecipe) -> Parts:
    """Measure the parts by leaving them out one after another: hold bytes, then hold pixels."""
    source = recipe.source
    sample = min(SAMPLE, len(source))
    if isinstance(source, DecodedImages):
        return Parts(0.0, 0.0, _filling(recipe, sample), source.images[0].nbytes)
    sizes = [len(source.read(index).data) for index in range(sample)]
    read = _per_image(lambda: [source.read(index) for index in range(sample)], sample)
    whole = _filling(recipe.holding(sample, decoded=False), sample)
    decoded = recipe.holding(_that_fit(recipe, sample), decoded=True)
    transform = _filling(decoded, sample)
    return Parts(read, max(0.0, whole - transform), transform, float(np.mean(sizes)))


def _that_fit(recipe: PixelRecipe, sample: int) -> int:
    assert not isinstance(recipe.source, DecodedImages)
    example = recipe.source.read(0)
    height, width = recipe.reader().open(example.data, example.where)
    return max(1, min(sample, HELD_BYTES // (height * width * recipe.image[2])))


def _filling(recipe: PixelRecipe, sample: int) -> float:
    filler, strict = recipe.filler(), Tolerance("error", sample)
    images = np.empty((sample, *recipe.image), np.uint8)
    labels, numbers = np.empty(sample, np.int64), np.arange(sample, dtype=np.int64)
    return _per_image(lambda: filler.fill(0, numbers, images, labels, strict.bad), sample)


def _per_image(run: Callable[[], object], count: int) -> float:
    """The median over some passes: a disturbance lasts shorter than half of them."""
    run()
    times: list[float] = []
    while len(times) < PASSES or sum(times) < PART_SECONDS:
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return statistics.median(times) / count

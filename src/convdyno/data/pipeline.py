"""Batches of real images, ready ahead of time: threads decode into buffers that are used again.

What a batch holds depends on the source, the settings, the seed and its place (epoch, number)
alone: not on threads, and over all ranks together not on their number either.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np

from convdyno.data import augment
from convdyno.data.augment import Transform
from convdyno.data.batch_filler import Filler, PixelRecipe
from convdyno.data.counter_rng import shuffled
from convdyno.data.decode import Choice, chosen
from convdyno.data.source import DecodedImages, Labels, Pixels, Source
from convdyno.data.tolerance import Tolerance
from convdyno.errors import BadData, UnknownName, UsageError
from convdyno.machine.processor import core_count

Cache = Literal["none", "bytes", "decoded"]
CACHES = {
    "none": "examples are read from the source each time",
    "bytes": "some compressed examples are held in memory and used in turn",
    "decoded": "some decoded images are held in memory and used in turn",
}
CHUNK = 4
"""Examples that a thread takes at a time: few, so that a batch is soon complete."""


class Position(NamedTuple):
    """A place in training: the epoch and the batch in it, both from 0."""

    epoch: int
    batch: int


class BatchOrder:
    """Which examples are in which batch of a rank.

    Endless, as in training: each epoch is a new order of all examples, cut into global batches of
    batch x size, of which each rank takes its part; what is left at the end is dropped, on all
    ranks alike, and is in the next epoch's order again. A set smaller than one global batch is
    repeated to fill it.

    Not endless, as in evaluation: one pass in the source's order; each rank takes an equal stretch
    of it, and its last batch may be smaller.
    """

    def __init__(
        self, count: int, batch: int, *, endless: bool, seed: int = 0, rank: int = 0, size: int = 1
    ) -> None:
        if count < 1:
            raise BadData("the data set has no examples")
        if batch < 1 or size < 1 or not 0 <= rank < size:
            raise UsageError(f"batch {batch} for rank {rank} of {size} is not possible")
        self.count, self.batch, self.endless = count, batch, endless
        self._seed, self._rank, self._size = seed, rank, size
        self._first, self._last = count * rank // size, count * (rank + 1) // size
        self._orders: dict[int, Labels] = {}
        if endless:
            self.batches = max(1, count // (batch * size))
            """In an epoch, of this rank."""
        else:
            self.batches = -(-(self._last - self._first) // batch)

    def examples(self, at: Position) -> Labels:
        """The examples of a batch, in order."""
        if not self.endless:
            first = self._first + at.batch * self.batch
            return np.arange(first, min(first + self.batch, self._last), dtype=np.int64)
        first = (at.batch * self._size + self._rank) * self.batch
        return self._order(at.epoch)[first : first + self.batch]

    def _order(self, epoch: int) -> Labels:
        if epoch not in self._orders:
            order = shuffled(self._seed, epoch, self.count)
            least = self.batch * self._size
            self._orders = {e: o for e, o in self._orders.items() if e == epoch - 1}
            self._orders[epoch] = np.resize(order, least) if self.count < least else order
        return self._orders[epoch]


class Pipeline:
    """An iterator of batches (uint8 NHWC images, int64 labels); endless in training by default.

    A batch stays as it is until the next one is asked for; then its memory is used again.
    """

    def __init__(
        self,
        source: Source,
        *,
        batch: int,
        image: tuple[int, int, int],
        train: bool,
        transform: Transform | None = None,
        seed: int = 0,
        rank: int = 0,
        size: int = 1,
        threads: int | None = None,
        prefetch: int = 2,
        decoder: Choice = "auto",
        tolerance: Tolerance | None = None,
        classes: int | None = None,
        start: tuple[int, int] = (0, 0),
        endless: bool | None = None,
        cache: Cache = "none",
        cached: int = 512,
    ) -> None:
        threads = threads or core_count()
        if threads < 1 or prefetch < 1:
            raise UsageError("a pipeline needs at least one thread and one batch ahead")
        if cache not in CACHES:
            raise UnknownName("cache", cache, CACHES)
        transform = transform or augment.usual(source.facts.kind)
        recipe = PixelRecipe(source, image, train, transform, seed, chosen(decoder), classes)
        if cache != "none":
            recipe = recipe.holding(cached, decoded=cache == "decoded")
        endless = train if endless is None else endless
        self.schedule = BatchOrder(
            len(source), batch, endless=endless, seed=seed, rank=rank, size=size
        )
        self.wait_seconds = 0.0
        """How long the consumer has waited for batches so far."""
        self._facts = {
            "decoder": recipe.decoder if not isinstance(source, DecodedImages) else "none",
            "fidelity": transform.fidelity,
            "crop": transform.crop if train else transform.view,
            "resize": transform.resize,
            "mirror": transform.mirror and train,
            "colour": transform.colour if train else "off",
            "threads": threads,
            "prefetch": prefetch,
            "cache": cache,
            "cached": None if cache == "none" else min(cached, len(source)),
        }
        epoch, first = start
        if epoch < 0 or first < 0 or (not endless and epoch):
            raise UsageError(f"there is no batch {first} of epoch {epoch} to start at")
        first += epoch * self.schedule.batches
        tolerance = tolerance or Tolerance("error", len(source))
        decoders = self._decoders = _Decoders(recipe, self.schedule, first, prefetch + 1, tolerance)
        # The threads know the decoders alone: when nobody knows the pipeline any more, they end; so
        # they do when the interpreter does.
        self._finish = weakref.finalize(self, decoders.stop)
        decoders.begin(threads)

    @property
    def position(self) -> Position:
        """The place of the batch that comes next; `start` takes up there again."""
        return self._decoders.position(self._decoders.given + 1)

    def facts(self) -> dict[str, object]:
        """What ran, for the record."""
        return dict(self._facts)

    def __iter__(self) -> Iterator[tuple[Pixels, Labels]]:
        return self

    def __next__(self) -> tuple[Pixels, Labels]:
        start = time.perf_counter()
        try:
            return self._decoders.next()
        except BaseException:
            self.close()
            raise
        finally:
            self.wait_seconds += time.perf_counter() - start

    def close(self) -> None:
        """End the threads; the source stays open."""
        self._finish()

    def __enter__(self) -> Pipeline:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass(eq=False)
class _Batch:
    """A batch while it is being filled."""

    number: int
    """Counted from the start of this pipeline."""
    epoch: int
    examples: Labels
    left: int
    """Chunks that are not filled yet."""
    missing: list[int] = field(default_factory=list)
    """Slots without an example."""
    failures: dict[int, BaseException] = field(default_factory=dict)
    """By the first slot of the chunk."""


class _Decoders:
    """The threads, the buffers and who may write where."""

    def __init__(
        self,
        recipe: PixelRecipe,
        schedule: BatchOrder,
        first: int,
        buffers: int,
        tolerance: Tolerance,
    ) -> None:
        self._recipe, self._schedule, self._tolerance = recipe, schedule, tolerance
        size = schedule.batch
        self._images = np.empty((buffers, size, *recipe.image), np.uint8)
        self._labels = np.empty((buffers, size), np.int64)
        self._step = size if isinstance(recipe.source, DecodedImages) else CHUNK
        self._chunks = -(-size // self._step)
        self._buffers = buffers
        self._first = first
        self._end = None if schedule.endless else schedule.batches - first
        self._tickets = 0
        self._open: dict[int, _Batch] = {}
        self.given = -1
        """The latest batch that the consumer has."""
        self._stopped = False
        self._known: set[str] = set()
        self._too_much = ""
        """What is said once more was damaged than may be."""
        # Re-entrant: a garbage collection while it is held may call `stop`.
        lock = threading.RLock()
        self._room, self._ready = threading.Condition(lock), threading.Condition(lock)
        self._threads: list[threading.Thread] = []

    def position(self, number: int) -> Position:
        return Position(*divmod(self._first + number, self._schedule.batches or 1))

    def begin(self, threads: int) -> None:
        for i in range(threads):
            thread = threading.Thread(target=self._work, name=f"convdyno-input-{i}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def stop(self) -> None:
        with self._room:
            self._stopped = True
            self._room.notify_all()
            self._ready.notify_all()
        if threading.current_thread() not in self._threads:
            for thread in self._threads:
                thread.join()

    def next(self) -> tuple[Pixels, Labels]:
        with self._ready:
            number = self.given + 1
            if self._stopped or (self._end is not None and number >= self._end):
                raise StopIteration
            self.given = number
            self._room.notify_all()
            while number not in self._open or self._open[number].left:
                if self._stopped:
                    raise StopIteration
                self._ready.wait()
            batch = self._open.pop(number)
        if batch.failures:
            raise batch.failures[min(batch.failures)]
        buffer, count = number % self._buffers, len(batch.examples)
        images, labels = self._images[buffer, :count], self._labels[buffer, :count]
        if batch.missing:
            kept = np.setdiff1d(np.arange(count), batch.missing)
            images[: len(kept)], labels[: len(kept)] = images[kept], labels[kept]
            images, labels = images[: len(kept)], labels[: len(kept)]
        return images, labels

    def _work(self) -> None:
        filler: Filler | None = None
        while (job := self._take()) is not None:
            batch, first = job
            missing: list[int] = []
            failure: BaseException | None = None
            try:
                filler = filler or self._recipe.filler()
                missing = self._fill(filler, batch, first)
            except BaseException as problem:
                failure = problem
            with self._ready:
                batch.missing += [first + slot for slot in missing]
                if failure is not None:
                    batch.failures[first] = failure
                batch.left -= 1
                if not batch.left:
                    self._ready.notify_all()

    def _fill(self, filler: Filler, batch: _Batch, first: int) -> list[int]:
        examples = batch.examples[first : first + self._step]
        buffer, last = batch.number % self._buffers, first + len(examples)
        images, labels = self._images[buffer, first:last], self._labels[buffer, first:last]
        missing = filler.fill(batch.epoch, examples, images, labels, self._bad)
        if not self._schedule.endless:
            return missing
        for slot in missing:
            # Training batches stay full: the next example of the source that is whole.
            count, place = self._schedule.count, slice(slot, slot + 1)
            for further in range(1, count):
                other = (examples[place] + further) % count
                if not filler.fill(batch.epoch, other, images[place], labels[place], self._bad):
                    break
            else:
                raise BadData("no example of the data set can be read")
        return []

    def _bad(self, problem: BadData) -> None:
        """Damage counts once, however often an example comes up; too much of it ends everything."""
        with self._room:
            if self._too_much:
                raise BadData(self._too_much)
            if str(problem) in self._known:
                return
            if self._tolerance.on_bad == "skip":
                self._known.add(str(problem))
            try:
                self._tolerance.bad(problem)
            except BadData as error:
                self._too_much = str(error) if self._tolerance.on_bad == "skip" else ""
                raise

    def _take(self) -> tuple[_Batch, int] | None:
        """A batch and the first slot of the chunk to fill; None if there is nothing more to do."""
        with self._room:
            while True:
                number, chunk = divmod(self._tickets, self._chunks)
                if self._stopped or (self._end is not None and number >= self._end):
                    return None
                if number < max(0, self.given) + self._buffers:
                    break
                self._room.wait()
            self._tickets += 1
            if chunk == 0:
                at = self.position(number)
                examples = self._schedule.examples(at)
                self._open[number] = _Batch(number, at.epoch, examples, self._chunks)
            return self._open[number], chunk * self._step

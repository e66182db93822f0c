"""What a worker's steps are fed with: one batch, or real data from any rung of the ladder."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from convdyno.blueprint.graph import Blueprint
from convdyno.data import SOURCES
from convdyno.data.synthetic import HostBatch, synthetic_batch
from convdyno.engines.contract import Batch, Fitter, Session
from convdyno.errors import BadData, Refused
from convdyno.results.record import Peak
from convdyno.trial.spec import Trial

if TYPE_CHECKING:
    from convdyno.data.damage import Tolerance
    from convdyno.data.pipeline import Cache, Pipeline
    from convdyno.data.source import Source

ALONE_SECONDS = 2.0
"""How long the loader is run alone."""


@dataclass
class Feed:
    """Runs steps on what it is fed with."""

    run: Callable[[int], None]
    """Enqueue so many steps."""
    batches: Iterator[HostBatch] | None = None
    """Real data, where each step reads new ones."""
    waited: Callable[[], float] | None = None
    """The seconds so far in which steps waited for data."""
    facts: dict[str, Any] | None = None
    """Where real data come from and what happens to them."""
    kept: ExitStack = field(default_factory=ExitStack)

    def alone(self, batch: int) -> Peak | None:
        """How fast the loader is when nobody computes; None without one."""
        if self.batches is None:
            return None
        next(self.batches)
        start, images = time.perf_counter(), 0
        while (seconds := time.perf_counter() - start) < ALONE_SECONDS or not images:
            next(self.batches)
            images += batch
        return Peak(kind="input", per_second=images / seconds)

    def close(self) -> None:
        """End threads and close files."""
        self.kept.close()


def open_feed(session: Session, blueprint: Blueprint, trial: Trial) -> Feed:
    """What a trial's steps run on; the first batch is on the device when this returns."""
    if trial.data in SOURCES:
        host = synthetic_batch(blueprint.image, blueprint.classes, trial.batch, trial.seed)
        if trial.data == "synthetic-host":
            return Feed(_from_host(session, trial, host))
        return Feed(_resident(session, trial, session.place(*host)))
    return _real(session, blueprint, trial)


def _step(session: Session, trial: Trial) -> Callable[[Batch], None]:
    return session.train_step if trial.mode == "train" else session.infer_step


def _resident(session: Session, trial: Trial, batch: Batch) -> Callable[[int], None]:
    """Steps on one batch that stays on the device."""
    if trial.feed == "fit":
        if not isinstance(session, Fitter):
            raise Refused(f"{trial.engine} has no --feed fit: only Keras has")
        fit = session.fit
        return lambda steps: fit(batch, steps)
    step = _step(session, trial)

    def run(steps: int) -> None:
        for _ in range(steps):
            step(batch)

    return run


def _from_host(session: Session, trial: Trial, host: HostBatch) -> Callable[[int], None]:
    """Steps on one batch that is brought to the device each time."""
    step, place = _step(session, trial), session.place

    def run(steps: int) -> None:
        for _ in range(steps):
            step(place(*host))

    return run


def _real(session: Session, blueprint: Blueprint, trial: Trial) -> Feed:
    from convdyno.data.damage import Tolerance
    from convdyno.data.recognise import open_source
    from convdyno.data.source import Arrays
    from convdyno.data.staging import forget

    if trial.feed == "fit" and trial.rung != "device":
        raise Refused("--feed fit is for one batch on the device: use --feed batch with real data")
    where = trial.staged.partition("=")[2] if trial.staged else trial.data
    if trial.staged:
        forget(Path(where))
    kept, training = ExitStack(), trial.mode == "train"
    source = open_source(where, "train" if training else "validation")
    if not isinstance(source, Arrays):
        kept.callback(source.close)
    if not training and len(source) < trial.batch:
        raise BadData(f"{where} has {len(source)} images, fewer than one batch of {trial.batch}")
    tolerance = Tolerance(trial.on_bad, len(source))
    make = partial(make_pipeline, source, blueprint, trial, train=training, tolerance=tolerance)
    stream = _Stream(make, trial.batch)
    kept.callback(stream.close)
    facts = {
        **{k: v for k, v in asdict(source.facts).items() if k not in ("classes", "path")},
        "path": str(source.facts.path),
        "classes": len(source.facts.classes),
        **stream.facts(),
    }
    if trial.rung in ("host", "device"):
        images, labels = next(stream)
        host = images.copy(), labels.copy()
        stream.close()
        if trial.rung == "host":
            return Feed(_from_host(session, trial, host), facts=facts, kept=kept)
        return Feed(_resident(session, trial, session.place(*host)), facts=facts, kept=kept)
    step, place = _step(session, trial), session.place

    def run(steps: int) -> None:
        for _ in range(steps):
            step(place(*next(stream)))

    return Feed(run, stream, lambda: stream.wait_seconds, facts, kept)


def make_pipeline(
    source: Source,
    blueprint: Blueprint,
    trial: Trial,
    *,
    train: bool,
    start: tuple[int, int] = (0, 0),
    tolerance: Tolerance | None = None,
) -> Pipeline:
    """The batches of a split as a trial wants them."""
    from convdyno.data import augment
    from convdyno.data.pipeline import Pipeline
    from convdyno.data.source import Arrays

    wanted = {name: getattr(trial, name) for name in ("crop", "view", "resize", "colour")}
    chosen = {name: word for name, word in wanted.items() if word != "auto"}
    cache: Cache = "none"
    if not isinstance(source, Arrays) and (trial.rung == "bytes" or trial.rung == "decoded"):
        cache = trial.rung
    height, width, channels = blueprint.image
    return Pipeline(
        source,
        batch=trial.batch,
        image=(height, width, channels),
        train=train,
        transform=replace(augment.usual(source.facts.kind), **chosen),
        seed=trial.seed,
        threads=trial.input_threads,
        prefetch=trial.prefetch,
        decoder=trial.decoder,
        tolerance=tolerance,
        classes=blueprint.classes,
        start=start,
        cache=cache,
    )


class _Stream:
    """Full batches without end: training goes on for ever, and evaluation begins again."""

    def __init__(self, make: Callable[[], Pipeline], batch: int) -> None:
        self._make, self._full = make, batch
        self._before = 0.0
        self._pipeline = make()

    @property
    def wait_seconds(self) -> float:
        """How long steps have waited for data so far."""
        return self._before + self._pipeline.wait_seconds

    def facts(self) -> dict[str, object]:
        """What ran, for the record."""
        return self._pipeline.facts()

    def __iter__(self) -> Iterator[HostBatch]:
        return self

    def __next__(self) -> HostBatch:
        batch = next(self._pipeline, None)
        if batch is None or len(batch[1]) < self._full:
            self.close()
            self._before += self._pipeline.wait_seconds
            self._pipeline = self._make()
            batch = next(self._pipeline)
        return batch

    def close(self) -> None:
        """End the threads."""
        self._pipeline.close()

"""What a worker's steps are fed with: one batch, or real data from any rung of the ladder."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any

from convdyno.blueprint.graph import Blueprint
from convdyno.data import SOURCES
from convdyno.data.synthetic import HostBatch, synthetic_batch
from convdyno.engines.contract import Batch, Engine, Fitter, HasLoader, Material, Session, Treatment
from convdyno.errors import BadData, Refused
from convdyno.machine.processor import core_count
from convdyno.store.record import Peak
from convdyno.trial.spec import Trial
from convdyno.trial.world import World
from convdyno.zoo.registry import build

if TYPE_CHECKING:
    from convdyno.data.pipeline import Cache, Pipeline
    from convdyno.data.source import Source
    from convdyno.data.tolerance import Tolerance

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

    def alone(self) -> Peak | None:
        """How fast the loader is when nobody computes; None without one."""
        if self.batches is None:
            return None
        next(self.batches)
        start, images = time.perf_counter(), 0
        while (seconds := time.perf_counter() - start) < ALONE_SECONDS or not images:
            images += len(next(self.batches)[1])
        return Peak(kind="input", per_second=images / seconds)

    def close(self) -> None:
        """End threads and close files."""
        self.kept.close()


def blueprint_of(trial: Trial) -> Blueprint:
    """The network that a trial is about."""
    return build(trial.network, trial.image_size, trial.classes, trial.width, trial.auxiliary)


def own_batch(trial: Trial, world: World) -> int:
    """Images of a step on one rank: a process may have several devices."""
    return trial.global_batch // world.size


def open_feed(
    engine: Engine, session: Session, blueprint: Blueprint, trial: Trial, world: World
) -> Feed:
    """What a trial's steps run on; the first batch is on the device when this returns."""
    if trial.data in SOURCES:
        count, seed = own_batch(trial, world), trial.seed + world.rank
        host = synthetic_batch(blueprint.image, blueprint.classes, count, seed)
        if trial.data == "synthetic-host":
            return Feed(_fed(session, trial, repeat(host)))
        return Feed(_resident(session, trial, session.place(*host)))
    return _real(engine, session, blueprint, trial, world)


def _step(session: Session, trial: Trial) -> Callable[[Batch], None]:
    return session.train_step if trial.mode == "train" else session.infer_step


def _fitter(session: Session, trial: Trial) -> Fitter:
    if not isinstance(session, Fitter):
        raise Refused(f"{trial.engine} has no --feed fit: only Keras has")
    return session


def _resident(session: Session, trial: Trial, batch: Batch) -> Callable[[int], None]:
    """Steps on one batch that stays on the device."""
    if trial.feed == "fit":
        fit = _fitter(session, trial).fit
        return lambda steps: fit(batch, steps)
    step = _step(session, trial)

    def run(steps: int) -> None:
        for _ in range(steps):
            step(batch)

    return run


def _fed(session: Session, trial: Trial, host: Iterator[HostBatch]) -> Callable[[int], None]:
    """Steps on batches that are brought to the device each time."""
    step, place = _step(session, trial), session.place
    if trial.feed == "fit":
        fit_from = _fitter(session, trial).fit_from
        return lambda steps: fit_from((place(*batch) for batch in host), steps)

    def run(steps: int) -> None:
        for _ in range(steps):
            step(place(*next(host)))

    return run


def _real(
    engine: Engine, session: Session, blueprint: Blueprint, trial: Trial, world: World
) -> Feed:
    from convdyno.data.detect import open_source
    from convdyno.data.source import DecodedImages
    from convdyno.data.staging import forget
    from convdyno.data.tolerance import Tolerance

    where = trial.staged.partition("=")[2] if trial.staged else trial.data
    if trial.staged:
        forget(Path(where))
    kept, training = ExitStack(), trial.mode == "train"
    source = open_source(where, "train" if training else "validation")
    if not isinstance(source, DecodedImages):
        kept.callback(source.close)
    batch = own_batch(trial, world)
    if not training and len(source) // world.size < batch:
        each = "" if world.alone else f" for each of {world.size} ranks"
        raise BadData(f"{where} has {len(source)} images, fewer than one batch of {batch}{each}")
    if trial.loader == "native":
        material = _material(source, blueprint, trial, world)
        if not isinstance(engine, HasLoader):
            raise Refused(
                f"{trial.engine} has no way of its own to read images: "
                "use --loader own, or torch or tensorflow"
            )
        stream = _Stream(partial(engine.batches, material), batch)
        facts: dict[str, Any] = {"loader": "native", "threads": material.threads}
    else:
        tolerance = Tolerance(trial.on_bad, len(source))
        make = partial(
            make_pipeline, source, blueprint, trial, world, train=training, tolerance=tolerance
        )
        stream = _Stream(make, batch)
        facts = {"loader": "own", **stream.batches.facts()}
    kept.callback(stream.close)
    facts |= {
        **{k: v for k, v in asdict(source.facts).items() if k not in ("classes", "path")},
        "path": str(source.facts.path),
        "classes": len(source.facts.classes),
    }
    if trial.rung in ("host", "device"):
        images, labels = next(stream)
        host = images.copy(), labels.copy()
        stream.close()
        if trial.rung == "host":
            return Feed(_fed(session, trial, repeat(host)), facts=facts, kept=kept)
        return Feed(_resident(session, trial, session.place(*host)), facts=facts, kept=kept)
    run = _fed(session, trial, stream)
    return Feed(run, stream, lambda: stream.wait_seconds, facts, kept)


def make_pipeline(
    source: Source,
    blueprint: Blueprint,
    trial: Trial,
    world: World,
    *,
    train: bool,
    start: tuple[int, int] = (0, 0),
    tolerance: Tolerance | None = None,
) -> Pipeline:
    """One rank's share of the batches of a split, as a trial wants them."""
    from convdyno.data import augment
    from convdyno.data.pipeline import Pipeline
    from convdyno.data.source import DecodedImages

    wanted = {name: getattr(trial, name) for name in ("crop", "view", "resize", "colour")}
    chosen = {name: word for name, word in wanted.items() if word != "auto"}
    cache: Cache = "none"
    if not isinstance(source, DecodedImages) and (trial.rung == "bytes" or trial.rung == "decoded"):
        cache = trial.rung
    height, width, channels = blueprint.image
    return Pipeline(
        source,
        batch=own_batch(trial, world),
        image=(height, width, channels),
        train=train,
        rank=world.rank,
        size=world.size,
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


def _material(source: Source, blueprint: Blueprint, trial: Trial, world: World) -> Material:
    """One rank's share of real data for a framework's own loader, to be treated as by ours."""
    from convdyno.data import augment
    from convdyno.data.folder import WHOLE, Pictures
    from convdyno.data.source import DecodedImages
    from convdyno.data.tfrecord import Records

    if trial.rung in ("bytes", "decoded"):
        raise Refused(f"rung {trial.rung!r} is one of our own pipeline: use --loader own")
    usual = augment.usual(source.facts.kind)
    law = augment.LAWS.get(usual.crop if trial.crop == "auto" else trial.crop)
    share = slice(world.rank, None, world.size)
    files = records = arrays = None
    if isinstance(source, Pictures):
        if (source.offsets != WHOLE).any():
            raise Refused("frameworks do not read archives in place: unpack them, or --loader own")
        folders = (source.holders[holder] for holder in source.holder)
        paths = (f"{folder}/{name}" for folder, name in zip(folders, source.names, strict=True))
        files = list(zip(paths, source.labels.tolist(), strict=True))[share]
    elif isinstance(source, Records):
        records = [str(file.path) for file in source.files][share]
        if len(source.files) < world.size:
            raise Refused(
                f"TFRecords are shared out file by file, and {len(source.files)} do not suffice "
                f"for {world.size} ranks: make more of them, or use --loader own"
            )
    elif isinstance(source, DecodedImages):
        arrays = source.images[share], source.labels[share]
    height, width, channels = blueprint.image
    treatment = Treatment(
        (height, width),
        channels,
        train=trial.mode == "train",
        area=law.area if law else (1.0, 1.0),
        aspect=law.aspect if law else (1.0, 1.0),
        jitter=trial.colour != "off",
        antialias=trial.resize == "antialiased",
    )
    return Material(
        files=files,
        records=records,
        arrays=arrays,
        first_label=source.first_label if isinstance(source, Records) else 0,
        treatment=treatment,
        batch=own_batch(trial, world),
        seed=trial.seed + world.rank,
        threads=trial.input_threads or core_count(),
        prefetch=trial.prefetch,
    )


class _Stream:
    """Full batches without end: training goes on for ever, and evaluation begins again."""

    def __init__(self, make: Callable[[], Any], batch: int) -> None:
        self._make, self._full = make, batch
        self.batches = make()
        self.wait_seconds = 0.0
        """How long steps have waited for data so far."""

    def __iter__(self) -> Iterator[HostBatch]:
        return self

    def __next__(self) -> HostBatch:
        start = time.perf_counter()
        batch: HostBatch | None = next(self.batches, None)
        if batch is None or len(batch[1]) < self._full:
            self.close()
            self.batches = self._make()
            batch = next(self.batches)
        self.wait_seconds += time.perf_counter() - start
        return batch

    def close(self) -> None:
        """End threads and processes."""
        self.batches.close()

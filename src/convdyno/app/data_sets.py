"""Data sets: looked into, converted, made, and how fast they are read."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from convdyno.data.augment import Transform, usual
from convdyno.data.batch_filler import PixelRecipe
from convdyno.data.convert import Options, Written, convert
from convdyno.data.decode import chosen
from convdyno.data.detect import DataSet, open_source, recognise
from convdyno.data.fake_photos import LARGEST, MadeSet
from convdyno.data.fetch import Got, get
from convdyno.data.info import describe
from convdyno.data.pipeline import Pipeline
from convdyno.data.source import Facts
from convdyno.data.speed import Parts, TimedBatches, blocks, parts
from convdyno.errors import UsageError
from convdyno.machine.processor import core_count
from convdyno.stats.rounds import Round
from convdyno.stats.summary import interval
from convdyno.trial import parse

FORMS = ("tfrecord", "folder")
Follow = Callable[[int, int, float], None]
"""Hears how many images of how many are done, and how many seconds are left."""

__all__ = ["ConvertedSet", "Got", "convert_set", "get", "look_at", "make_set", "speed_of"]


@dataclass(frozen=True)
class ConvertedSet:
    """A data set that was written."""

    path: Path
    to: str
    done: Written
    seconds: float


def look_at(
    path: str, *, check: bool = False, threads: int | None = None, follow: Follow | None = None
) -> dict[str, Any]:
    """What a data set is; with `check` every image is decoded."""
    return describe(recognise(path), check, _threads(threads), follow)


def convert_set(
    source: str, target: Path, to: str, *, threads: int | None = None,
    follow: Follow | None = None, **options: Any,
) -> ConvertedSet:  # fmt: skip
    """Write a data set in another form; stopped half-way, it goes on where it stopped."""
    chosen = _options(to, **options)
    found = recognise(source)
    return _write(found, target, chosen, str(found.path.absolute()), threads, follow)


def make_set(
    target: Path, to: str, *, images: int, classes: int, size: str, seed: int,
    shards: int | None = None, threads: int | None = None, follow: Follow | None = None,
) -> ConvertedSet:  # fmt: skip
    """Make JPEGs that decode like photographs."""
    parse.whole("--images")(str(images))
    parse.whole("--classes")(str(classes))
    width, height = parse.image_size(size)
    if max(width, height) > LARGEST:
        raise UsageError(f"--size goes up to {LARGEST}x{LARGEST}, not {size}")
    found = MadeSet(images, classes, (height, width), seed)
    origin = f"made {classes} {size} {seed}"
    return _write(found, target, _options(to, shards, seed), origin, threads, follow)


def speed_of(
    path: str, *, batch: int = 64, threads: int | None = None, split: str = "train",
    image_size: str | None = None, decoder: str = "auto", seconds: float = 10.0, seed: int = 0,
    **transforms: str | None,
) -> dict[str, Any]:  # fmt: skip
    """Measure the input pipeline alone: images/s, and what an image costs."""
    parse.whole("--batch")(str(batch))
    parse.number("--seconds")(str(seconds))
    if threads is not None:
        parse.whole("--threads")(str(threads))
    parse.one_of("split", ("train", "validation"))(split)
    train = split == "train"
    source = open_source(path, "train" if train else "validation")
    facts = source.facts
    size = parse.image_size(image_size) if image_size else (facts.image or (224, 224))[:2]
    image = (*size, facts.image[2] if facts.image else 3)
    transform = _transform(facts.kind, **transforms)
    recipe = PixelRecipe(source, image, train, transform, seed, chosen(decoder))  # type: ignore[arg-type]
    # Endless, so that a small set is enough.
    with Pipeline(
        source, batch=batch, image=image, train=train, transform=transform, seed=seed,
        threads=threads, decoder=recipe.decoder, endless=True,
    ) as pipeline:  # fmt: skip
        measured, ran = blocks(pipeline, seconds), pipeline.facts()
    return _document(path, facts, batch, image, ran, measured, parts(recipe))


def _write(
    found: DataSet, target: Path, options: Options, origin: str, threads: int | None,
    follow: Follow | None,
) -> ConvertedSet:  # fmt: skip
    started = time.monotonic()
    done = convert(found, target, options, origin, _threads(threads), follow)
    return ConvertedSet(target, options.to, done, time.monotonic() - started)


def _threads(given: int | None) -> int:
    return core_count() if given is None else parse.whole("--threads")(str(given))


def _options(
    to: str,
    shards: int | None = None,
    seed: int = 0,
    short_side: int | None = None,
    quality: int = 95,
    encoding: str = "keep",
    on_bad: str = "error",
) -> Options:
    parse.one_of("form", FORMS)(to)
    parse.one_of("encoding", ("keep", "jpeg", "png"))(encoding)
    parse.one_of("answer to damage", ("error", "skip"))(on_bad)
    parse.whole("--seed", 0)(str(seed))
    for name, value in (("--shards", shards), ("--short-side", short_side), ("--quality", quality)):
        if value is not None:
            parse.whole(name)(str(value))
    if quality > 100:
        raise UsageError(f"--quality goes from 1 to 100, not {quality}")
    if shards is not None and to == "folder":
        raise UsageError("--shards is for --to tfrecord; a folder has one file an image")
    chosen: dict[str, Any] = {"to": to, "encoding": encoding, "on_bad": on_bad}
    return Options(shards=shards, short_side=short_side, quality=quality, seed=seed, **chosen)


def _transform(kind: str, **given: str | None) -> Transform:
    """What is usual for the kind of data set, and what was asked for instead."""
    return replace(usual(kind), **{k: v for k, v in given.items() if v is not None})  # type: ignore[arg-type]


def _document(
    path: str, facts: Facts, batch: int, image: tuple[int, ...], ran: dict[str, object],
    measured: list[TimedBatches], each: Parts,
) -> dict[str, Any]:  # fmt: skip
    found = interval(
        [Round.of([b.seconds for b in measured], [b.batches for b in measured], batch)]
    )
    busy = min(int(str(ran["threads"])), core_count())
    return {
        "path": path,
        "kind": facts.kind,
        "split": facts.split,
        "examples": facts.count,
        "batch": batch,
        "image": list(image),
        "settings": ran,
        "images_per_second": found.estimate,
        "low": found.low,
        "high": found.high,
        "blocks": len(measured),
        "cores": busy,
        "images_per_second_per_core": found.estimate / busy,
        "megabytes_per_second": found.estimate * each.bytes / 1e6,
        "bytes_per_image": each.bytes,
        "read_seconds": each.read_seconds,
        "decode_seconds": each.decode_seconds,
        "transform_seconds": each.transform_seconds,
    }

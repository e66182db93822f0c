"""Data sets: looked into, converted, made, and how fast they are read."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from convdyno.app.requests import ConvertRequest, MakeRequest, SpeedRequest
from convdyno.data.augment import usual
from convdyno.data.batch_filler import PixelRecipe
from convdyno.data.convert import Options, Written, convert
from convdyno.data.decode import chosen
from convdyno.data.detect import DataSet, open_source, recognise
from convdyno.data.fake_photos import LARGEST, MadeSet
from convdyno.data.fetch import Got, get
from convdyno.data.info import describe
from convdyno.data.pipeline import Pipeline
from convdyno.data.speed import blocks, parts
from convdyno.errors import UsageError
from convdyno.machine.processor import core_count
from convdyno.stats.rounds import Round
from convdyno.stats.summary import interval
from convdyno.trial import parse

FORMS = ("tfrecord", "folder")
TRANSFORMS = ("crop", "view", "resize", "colour", "fidelity")
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


def convert_set(request: ConvertRequest, follow: Follow | None = None) -> ConvertedSet:
    """Write a data set in another form; stopped half-way, it goes on where it stopped."""
    options = _options(request)
    found = recognise(request.source)
    return _write(found, request, options, str(found.path.absolute()), follow)


def make_set(request: MakeRequest, follow: Follow | None = None) -> ConvertedSet:
    """Make JPEGs that decode like photographs."""
    images, classes, size, seed = request.images, request.classes, request.size, request.seed
    parse.whole("--images")(str(images))
    parse.whole("--classes")(str(classes))
    width, height = parse.image_size(size)
    if max(width, height) > LARGEST:
        raise UsageError(f"--size goes up to {LARGEST}x{LARGEST}, not {size}")
    found = MadeSet(images, classes, (height, width), seed)
    return _write(found, request, _options(request), f"made {classes} {size} {seed}", follow)


def speed_of(request: SpeedRequest) -> dict[str, Any]:
    """Measure the input pipeline alone: images/s, and what an image costs."""
    batch, threads, split = request.batch, request.threads, request.split
    parse.whole("--batch")(str(batch))
    parse.number("--seconds")(str(request.seconds))
    if threads is not None:
        parse.whole("--threads")(str(threads))
    parse.one_of("split", ("train", "validation"))(split)
    train = split == "train"
    source = open_source(request.path, "train" if train else "validation")
    facts = source.facts
    wanted = request.image_size
    size = parse.image_size(wanted) if wanted else (facts.image or (224, 224))[:2]
    image = (*size, facts.image[2] if facts.image else 3)
    given = {name: getattr(request, name) for name in TRANSFORMS}
    transform = replace(usual(facts.kind), **{k: v for k, v in given.items() if v is not None})
    decoder: Any = request.decoder
    recipe = PixelRecipe(source, image, train, transform, request.seed, chosen(decoder))
    # Endless, so that a small set is enough.
    with Pipeline(
        source, batch=batch, image=image, train=train, transform=transform, seed=request.seed,
        threads=threads, decoder=recipe.decoder, endless=True,
    ) as pipeline:  # fmt: skip
        measured, ran = blocks(pipeline, request.seconds), pipeline.facts()
    each = parts(recipe)
    found = interval(
        [Round.of([b.seconds for b in measured], [b.batches for b in measured], batch)]
    )
    busy = min(int(str(ran["threads"])), core_count())
    return {
        "path": request.path,
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


def _write(
    found: DataSet, request: ConvertRequest | MakeRequest, options: Options, origin: str,
    follow: Follow | None,
) -> ConvertedSet:  # fmt: skip
    started = time.monotonic()
    done = convert(found, request.target, options, origin, _threads(request.threads), follow)
    return ConvertedSet(request.target, options.to, done, time.monotonic() - started)


def _threads(given: int | None) -> int:
    return core_count() if given is None else parse.whole("--threads")(str(given))


def _options(request: ConvertRequest | MakeRequest) -> Options:
    names = [one.name for one in fields(Options) if hasattr(request, one.name)]
    options = Options(**{name: getattr(request, name) for name in names})
    parse.one_of("form", FORMS)(options.to)
    parse.one_of("encoding", ("keep", "jpeg", "png"))(options.encoding)
    parse.one_of("answer to damage", ("error", "skip"))(options.on_bad)
    parse.whole("--seed", 0)(str(options.seed))
    for name in ("shards", "short_side", "quality"):
        if getattr(options, name) is not None:
            parse.whole(f"--{name.replace('_', '-')}")(str(getattr(options, name)))
    if options.quality > 100:
        raise UsageError(f"--quality goes from 1 to 100, not {options.quality}")
    if options.shards is not None and options.to == "folder":
        raise UsageError("--shards is for --to tfrecord; a folder has one file an image")
    return options

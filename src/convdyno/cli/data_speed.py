"""`convdyno data speed`: how fast the input pipeline is on its own, and what it spends time on."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from convdyno.cli import parse

if TYPE_CHECKING:
    from convdyno.data.augment import Transform
    from convdyno.data.source import Facts
    from convdyno.data.speed import Parts, TimedBatches

EXAMPLES = """\b
Examples:
  convdyno data speed imagenet/ --batch 64 --threads 2
  convdyno data speed records/ --decoder simplejpeg --colour folded
  convdyno data speed cifar10 --split validation --json
"""
WIDTH = 40
"""Characters of the bar."""


def speed(
    path: Annotated[str, typer.Argument(help="A data set's path, or a name `data get` knows.")],
    batch: Annotated[int, typer.Option(help="Images in a batch.")] = 64,
    threads: Annotated[int | None, typer.Option(help="Default: one for each core.")] = None,
    split: Annotated[str, typer.Option(help="train, validation")] = "train",
    image_size: Annotated[
        str | None, typer.Option(help="224 or 224x160; default: 224, or that of small images.")
    ] = None,
    decoder: Annotated[str, typer.Option(help="auto, native, simplejpeg")] = "auto",
    crop: Annotated[
        str | None, typer.Option(help="nvcnn, inception, torch, pad, whole; default: usual.")
    ] = None,
    view: Annotated[
        str | None, typer.Option(help="Validation: squash, centre, centre-1.145, whole.")
    ] = None,
    resize: Annotated[str, typer.Option(help="plain, antialiased")] = "plain",
    colour: Annotated[str, typer.Option(help="off, folded, exact")] = "off",
    fidelity: Annotated[str, typer.Option(help="JPEG decoding: fast, accurate")] = "fast",
    seconds: Annotated[float, typer.Option(help="How long to measure.")] = 10.0,
    seed: Annotated[int, typer.Option(help="Of everything random.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Measure the input pipeline alone: images/s, per core, MB/s, and what an image costs."""
    from convdyno.data.batch_filler import PixelRecipe
    from convdyno.data.decode import chosen
    from convdyno.data.detect import open_source
    from convdyno.data.pipeline import Pipeline
    from convdyno.data.speed import blocks, parts

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
    transform = _transform(
        facts.kind, crop=crop, view=view, resize=resize, colour=colour, fidelity=fidelity
    )
    recipe = PixelRecipe(source, image, train, transform, seed, chosen(decoder))  # type: ignore[arg-type]
    # Endless, so that a small set is enough.
    with Pipeline(
        source, batch=batch, image=image, train=train, transform=transform, seed=seed,
        threads=threads, decoder=recipe.decoder, endless=True,
    ) as pipeline:  # fmt: skip
        measured, ran = blocks(pipeline, seconds), pipeline.facts()
    document = _document(path, facts, batch, image, ran, measured, parts(recipe))
    if as_json:
        typer.echo(json.dumps(document, indent=1))
    else:
        _show(document)


def _transform(kind: str, **given: str | None) -> Transform:
    """What is usual for the kind of data set, and what was asked for instead."""
    from dataclasses import replace

    from convdyno.data.augment import usual

    return replace(usual(kind), **{k: v for k, v in given.items() if v is not None})  # type: ignore[arg-type]


def _document(
    path: str, facts: Facts, batch: int, image: tuple[int, ...], ran: dict[str, object],
    measured: list[TimedBatches], each: Parts,
) -> dict[str, Any]:  # fmt: skip
    from convdyno.data.pipeline import cores
    from convdyno.stats.rounds import Round
    from convdyno.stats.summary import interval

    found = interval(
        [Round.of([b.seconds for b in measured], [b.batches for b in measured], batch)]
    )
    busy = min(int(str(ran["threads"])), cores())
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


def _show(document: dict[str, Any]) -> None:
    how = document["settings"]
    height, width, channels = document["image"]
    typer.echo(
        f"{document['path']}: {document['examples']:,} examples ({document['kind']}, "
        f"{document['split']}) as batches of {document['batch']} x {height}x{width}x{channels}"
    )
    typer.echo(
        f"decoder {how['decoder']} ({how['fidelity']}), crop {how['crop']}, "
        f"{how['resize']} resize, mirror {'on' if how['mirror'] else 'off'}, "
        f"colour {how['colour']}, threads {how['threads']}"
    )
    low, high = document["low"], document["high"]
    typer.echo(
        f"{document['images_per_second']:,.0f} images/s [{low:,.0f}, {high:,.0f}], "
        f"{document['images_per_second_per_core']:,.0f} a core, "
        f"{document['megabytes_per_second']:,.1f} MB/s "
        f"({document['bytes_per_image'] / 1000:,.1f} KB an image)"
    )
    names = ("read", "decode", "transform")
    times = [document[f"{name}_seconds"] for name in names]
    total = sum(times) or 1.0
    typer.echo(f"one image on one core: {total * 1e6:,.0f} us")
    for name, seconds in zip(names, times, strict=True):
        bar = "#" * round(WIDTH * seconds / total)
        typer.echo(f"  {name:10}{seconds * 1e6:8,.0f} us {seconds / total:5.0%}  {bar}".rstrip())

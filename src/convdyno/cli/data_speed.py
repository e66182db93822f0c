"""`convdyno data speed`: how fast the input pipeline is on its own, and what it spends time on."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from convdyno.cli.options import AsJson

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
    as_json: AsJson = False,
) -> None:
    """Measure the input pipeline alone: images/s, per core, MB/s, and what an image costs."""
    from convdyno.app.data_sets import speed_of

    document = speed_of(
        path, batch=batch, threads=threads, split=split, image_size=image_size, decoder=decoder,
        seconds=seconds, seed=seed, crop=crop, view=view, resize=resize, colour=colour,
        fidelity=fidelity,
    )  # fmt: skip
    if as_json:
        typer.echo(json.dumps(document, indent=1))
    else:
        _show(document)


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

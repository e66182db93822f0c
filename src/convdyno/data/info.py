"""What a data set is: format, splits, classes, counts, sizes, and what is wrong with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from convdyno.data.detect import DataSet
from convdyno.data.encoded_image import ImageHeader, check_whole, read_header
from convdyno.data.folder import Pictures
from convdyno.data.source import DecodedImages, Encoded, Source
from convdyno.data.tfrecord import Records
from convdyno.data.tolerance import Tolerance
from convdyno.errors import BadData

SAMPLE = 1000
"""Images whose headers are read unless all are checked."""
CHANNELS = {1: "grey", 3: "RGB"}
WINDOW = 256

Progress = Callable[[int, int, float], None]


def describe(
    found: DataSet, check: bool = False, threads: int = 1, progress: Progress | None = None
) -> dict[str, Any]:
    """Everything that is known of a data set, as plain data; `check` decodes every image."""
    damage: list[str] = []
    damaged = 0
    splits: dict[str, Any] = {}
    classes: tuple[str, ...] = ()
    for split in found.splits:
        try:
            source = found.open(split)
        except BadData as error:
            damaged += 1
            damage.append(str(error))
            continue
        tolerance = Tolerance("skip", len(source), share=1)
        classes = classes or source.facts.classes
        splits[split] = _split(source, check, threads, tolerance, progress)
        damaged += tolerance.count
        damage += tolerance.first
    return {
        "path": str(found.path),
        "format": found.kind,
        "classes": list(classes),
        "splits": splits,
        "checked": check,
        "damaged": damaged,
        "damage": damage,
    }


def _split(
    source: Source, check: bool, threads: int, tolerance: Tolerance, progress: Progress | None
) -> dict[str, Any]:
    facts = source.facts
    if isinstance(source, DecodedImages):
        height, width, channels = facts.image or source.images.shape[1:]
        headers = [ImageHeader("array", width, height, CHANNELS.get(channels, str(channels)))]
        looked_at = len(source)
    else:
        headers = list(_headers(source, check, threads, tolerance, progress))
        looked_at = len(headers)
    counts = _per_class(source, tolerance)
    if not isinstance(source, DecodedImages):
        source.close()
    kinds = Counter(f"{header.format} {header.mode}" for header in headers)
    return {
        "count": facts.count,
        "bytes": facts.bytes,
        "classes": len(facts.classes),
        "images_per_class": [min(counts), max(counts)] if counts else None,
        "looked_at": looked_at,
        "height": _spread([header.height for header in headers]),
        "width": _spread([header.width for header in headers]),
        "encodings": dict(kinds.most_common()),
    }


def _headers(
    source: Encoded, check: bool, threads: int, tolerance: Tolerance, progress: Progress | None
) -> Iterator[ImageHeader]:
    count = len(source)
    sample = np.unique(np.linspace(0, count - 1, SAMPLE, dtype=int))
    rows: Sequence[int] = range(count) if check else sample.tolist()
    done = 0

    def look(row: int) -> ImageHeader:
        example = source.read(row)
        if check:
            check_whole(example.data, example.where)
        return read_header(example.data, example.where)

    def passed(more: int) -> None:
        nonlocal done
        done += more
        if progress is not None:
            progress(done, len(rows), 0.0)

    return tolerance.whole(look, rows, threads, WINDOW, passed)


def _per_class(source: Source, tolerance: Tolerance) -> list[int]:
    classes = len(source.facts.classes)
    try:
        if isinstance(source, DecodedImages | Pictures):
            labels = source.labels
        elif isinstance(source, Records):
            labels = source.labels()
        else:
            return []
    except BadData as error:
        tolerance.bad(error)
        return []
    inside = labels[(labels >= 0) & (labels < classes)]
    return [int(count) for count in np.bincount(inside, minlength=classes)]


def _spread(sides: list[int]) -> list[int] | None:
    """The smallest, the median and the largest."""
    return [min(sides), int(np.median(sides)), max(sides)] if sides else None

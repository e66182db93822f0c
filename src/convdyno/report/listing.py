"""A line for each record, ten thousand of them in a moment: plain columns, nothing computed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from convdyno.report.format import between, pairs, rate
from convdyno.report.text_table import aligned
from convdyno.store.index import RecordHead
from convdyno.terminal import visible

COLUMNS = ("record", "trial", "labels", "status", "images/s", "95 % interval", "rounds")
LABELS, RIGHT = 2, (4, 6)
"""Columns of figures."""


def lines(heads: Sequence[RecordHead]) -> Iterator[str]:
    """A header and a line a record; without labels there is no column for them."""
    if not heads:
        yield "(none)"
        return
    labelled = any(head.labels for head in heads)
    rows = [COLUMNS, *map(_row, heads)]
    if not labelled:
        rows = [(*row[:LABELS], *row[LABELS + 1 :]) for row in rows]
    yield from aligned(rows, [place - (not labelled) for place in RIGHT])


def _row(head: RecordHead) -> tuple[str, ...]:
    figures = head.figures
    return (
        head.id,
        visible(head.label),
        visible(pairs(head.labels, ",")),
        head.status,
        rate(figures.get("images_per_second")),
        between(figures.get("low"), figures.get("high")),
        str(figures.get("rounds", 0)),
    )

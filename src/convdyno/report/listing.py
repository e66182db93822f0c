"""A line for each record, ten thousand of them in a moment: plain columns, nothing computed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from convdyno.report.words import rate
from convdyno.results.index import Head

COLUMNS = ("record", "trial", "labels", "status", "images/s", "95 % interval", "rounds")
RIGHT = (4, 6)
"""Columns of figures."""


def lines(heads: Sequence[Head]) -> Iterator[str]:
    """A header and a line a record; without labels there is no column for them."""
    if not heads:
        yield "(none)"
        return
    rows = [COLUMNS, *map(_row, heads)]
    shown = [n for n in range(len(COLUMNS)) if n != 2 or any(head.labels for head in heads)]
    widths = {n: max(len(row[n]) for row in rows) for n in shown}
    for row in rows:
        cells = (row[n].rjust(widths[n]) if n in RIGHT else row[n].ljust(widths[n]) for n in shown)
        yield "  ".join(cells).rstrip()


def _row(head: Head) -> tuple[str, ...]:
    figures = head.figures
    low, high = figures.get("low"), figures.get("high")
    return (
        head.id,
        head.label,
        _shown(",".join(f"{name}={value}" for name, value in head.labels.items())),
        head.status,
        rate(figures.get("images_per_second")),
        f"{rate(low)} to {rate(high)}" if low is not None and high is not None else "-",
        str(figures.get("rounds", 0)),
    )


def _shown(text: str) -> str:
    """Text as a terminal may have it: a label could move the cursor."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)

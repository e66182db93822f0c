"""A line for each record, ten thousand of them in a moment: plain columns, nothing computed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from convdyno.report.format import ONE_PROCESS, between, pairs, rate
from convdyno.report.text_table import aligned
from convdyno.store.index import RecordHead
from convdyno.terminal import visible


def lines(heads: Sequence[RecordHead]) -> Iterator[str]:
    """A header and a line a record; without labels there is no column for them."""
    if not heads:
        yield "(none)"
        return
    labelled = any(head.labels for head in heads)
    yield from aligned([_row(head, labelled) for head in heads], right=("images/s", "rounds"))


def headline_words(figures: Mapping[str, Any]) -> dict[str, str]:
    """Images per second and their interval, as an index has them."""
    ends = between(figures.get("low"), figures.get("high"))
    if figures.get("rounds") == 1:
        ends = ONE_PROCESS
    return {"images/s": rate(figures.get("images_per_second")), "95 % interval": ends}


def _row(head: RecordHead, labelled: bool) -> dict[str, str]:
    figures = head.figures
    return {
        "record": head.id,
        "trial": visible(head.label),
        **({"labels": visible(pairs(head.labels, ","))} if labelled else {}),
        "status": head.status,
        **headline_words(figures),
        "rounds": str(figures.get("rounds", 0)),
    }

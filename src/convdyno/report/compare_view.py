"""Pairs along one axis, as tables for people and as a document for machines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from convdyno.report.bench_json import versioned
from convdyno.report.cell import grouped
from convdyno.report.columns import cell_data
from convdyno.report.comparisons import Pair, Strangers, family_of
from convdyno.report.console import MANY, Screen
from convdyno.report.format import UNPAIRED, natural, rate, said, varying, written


def tables(pairs: Sequence[Pair]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A title and a table for each family of pairs."""
    for about, family in sorted(grouped(pairs, family_of).items(), key=lambda f: f[0]):
        varied = _varied(family)
        ordered = sorted(family, key=lambda pair: _place(pair, varied))
        yield ", ".join(filter(None, about)), [_line(pair, varied) for pair in ordered]


def show_pairs(screen: Screen, pairs: Sequence[Pair], strangers: Sequence[Strangers]) -> None:
    """The tables on a screen, and what is not compared."""
    for title, table in tables(pairs):
        screen.line(title, style="bold")
        screen.table(table, plain=len(pairs) > MANY)
        screen.line()
    if any(not pair.paired for pair in pairs):
        screen.line(f"unpaired: {UNPAIRED}")
    for one in strangers:
        screen.line(str(one), style="yellow")


def compare_document(
    axis: str,
    where: Sequence[str],
    pairs: Sequence[Pair],
    strangers: Sequence[Strangers],
    skipped: Sequence[str],
) -> dict[str, Any]:
    """Cells and their ratios, unrounded."""
    cells = {cell.id: cell for pair in pairs for cell in (pair.a, pair.b)}
    numbers = {name: number for number, name in enumerate(cells)}
    return versioned(
        by=axis,
        where=list(where),
        cells=[cell_data(cell, "compare") for cell in cells.values()],
        comparisons=[pair.to_axis_data(numbers) for pair in pairs],
        not_compared=[str(one) for one in strangers],
        skipped=list(skipped),
    )


def _line(pair: Pair, varied: Sequence[str]) -> dict[str, Any]:
    told = ", ".join(said(pair.a.trial, name) for name in varied)
    return ({"cells": told} if varied else {}) | {
        pair.axis.replace("_", " "): " / ".join(pair.values),
        "images/s": f"{rate(pair.a.images_per_second)} / {rate(pair.b.images_per_second)}",
        **pair.words,
        "": pair.found.reason or ("" if pair.paired else "unpaired"),
    }


def _varied(family: Sequence[Pair]) -> list[str]:
    """The settings in which pairs of a family differ from each other, besides their own axis."""
    axis = family[0].axis
    found = varying([pair.a.trial for pair in family], ("engine", "precision", "batch"))
    return [name for name in found if name not in (axis, "network", "mode")]


def _place(pair: Pair, varied: Sequence[str]) -> Any:
    trial = pair.a.trial
    settings = [natural(written(getattr(trial, name))) for name in varied]
    return settings, [natural(value) for value in pair.values]

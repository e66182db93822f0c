"""Pairs along one axis, as tables for people and as a document for machines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from convdyno import __version__
from convdyno.report.bench_json import FORMAT
from convdyno.report.columns import cell_data
from convdyno.report.comparisons import Pair, Strangers, family_of
from convdyno.report.format import natural, rate, said, varying, written


def tables(pairs: Sequence[Pair]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A title and a table for each family of pairs."""
    families: dict[tuple[str, str, str], list[Pair]] = {}
    for pair in pairs:
        families.setdefault(family_of(pair), []).append(pair)
    for (network, mode, machine), family in sorted(families.items(), key=lambda f: f[0]):
        varied = _varied(family)
        ordered = sorted(family, key=lambda pair: _place(pair, varied))
        title = ", ".join(part for part in (network, mode, machine) if part)
        yield title, [_line(pair, varied) for pair in ordered]


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
    return {
        "format": FORMAT,
        "convdyno": __version__,
        "by": axis,
        "where": list(where),
        "cells": [cell_data(cell, "compare") for cell in cells.values()],
        "comparisons": [pair.to_axis_data(numbers) for pair in pairs],
        "not_compared": [str(one) for one in strangers],
        "skipped": list(skipped),
    }


def _line(pair: Pair, varied: Sequence[str]) -> dict[str, Any]:
    ratio, interval = pair.ratio_words
    told = ", ".join(said(pair.a.trial, name) for name in varied)
    shown: dict[str, Any] = {"cells": told} if varied else {}
    a, b = pair.values
    return shown | {
        pair.axis.replace("_", " "): f"{a} / {b}",
        "images/s": f"{rate(pair.a.images_per_second)} / {rate(pair.b.images_per_second)}",
        "ratio": ratio,
        "interval": interval,
        "verdict": pair.found.verdict,
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

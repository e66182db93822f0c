"""Pairs along one axis, as tables for people and as a document for machines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from convdyno import __version__
from convdyno.report.document import FORMAT
from convdyno.report.entries import Entry
from convdyno.report.pairs import Pair, Strangers, family_of, natural, written
from convdyno.report.words import rate
from convdyno.trial.spec import Trial


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


def other_settings(trial: Trial, names: Sequence[str]) -> str:
    """Some fields of a trial in words."""
    return ", ".join(_said(trial, name) for name in names)


def document(
    axis: str,
    where: Sequence[str],
    pairs: Sequence[Pair],
    strangers: Sequence[Strangers],
    skipped: Sequence[str],
) -> dict[str, Any]:
    """Cells and their ratios, unrounded."""
    cells: dict[str, Entry] = {}
    for pair in pairs:
        cells |= {pair.a.id: pair.a, pair.b.id: pair.b}
    numbers = {name: number for number, name in enumerate(cells)}
    return {
        "format": FORMAT,
        "convdyno": __version__,
        "by": axis,
        "where": list(where),
        "cells": [cell_data(entry) for entry in cells.values()],
        "comparisons": [pair_data(pair, numbers) for pair in pairs],
        "not_compared": [str(one) for one in strangers],
        "skipped": list(skipped),
    }


def cell_data(entry: Entry) -> dict[str, Any]:
    """What is said of a cell that was compared."""
    return {
        "id": entry.id,
        "record": str(entry.file),
        "created": entry.created,
        "trial": entry.trial.model_dump(mode="json"),
        "labels": dict(entry.labels),
        "machine": entry.machine,
        "run": entry.run,
        "images_per_second": entry.rate,
        "interval": [entry.headline and entry.headline.low, entry.headline and entry.headline.high],
        "rounds": len(entry.rounds),
    }


def pair_data(pair: Pair, numbers: dict[str, int]) -> dict[str, Any]:
    """A ratio; `a` and `b` are indices of cells."""
    found = pair.found
    return {
        "by": pair.axis,
        "a": numbers[pair.a.id],
        "b": numbers[pair.b.id],
        "values": list(pair.values),
        "ratio": found.ratio,
        "interval": [found.low, found.high],
        "level": found.level,
        "p": found.p,
        "rounds": found.rounds,
        "verdict": found.verdict,
        "paired": pair.paired,
        "reason": found.reason,
        "conditions": pair.conditions(),
    }


def ratio_words(pair: Pair) -> tuple[str, str]:
    """A ratio and its interval as a table has them."""
    found = pair.found
    ratio = "-" if found.ratio is None else f"{found.ratio:.3f}"
    known = found.low is not None and found.high is not None
    return ratio, f"{found.low:.3f} to {found.high:.3f}" if known else "-"


def _line(pair: Pair, varied: Sequence[str]) -> dict[str, Any]:
    ratio, interval = ratio_words(pair)
    shown: dict[str, Any] = {"cells": other_settings(pair.a.trial, varied)} if varied else {}
    a, b = pair.values
    return shown | {
        pair.axis.replace("_", " "): f"{a} / {b}",
        "images/s": f"{rate(pair.a.rate)} / {rate(pair.b.rate)}",
        "ratio": ratio,
        "interval": interval,
        "verdict": pair.found.verdict,
        "": pair.found.reason or ("" if pair.paired else "unpaired"),
    }


def _varied(family: Sequence[Pair]) -> list[str]:
    """The settings in which pairs of a family differ from each other, besides their own axis."""
    axis, first = family[0].axis, family[0].a.trial
    names = {name for pair in family for name in pair.a.trial.differs_in(first)}
    always = {"precision", "batch"} | ({"engine"} if axis != "engine" else set())
    hidden = {axis, "network", "mode"}
    return [name for name in Trial.model_fields if name in (names | always) - hidden]


def _place(pair: Pair, varied: Sequence[str]) -> Any:
    trial = pair.a.trial
    settings = [natural(written(getattr(trial, name))) for name in varied]
    return settings, [natural(value) for value in pair.values]


def _said(trial: Trial, name: str) -> str:
    value = written(getattr(trial, name))
    if name in ("network", "engine", "mode", "precision", "data"):
        return value
    return f"{name.replace('_', ' ')} {value}"

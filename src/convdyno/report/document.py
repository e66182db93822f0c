"""The JSON document of a benchmark: what `--json` prints. `docs/json.md` describes it."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from convdyno import __version__
from convdyno.report.rows import Row
from convdyno.results.record import Record
from convdyno.stats.compare import Comparison, compare
from convdyno.stats.records import comparable, paired

FORMAT = 1

Compared = tuple[int, int, Comparison]
"""Two cells by their index, and their ratio."""


def compare_records(records: Sequence[Record]) -> list[Compared]:
    """All comparisons that make sense between the cells of one benchmark, as one family."""
    pairs = comparable(records)
    looks = max((record.looks for record in records), default=1)
    found = compare([paired(records[a], records[b]) for a, b in pairs], looks=looks)
    return [(a, b, one) for (a, b), one in zip(pairs, found, strict=True)]


def bench_document(
    rows: Sequence[Row], compared: Sequence[Compared], folder: Path
) -> dict[str, Any]:
    """Cells and comparisons, unrounded."""
    return {
        "format": FORMAT,
        "convdyno": __version__,
        "cells": [row.to_data() | {"record": str(folder / f"{row.id}.json")} for row in rows],
        "comparisons": [
            {
                "a": a,
                "b": b,
                "ratio": one.ratio,
                "interval": [one.low, one.high],
                "level": one.level,
                "p": one.p,
                "rounds": one.rounds,
                "verdict": one.verdict,
                "reason": one.reason,
            }
            for a, b, one in compared
        ],
    }


def to_json(document: dict[str, Any]) -> str:
    """The document as strict JSON: what is not a finite number is null."""
    return json.dumps(_finite(document), indent=1, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value

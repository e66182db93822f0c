"""The report for machines: one JSON document, and what a Bencher dashboard reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from convdyno import __version__
from convdyno.report.compared import pair_data
from convdyno.report.content import MAIN, Content, Found, settings_of
from convdyno.report.document import FORMAT
from convdyno.report.entries import Entry, TrainingRun

NANOSECONDS = 1e9


def document(
    content: Content, rows: Mapping[str, dict[str, Any]], command: Callable[[Entry], str]
) -> dict[str, Any]:
    """Everything that the page says, unrounded; `rows` has each record's figures by its id."""
    cells = content.gathered.entries
    numbers = {cell.id: number for number, cell in enumerate(cells)}
    return {
        "format": FORMAT,
        "convdyno": __version__,
        "cells": [
            rows[cell.id]
            | {
                "record": str(cell.file),
                "machine": cell.machine,
                "run": cell.run,
                "role": cell.role,
                "labels": dict(cell.labels),
                "newest": cell.id in content.newest,
                "command": command(cell),
            }
            for cell in cells
        ],
        "comparisons": [
            pair_data(pair, numbers) for family in content.families for pair in family.pairs
        ],
        "ladders": [_renumbered(found, numbers) for found in content.ladders],
        "scaling": [_renumbered(found, numbers) for found in content.curves],
        "trainings": [_training(run) for run in content.gathered.trainings],
        "machines": dict(content.gathered.machines),
        "skipped": content.gathered.skipped,
    }


def bencher(cells: Iterable[Entry]) -> dict[str, Any]:
    """Bencher Metric Format: images per second, and nanoseconds of a step, with their intervals."""
    measured = [cell for cell in cells if cell.headline is not None]
    return dict(zip(_names(measured), map(_metrics, measured), strict=True))


def _names(cells: Sequence[Entry]) -> list[str]:
    """A name of its own for each cell, its machine in it where there are several."""
    several = len({cell.machine for cell in cells}) > 1
    names = []
    for cell in cells:
        settings = settings_of(cell.trial, {*MAIN, "optimiser"})
        words = [cell.trial.label, settings, cell.machine if several else ""]
        names.append(", ".join(filter(None, words)))
    times = Counter(names)
    return [
        name if times[name] == 1 else f"{name}, {cell.trial.digest[:8]}"
        for name, cell in zip(names, cells, strict=True)
    ]


def _metrics(cell: Entry) -> dict[str, Any]:
    assert cell.headline is not None
    rate, low, high = cell.headline.estimate, cell.headline.low, cell.headline.high
    images = cell.trial.global_batch * NANOSECONDS
    return {
        "throughput": _metric(rate, low, high),
        "latency": _metric(images / rate, high and images / high, low and images / low),
    }


def _metric(value: float, low: float | None, high: float | None) -> dict[str, float]:
    ends = {"lower_value": low, "upper_value": high}
    return {"value": value} | {name: end for name, end in ends.items() if end is not None}


def _training(run: TrainingRun) -> dict[str, Any]:
    record = run.record
    return {
        "folder": str(run.folder),
        "status": record.status,
        "training": record.training.model_dump(mode="json"),
        "result": record.result,
        "evaluations": [{"seconds": seconds, "top1": top1} for seconds, top1 in run.looks],
    }


def _renumbered(found: Found, numbers: Mapping[str, int]) -> dict[str, Any]:
    """A curve or ladder whose cells are those of the document and not of its run alone."""
    own = [numbers[entry.id] for entry in found.entries]
    data = found.what.to_data()
    if "cells" in data:
        return data | {"cells": [own[cell] for cell in data["cells"]]}
    points = [
        point
        | {"cell": own[point["cell"]]}
        | (
            {"communication": cost | {"independent": own[cost["independent"]]}}
            if (cost := point["communication"])
            else {}
        )
        for point in data["points"]
    ]
    baseline = data["baseline"]
    return data | {"points": points, "baseline": None if baseline is None else own[baseline]}

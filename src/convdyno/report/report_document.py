"""The report for machines: one JSON document, and what a Bencher dashboard reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from convdyno import __version__
from convdyno.report.compared import pair_data
from convdyno.report.content import Content, Found, settings_of
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
    found: dict[str, Any] = {}
    for cell in cells:
        if cell.headline is None:
            continue
        name = ", ".join(filter(None, [cell.trial.label, settings_of(cell.trial)]))
        images = cell.trial.global_batch * NANOSECONDS
        ends = (cell.headline.estimate, cell.headline.low, cell.headline.high)
        rate, low, high = ends
        found[name] = {
            "throughput": _metric(rate, low, high),
            "latency": _metric(images / rate, high and images / high, low and images / low),
        }
    return found


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

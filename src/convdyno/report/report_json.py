"""The report for machines: one JSON document, and what a Bencher dashboard reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from convdyno.report.bench_json import versioned
from convdyno.report.cell import Cell
from convdyno.report.cells import TrainingRun
from convdyno.report.columns import cell_data
from convdyno.report.conclusion import conclusion
from convdyno.report.format import MAIN, settings_of
from convdyno.report.report_model import ReportModel

NANOSECONDS = 1e9


def report_document(report: ReportModel) -> dict[str, Any]:
    """Everything that the page says, unrounded."""
    cells = report.gathered.cells
    numbers = {cell.id: number for number, cell in enumerate(cells)}
    return versioned(
        conclusion=conclusion(report),
        cells=[
            cell_data(cell, "report")
            | {"newest": cell.id in report.newest, "command": cell.repeated_by}
            for cell in cells
        ],
        comparisons=[
            pair.to_axis_data(numbers) for family in report.families for pair in family.pairs
        ],
        history=[one.to_data(numbers) for past in report.histories for one in past.series],
        ladders=[ladder.to_data(numbers) for ladder in report.ladders],
        scaling=[curve.to_data(numbers) for curve in report.curves],
        trainings=[_training(run) for run in report.gathered.trainings],
        machines=dict(report.gathered.machines),
        skipped=report.gathered.skipped,
    )


def bencher(cells: Iterable[Cell]) -> dict[str, Any]:
    """Bencher Metric Format: images per second, and nanoseconds of a step, with their intervals."""
    measured = [cell for cell in cells if cell.headline is not None]
    return dict(zip(_names(measured), map(_metrics, measured), strict=True))


def _names(cells: Sequence[Cell]) -> list[str]:
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


def _metrics(cell: Cell) -> dict[str, Any]:
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

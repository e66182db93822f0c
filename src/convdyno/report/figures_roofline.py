"""What the device could do: the roofline, or the share of the peak."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from convdyno.report import charts
from convdyno.report.cell import TRAINING_FORWARDS, Cell, grouped
from convdyno.report.charts import GREY, ROW, Figure, Values
from convdyno.report.format import labels_of, percent, quantity
from convdyno.report.report_model import ReportModel
from convdyno.trial.spec import Trial

Activations = Callable[[Trial, str], int | None]
"""How many numbers a network's layers put out for one image, by its digest; None if unknown."""
MOST_POINTS = 60
MOST_ROWS = 16
LINE = 1.4
"""By what factor the words of one roof stand above those of another that is as high."""
NAMED_POINTS = 14
BYTES = {"fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2}


def roofline_figures(
    report: ReportModel, numbers: dict[str, int], activations: Activations
) -> Iterator[Figure]:
    """What was reached of what the device can do, one chart a machine."""
    able = [cell for cell in report.latest if cell.share_of_peak is not None]
    for machine, group in sorted(grouped(able, lambda cell: cell.machine).items()):
        kinds = grouped(group, _kind).values()
        best = [max(cells, key=lambda cell: cell.flops or 0) for cells in kinds]
        cells = sorted(best, key=lambda c: c.created, reverse=True)[:MOST_POINTS]
        points = [(c, x) for c in cells if (x := _intensity(c, activations)) is not None]
        if points:
            yield _roofline(machine, points, numbers)
        else:
            yield _shares(machine, cells[:MOST_ROWS], numbers)


def _kind(cell: Cell) -> tuple[str, ...]:
    trial = cell.trial
    return trial.network, trial.engine, trial.mode, trial.precision


def _intensity(cell: Cell, activations: Activations) -> float | None:
    """Floating-point operations for each byte that would move if nothing stayed in a cache.

    Every layer's output is written once and read once, and the weights are read once a step; a
    training step is three such passes, as it is for the operations.
    """
    if cell.network is None or "copy" not in cell.peaks:
        return None
    outputs = activations(cell.trial, cell.network.digest)
    if not outputs:
        return None
    weights = cell.network.parameters / cell.trial.batch
    return 2 * cell.network.macs / (BYTES[cell.trial.precision] * (2 * outputs + weights))


def _roofline(
    machine: str, points: Sequence[tuple[Cell, float]], numbers: dict[str, int]
) -> Figure:
    engines = sorted({cell.trial.engine for cell, _ in points})
    tops = {
        cell.trial.network: cell.id for cell, _ in sorted(points, key=lambda p: p[0].flops or 0)
    }
    named = set(tops.values()) if len(tops) <= NAMED_POINTS else set()
    values: Values = [
        {
            "x": x, "y": cell.flops, "engine": cell.trial.engine, "cell": numbers[cell.id],
            "name": cell.trial.network, "label": cell.trial.network if cell.id in named else "",
            "told": f"{quantity(cell.flops or 0, 'FLOP/s')}, {percent(cell.share_of_peak)} of peak",
            "setting": f"{cell.trial.engine}, {cell.trial.mode}, {cell.trial.precision}",
        }
        for cell, x in points
    ]  # fmt: skip
    roofs, labels = _roofs(points)
    y = charts.quantity("y", "FLOP/s", scale={"type": "log"}, axis={"format": "~s", "tickCount": 4})
    ends = [min(roof["x"] for roof in roofs), max(roof["x"] for roof in roofs)]
    x = charts.quantity("x", "FLOP for each byte moved, were nothing cached", scale={"type": "log",
        "domain": ends, "nice": False}, axis={"format": "~g", "tickCount": 4})  # fmt: skip
    here = {"x": x, "y": y}
    label = here | {"text": {"field": "label"}}
    told = charts.tooltip(network="name", cell="setting", reached="told")
    spec = charts.layered(
        [
            {"data": {"values": roofs}} | charts.mark("line", here | {"detail": {"field": "roof",
                "type": "nominal"}}, color=GREY, strokeWidth=1.5),
            {"data": {"values": labels}} | charts.mark("text", label, align="right",
                baseline="bottom", fontSize=11, color=GREY, dy=-4),
            charts.mark("point", here | {"color": charts.coloured("engine", engines),
                "tooltip": told}, filled=True, size=80, opacity=0.9),
            charts.mark("text", label, align="center", fontSize=11, dy=-11),
        ],
        height=320,
    )  # fmt: skip
    return Figure(
        "roofline", "roofline", machine, "operations per second by the network's own count; "
        "the roofs were measured in the same processes",
        spec, values,
        ("left of a roof's edge memory would be the limit, right of it arithmetic; a point above "
         "the slope kept values in caches",),
    )  # fmt: skip


def _roofs(points: Sequence[tuple[Cell, float]]) -> tuple[Values, Values]:
    """The roof of each precision: a slope of what memory gives, then what arithmetic gives."""
    roofs: Values = []
    labels: Values = []
    peaks: dict[str, tuple[float, float]] = {}
    for cell, _ in points:
        before = peaks.get(cell.trial.precision, (0.0, 0.0))
        here = cell.peak_flops or 0.0, cell.peaks["copy"]
        peaks[cell.trial.precision] = max(before[0], here[0]), max(before[1], here[1])
    ends = [x for _, x in points] + [peak / copy for peak, copy in peaks.values()]
    low, high = min(ends) / 2, max(ends) * 2
    above = 0.0
    for precision, (peak, copy) in sorted(peaks.items(), key=lambda item: item[1]):
        edge = peak / copy
        roofs += [{"x": x, "y": min(peak, copy * x), "roof": precision} for x in (low, edge, high)]
        told = f"{precision}: {quantity(peak, 'FLOP/s')}, {quantity(copy, 'B/s')}"
        above = max(peak, above * LINE)
        labels.append({"x": high, "y": above, "label": told})
    return roofs, labels


def _shares(machine: str, cells: Sequence[Cell], numbers: dict[str, int]) -> Figure:
    """The share of the peak alone, for networks whose traffic is not known."""
    ordered = sorted(cells, key=lambda cell: -(cell.share_of_peak or 0))
    labels = labels_of([cell.trial for cell in ordered])
    values: Values = [
        {
            "row": row, "label": label, "share": cell.share_of_peak, "cell": numbers[cell.id],
            "told": f"{percent(cell.share_of_peak)} of {quantity(cell.peak_flops or 0, 'FLOP/s')}",
        }
        for row, (cell, label) in enumerate(zip(ordered, labels, strict=True))
    ]  # fmt: skip
    x = charts.quantity("share", "Share of the peak that was measured in the same process",
        scale={"domainMin": 0}, axis={"format": "%"})  # fmt: skip
    spec = charts.layered(
        [
            *charts.words(ROW),
            charts.mark("bar", {"x": x, "y": ROW}, height=9, yOffset=8, cornerRadiusEnd=2,
                color="#1f6feb", opacity=0.85),
        ],
        height={"step": 40},
    )  # fmt: skip
    counted = f"a training step counts as {TRAINING_FORWARDS} forward passes"
    return Figure("roofline", "peak", machine, counted, spec, values)

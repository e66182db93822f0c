"""The charts of several devices, and of where a step's time goes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from convdyno.report import charts
from convdyno.report.charts import COLOURS, GREY, ROW, Figure, Spec, Values
from convdyno.report.format import MODES, noun, percent, share
from convdyno.report.report_model import ReportModel
from convdyno.report.scaling import Curve, Point
from convdyno.report.uncertain import Frame, clipped, ends_of, frame_from_zero, known

IDEAL = "ideal"
MOST_CURVES = 12
MOST_LADDERS = 24
PLACES: tuple[dict[str, Any], ...] = (
    {"align": "left", "baseline": "top", "dx": 7, "dy": 5},
    {"align": "right", "baseline": "bottom", "dx": -7, "dy": -5},
    {"align": "left", "baseline": "middle", "dx": 9, "dy": 0},
)
"""Where the efficiencies of each line stand, so that they do not meet."""
PARTS = {
    "compute": "#1f6feb", "transfer": "#0d9aa6", "augmentation": "#bf4bd0", "decoding": "#e07b00",
    "reading": "#8a6d3b", "exchange": "#d1435b", "waiting": "#8b949e",
}  # fmt: skip
"""Of a step, with their colours."""


def scaling_figures(report: ReportModel, numbers: Mapping[str, int]) -> Iterator[Figure]:
    """A chart for each curve."""
    for curve in report.curves[:MOST_CURVES]:
        yield scaling_figure(curve, numbers)


def scaling_figure(curve: Curve, numbers: Mapping[str, int] | None = None) -> Figure:
    """Images per second by devices, with 95 % intervals, efficiencies and the ideal line."""
    ordered = sorted(curve.lines.items(), key=lambda line: line[0] != "default")
    lines = {_line_name(curve, kind): points for kind, points in ordered}
    points = [point for line in lines.values() for point in line]
    room = frame_from_zero([point.cell for point in points])
    counts = sorted({0, *(point.trial.devices for point in points)})
    aside = charts.side_by_side(counts, len(lines))
    values = [
        {"at": point.trial.devices + (moved if point.trial.devices > 1 else 0.0)}
        | _point(point, line, room, numbers)
        for (line, own), moved in zip(lines.items(), aside, strict=True)
        for point in own
    ]
    entries = [*lines, IDEAL][: len(lines) + (curve.baseline is not None)]
    x = charts.quantity("at", _devices(curve),
        scale={"domain": [0, counts[-1] * 1.06], "nice": False},
        axis={"values": counts, "format": "d", "grid": False, "labelOverlap": "greedy",
            "labelSeparation": 6})  # fmt: skip
    y = charts.quantity("rate", "Images/s", scale={"zero": True})
    # Nothing is above the ideal line; without one the free corner is below the curve.
    corner = "top-left" if curve.baseline is not None else "bottom-right"
    legend = {"orient": corner, "symbolType": "stroke", "symbolSize": 400, "offset": 8,
        "columns": 1, "direction": "vertical"}  # fmt: skip
    colours = [GREY if name == IDEAL else COLOURS[i] for i, name in enumerate(entries)]
    dashes = [[5, 4] if name == IDEAL else [1, 0] for name in entries]
    colour = charts.series("line", entries, colours, legend)
    dash = charts.series("line", entries, dashes, legend)
    measured = {"x": x, "color": colour}
    end: Spec = {"width": 9, "thickness": 1.5, "orient": "horizontal", "opacity": 1}
    told = charts.tooltip(
        line="line", devices="devices", images_per_second="told", efficiency="share"
    )
    layers = [
        {"data": {"values": _ideal(curve, counts[-1])}}
        | charts.mark("line", measured | {"y": y, "strokeDash": dash}, strokeWidth=1.5),
        charts.mark("line", measured | {"y": y, "strokeDash": dash}, strokeWidth=2),
        charts.only("low", charts.mark("rule", measured | charts.interval("y"), strokeWidth=1.5)),
        charts.only("low", charts.mark("tick", measured | {"y": charts.quantity("low")}, **end)),
        charts.only("high", charts.mark("tick", measured | {"y": charts.quantity("high")}, **end)),
        *charts.arrows("y", {"x": x}, colour),
        charts.mark("point", measured | {"y": y, "tooltip": told}, filled=True, size=45, opacity=1),
    ]
    for name, place in zip(lines, PLACES, strict=False):
        own = {"transform": [{"filter": {"field": "line", "equal": name}}]}
        text = measured | {"y": y, "text": {"field": "efficiency"}}
        layers.append(own | charts.mark("text", text, fontSize=11, **place))
    return Figure(
        section="scaling",
        name=f"{curve.work.network}_b{curve.work.batch}",
        title=f"{curve.work.network}, {MODES[curve.work.mode]}, {curve.work.precision}",
        subtitle=_subtitle(curve),
        spec=charts.layered(layers, height=300),
        values=values,
        notes=(*curve.sentences(), *charts.clip_note(values)),
    )


def ladder_figures(report: ReportModel, numbers: Mapping[str, int]) -> Iterator[Figure]:
    """Where a step's time goes: the rungs of the input, and what devices pay to work together."""
    values: Values = []
    notes: list[str] = []
    row = 0
    for climbed in report.ladders[:MOST_LADDERS]:
        top, ladder = climbed.cells[-1], climbed.ladder
        shares = {"compute": ladder.compute.share} | {n: s.share for n, s in ladder.parts}
        label = f"{top.trial.label}, {top.trial.data}"
        told = f"{ladder.limit}-bound" if ladder.limit != "undecided" else "undecided"
        values += _row(row, label, told, shares, numbers[top.id])
        notes.append(f"{label}: {climbed.sentence}")
        row += 1
    for point in (point for curve in report.curves for point in curve.points):
        if (cost := point.communication) is None:
            continue
        waiting = {} if cost.waiting is None else {"waiting": cost.waiting.share}
        shares = {"compute": 1 - cost.share.share, "exchange": cost.exchange.share} | waiting
        told = f"exchange {share(cost.exchange)}"
        values += _row(row, point.trial.label, told, shares, numbers[point.cell.id])
        row += 1
        if row >= MOST_LADDERS:
            break
    if values:
        yield _ladder_figure(values, notes)


def _ladder_figure(values: Values, notes: Sequence[str]) -> Figure:
    parts = [name for name in PARTS if any(value.get("part") == name for value in values)]
    colours = [PARTS[name] for name in parts]
    colour = charts.series("part", parts, colours, {"symbolType": "square"})
    x = charts.quantity("from", "Share of a step", scale={"domain": [0, 1], "clamp": True},
        axis={"format": "%", "tickCount": 5})  # fmt: skip
    told = charts.tooltip(part="part", share="share")
    spec = charts.layered(
        [
            *charts.words(ROW, room=150),
            charts.mark("bar", {"x": x, "x2": {"field": "to"}, "y": ROW, "color": colour,
                "tooltip": told}, height=13, yOffset=10),
        ],
        height={"step": 44},
    )  # fmt: skip
    return Figure(
        "ladder", "where_the_time_goes", "Where the time of a step goes",
        "what each part of the input adds, and what devices pay to work together, measured by "
        "leaving it out",
        spec, values, tuple(notes),
    )  # fmt: skip


def _row(row: int, label: str, told: str, shares: Mapping[str, float], cell: int) -> Values:
    """The parts of one bar, one after the other; what is below nothing by chance is nothing."""
    values: Values = [{"row": row, "label": label, "told": told, "cell": cell}]
    start = 0.0
    for part, of_all in shares.items():
        end = start + max(0.0, of_all)
        if end > start:
            about = {"row": row, "part": part, "share": percent(of_all), "cell": cell}
            values.append(about | {"from": start, "to": end})
        start = end
    return values


def _point(
    point: Point, line: str, room: Frame, numbers: Mapping[str, int] | None
) -> dict[str, Any]:
    cell, reached = point.cell, point.gain.efficiency if point.gain else None
    shown = {} if numbers is None else {"cell": numbers[cell.id]}
    return (
        shown
        | clipped(ends_of(cell), room)
        | {
            "devices": point.trial.devices,
            "rate": point.rate,
            "line": line,
            "efficiency": percent(reached.share) if reached else "",
            "share": share(reached) if reached else "baseline",
            "told": known(point.rate, ends_of(cell)),
        }
    )


def _ideal(curve: Curve, most: int) -> Values:
    if curve.baseline is None:
        return []
    return [{"at": n, "rate": n * curve.baseline.rate, "line": IDEAL} for n in (0, most)]


def _line_name(curve: Curve, kind: str) -> str:
    if kind == "default":
        return curve.work.engine
    return f"{curve.work.engine}, " + ("no exchange" if kind == "independent" else kind)


def _devices(curve: Curve) -> str:
    if str(curve.points[0].cell.settings.get("device", "")).startswith("cuda"):
        return "Number of GPUs"
    cores = curve.work.cores
    each = "" if cores is None else f" ({noun(cores, 'CPU core')} each)"
    return f"Number of devices{each}"


def _subtitle(curve: Curve) -> str:
    cell = curve.points[-1].cell
    device = cell.settings.get("device_name")
    where = [curve.scaling, *([str(device)] if device else []), cell.created[:10]]
    shown = "bars: 95 % intervals"
    if curve.baseline is not None:
        shown += "; percentages: efficiency, the share of the ideal"
    return "; ".join([*where, shown])

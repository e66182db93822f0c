"""The charts of a report; here those of throughput, and of how much blocks vary.

Rows of a chart have their words above them and not beside, so that a narrow page has room for both.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, count
from typing import Any

import numpy as np

from convdyno.report import charts
from convdyno.report.cell import Cell, Place, grouped, place_of
from convdyno.report.charts import COLOURS, GREY, ROW, Figure, Spec, Values
from convdyno.report.figures_accuracy import accuracy_figures
from convdyno.report.figures_history import history_figures
from convdyno.report.figures_ratios import ratio_figure
from convdyno.report.figures_roofline import Activations, roofline_figures
from convdyno.report.figures_scaling import ladder_figures, scaling_figures
from convdyno.report.format import labels_of, noun
from convdyno.report.report_model import ReportModel
from convdyno.report.uncertain import Frame, clipped, ends_of, frame_from_zero, known
from convdyno.stats.series import Floats
from convdyno.trial.spec import Trial

MOST_PLACES = 12
MOST_SERIES = 8
MOST_ROWS = 16
MOST_BLOCK_CELLS = 8
MOST_BLOCKS = 40
"""Of one process; of more, so many quantiles are drawn."""
FAR_OFF = 0.1
"""The share of blocks at each side that has no say in how wide the frame is."""


def figures(
    report: ReportModel, activations: Activations = lambda trial, digest: None
) -> list[Figure]:
    """All charts that there is something to show in, in the order of the report."""
    numbers = {cell.id: number for number, cell in enumerate(report.cells)}
    places = _places(_beside_curves(report))
    found = [
        *(one for place, cells in places for one in _throughput(place, cells, numbers)),
        *(ratio_figure(family, numbers) for family in report.families),
        *history_figures(report, numbers),
        *scaling_figures(report, numbers),
        *ladder_figures(report, numbers),
        *roofline_figures(report, numbers, activations),
        *(_blocks(place, cells, numbers) for place, cells in places),
        *accuracy_figures(report.gathered.trainings),
    ]
    return list(_with_own_names(figure for figure in found if figure is not None))


def _beside_curves(report: ReportModel) -> list[Cell]:
    """The newest cells, without those of several devices that a scaling chart shows."""
    shown = {
        point.cell.id
        for curve in report.curves
        if curve.baseline or len(curve.points) > 1
        for point in curve.points
    }
    return [cell for cell in report.latest if cell.id not in shown]


def _places(latest: Sequence[Cell]) -> list[tuple[Place, list[Cell]]]:
    """The measured cells by what one chart can hold; the newest if there are too many."""
    found = grouped((cell for cell in latest if cell.trial.rung == "source"), place_of)
    newest = sorted(found, key=lambda place: max(e.created for e in found[place]), reverse=True)
    shown = set(newest[:MOST_PLACES])
    return [(place, cells) for place, cells in found.items() if place in shown]


def _throughput(place: Place, cells: Sequence[Cell], numbers: dict[str, int]) -> Iterator[Figure]:
    """Images per second by batch; one bar for each cell that was measured with one batch alone."""
    lines = grouped(cells, lambda cell: cell.trial.model_copy(update={"batch": 1}))
    single = [points[0] for points in lines.values() if len(points) == 1]
    several = {trial: points for trial, points in lines.items() if len(points) > 1}
    if several:
        yield _lines(place, several, numbers)
    if single:
        yield _bars(place, single, numbers)


def _lines(place: Place, lines: Mapping[Trial, list[Cell]], numbers: dict[str, int]) -> Figure:
    """A line for each setting: engines by colour, the rest by dashes."""
    best = sorted(lines, key=lambda trial: -max(p.images_per_second or 0 for p in lines[trial]))
    shown = best[:MOST_SERIES]
    rests = labels_of([trial.model_copy(update={"engine": ""}) for trial in shown])
    cells = [cell for trial in shown for cell in lines[trial]]
    batches = sorted({cell.trial.batch for cell in cells})
    aside = charts.side_by_side([math.log2(batch) for batch in batches], len(shown))
    room = frame_from_zero(cells)
    values: Values = [
        {
            "at": cell.trial.batch * 2**moved, "batch": cell.trial.batch, "engine": trial.engine,
            "rest": rest or trial.precision, "cell": numbers[cell.id],
            "name": f"{trial.engine}, {rest or trial.precision}",
        }
        | _rate(cell, room)
        for trial, rest, moved in zip(shown, rests, aside, strict=True)
        for cell in sorted(lines[trial], key=lambda cell: cell.trial.batch)
    ]  # fmt: skip
    engines = sorted({value["engine"] for value in values})
    kinds = list(dict.fromkeys(value["rest"] for value in values))
    several = len(engines) > 1
    colour = charts.coloured("engine", engines) if several else charts.coloured("rest", kinds)
    x = charts.quantity("at", "Images per device and step", scale={"type": "log", "base": 2,
        "nice": False, "padding": 14}, axis={"values": batches, "format": "d", "grid": False,
        "labelOverlap": True})  # fmt: skip
    encoding = {"x": x, "color": colour, "detail": {"field": "name", "type": "nominal"}}
    line = encoding | {"y": charts.quantity("rate", "Images/s", scale={"zero": True})}
    dashes = {"strokeDash": charts.dashed("rest", kinds)} if several and len(kinds) > 1 else {}
    told = charts.tooltip(cell="name", batch="batch", images_per_second="told")
    spec = charts.layered(
        [
            charts.mark("line", line | dashes, strokeWidth=2),
            charts.only("low", charts.mark("rule", encoding | charts.interval("y"),
                strokeWidth=2)),
            *charts.arrows("y", {"x": x}, colour),
            charts.mark("point", line | {"tooltip": told}, filled=True, size=50, opacity=1),
        ],
        height=280,
    )  # fmt: skip
    left = len(best) - len(shown)
    notes = [f"{noun(left, 'slower series is', 'slower series are')} left out"] if left else []
    notes += charts.clip_note(values)
    return charts.place_figure("throughput", place, "by batch", spec, values, cells, notes)


def _bars(place: Place, cells: Sequence[Cell], numbers: dict[str, int]) -> Figure:
    """Images per second as a bar for each cell, the fastest first."""
    shown = sorted(cells, key=lambda cell: -(cell.images_per_second or 0))[:MOST_ROWS]
    room = frame_from_zero(shown)
    values = [
        {"row": row, "label": label, "engine": cell.trial.engine, "cell": numbers[cell.id]}
        | _rate(cell, room)
        for row, (cell, label) in enumerate(
            zip(shown, labels_of([cell.trial for cell in shown]), strict=True)
        )
    ]
    engines = sorted({cell.trial.engine for cell in shown})
    x = charts.quantity("rate", "Images/s", scale={"zero": True}, axis={"format": "~s"})
    colour = charts.coloured("engine", engines) | {"legend": None}
    told = charts.tooltip(cell="label", images_per_second="told")
    spec = charts.layered(
        [
            *charts.words(ROW),
            charts.mark("bar", {"x": x, "y": ROW, "color": colour, "tooltip": told}, height=9,
                yOffset=8, cornerRadiusEnd=2, opacity=0.85),
            charts.only("low", charts.mark("rule", charts.interval("x") | {"y": ROW,
                "color": {"value": GREY}}, strokeWidth=2.5, yOffset=8)),
            *charts.arrows("x", {"y": ROW}, {"value": GREY}, yOffset=8),
        ],
        height={"step": 40},
    )  # fmt: skip
    left = len(cells) - len(shown)
    notes = [f"{noun(left, 'slower cell is', 'slower cells are')} left out"] if left else []
    notes += charts.clip_note(values)
    return charts.place_figure("throughput", place, "", spec, values, cells, notes)


def _blocks(place: Place, cells: Sequence[Cell], numbers: dict[str, int]) -> Figure:
    """How much blocks vary within each process, and processes from each other."""
    newest = sorted(cells, key=lambda cell: cell.created, reverse=True)[:MOST_BLOCK_CELLS]
    shown = [cell for cell in cells if cell in newest]
    values: Values = []
    kinds, row = ("clean", "disturbed"), 0
    for cell, label in zip(shown, labels_of([cell.trial for cell in shown]), strict=True):
        values.append({"row": row, "label": label, "cell": numbers[cell.id]})
        for number, taken in cell.measured.items():
            row += 1
            about = {"row": row, "cell": numbers[cell.id], "process": str(number + 1)}
            rates = taken.images / taken.seconds / (cell.images_per_second or 1.0) * 100 - 100
            values.append(about | {"median": round(float(np.median(rates[taken.used])), 3)})
            for kind, those in zip(kinds, (~taken.contaminated, taken.contaminated), strict=True):
                offs = (round(float(off), 3) for off in _thinned(rates[those]))
                values += [about | {"off": off, "kind": kind} for off in offs]
        row += 1
    beyond = _beyond_frame(values)
    colour: Spec = {"value": COLOURS[0]}
    if any(value.get("kind") == "disturbed" for value in values):
        colour = charts.series("kind", kinds, COLOURS[:2], {"symbolType": "circle"})
    title = "Images/s of a block, against the cell's (%)"
    x = charts.quantity("at", title, axis={"format": "+.2~f"}, scale={"padding": 8})
    zero = charts.mark("tick", {"x": {"datum": 0}, "y": ROW}, height=17, thickness=1, color=GREY)
    name = {"x": {"value": 0}, "y": ROW, "text": {"field": "label"}}
    told = charts.tooltip(process="process", per_cent="off", block="kind")
    spec = charts.layered(
        [
            charts.only("median", zero),
            charts.only("label", charts.mark("text", name, align="left", fontSize=12, dy=2,
                limit={"expr": "width"})),
            charts.only("at", charts.mark("point", {"x": x, "y": ROW, "color": colour,
                "tooltip": told}, filled=True, size=28, opacity=0.55)),
            *charts.arrows("x", {"y": ROW, "tooltip": told}, colour),
            charts.only("median", charts.mark("tick", {"x": charts.quantity("median"), "y": ROW},
                color="#d1435b", thickness=2, height=13)),
        ],
        height={"step": 17},
    )  # fmt: skip
    notes = [f"the {len(shown)} newest of {len(cells)} cells"] if len(cells) > len(shown) else []
    if beyond:
        notes.append(f"{noun(beyond, 'block is', 'blocks are')} beyond the frame: arrows")
    return charts.place_figure("blocks", place, "", spec, values, shown, notes)


def _beyond_frame(values: Values) -> int:
    """Place all blocks in the chart, the few that are far off at its edges; how many these are."""
    offs = np.array([value["off"] for value in values if "off" in value])
    low, high = np.quantile(offs, [FAR_OFF, 1 - FAR_OFF])
    reach = 2 * max(high - low, 1.0)
    least, most = min(low - reach, 0.0), max(high + reach, 0.0)
    beyond = 0
    for value in values:
        if "median" in value:
            value["median"] = min(max(value["median"], least), most)
        if (off := value.get("off")) is None:
            continue
        inside = least <= off <= most
        value |= {"at": off} if inside else {"below": least} if off < least else {"above": most}
        beyond += not inside
    return beyond


def _thinned(rates: Floats) -> Floats:
    """All of a few, or the quantiles of many."""
    if len(rates) <= MOST_BLOCKS:
        return rates
    found: Floats = np.quantile(rates, (np.arange(MOST_BLOCKS) + 0.5) / MOST_BLOCKS)
    return found


def _rate(cell: Cell, room: Frame) -> dict[str, Any]:
    told = known(cell.images_per_second, ends_of(cell))
    one = " (1 process)" if cell.one_process else ""
    return {"rate": cell.images_per_second, "told": told + one} | clipped(ends_of(cell), room)


def _with_own_names(found: Iterable[Figure]) -> Iterator[Figure]:
    """The charts, each with a file name that no other has."""
    taken: set[str] = set()
    for figure in found:
        base = re.sub(r"[^A-Za-z0-9._-]+", "-", figure.name).strip("-.")[:80] or "chart"
        names = chain([base], (f"{base}_{number}" for number in count(2)))
        name = next(one for one in names if one not in taken)
        taken.add(name)
        yield replace(figure, name=name)

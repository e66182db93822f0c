"""The chart of a cell's runs over time: images/s with intervals, and where versions changed."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import Any

from convdyno.report import charts
from convdyno.report.cell import Cell
from convdyno.report.charts import GREY, Figure, Spec, Values
from convdyno.report.format import MODES, noun, pairs
from convdyno.report.history import NetworkHistory, Series, day, moment, versions_of
from convdyno.report.report_model import ReportModel
from convdyno.report.uncertain import clipped, ends_of, frame, known

ASIDE = 0.006
"""How far series of one run, which is of one time, stand apart: of the time that is shown."""
WIDE = 4.0
"""From this factor between the slowest and the fastest run on, the axis is logarithmic."""
DAY = 24 * 3600 * 1000
DATES = ((DAY / 150, "%H:%M:%S"), (2 * DAY, "%b %-d %H:%M"), (300 * DAY, "%b %-d"), (inf, "%Y-%m"))
"""How times are written along the axis, by how many milliseconds it is long."""
MOST_CHANGES = 6
"""Changes of versions that are told in words."""


def history_figures(report: ReportModel, numbers: dict[str, int]) -> Iterator[Figure]:
    """A chart for each network and mode of which something was measured more than once."""
    return (_figure(history, numbers) for history in report.histories)


def _figure(history: NetworkHistory, numbers: dict[str, int]) -> Figure:
    """A line for each cell, a dashed rule where the versions of one changed."""
    cells = [cell for one in history.series for cell in one.cells]
    rates = [cell.images_per_second or 0.0 for cell in cells]
    room = frame(rates, [ends_of(cell) for cell in cells])
    wide = min(rates) > 0 and max(rates) > WIDE * min(rates)
    room = (max(room[0], min(rates) / 2), room[1]) if wide else (max(room[0], 0.0), room[1])
    times = [_milliseconds(cell) for cell in cells]
    step = ASIDE * (max(times) - min(times))
    values: Values = []
    for place, one in enumerate(history.series):
        aside = round(step * (place - (len(history.series) - 1) / 2))
        for cell in one.cells:
            at = _milliseconds(cell) + aside
            values.append(_point(cell, one, at, numbers) | clipped(ends_of(cell), room))
        for cell, words in one.changes():
            told = {"changed": _milliseconds(cell), "words": "; ".join(words)}
            values.append(told | {"cell": numbers[cell.id]})
    notes = charts.clip_note(values) + _notes(history)
    machines = sorted({cell.machine for cell in cells})
    return Figure(
        section="history",
        name=f"{history.network}_history" + ("" if history.mode == "train" else "_infer"),
        title=f"{history.network}, {MODES[history.mode]}",
        subtitle=machines[0] if len(machines) == 1 else f"{len(machines)} machines",
        spec=_spec([one.label for one in history.series], wide, max(times) - min(times)),
        values=values,
        notes=tuple(notes),
    )


def _spec(labels: list[str], logarithmic: bool, milliseconds: int) -> Spec:
    written = next(words for most, words in DATES if milliseconds <= most)
    x: Spec = {"field": "time", "type": "temporal", "title": "When it was measured (UTC)",
        "scale": {"type": "utc", "padding": 14},
        "axis": {"grid": False, "labelOverlap": True, "format": written}}  # fmt: skip
    scale = {"type": "log", "nice": False} if logarithmic else {"zero": False}
    colour = charts.coloured("name", labels)
    encoding = {"x": x, "color": colour}
    line = encoding | {"y": charts.quantity("rate", "Images/s", scale={**scale, "padding": 10})}
    told = charts.tooltip(
        cell="name", images_per_second="told", measured="day", versions="versions",
        machine="machine",
    )  # fmt: skip
    filled = {"condition": {"test": "datum.disturbed", "value": 0}, "value": 1}
    change = {"x": x | {"field": "changed"}, "tooltip": charts.tooltip(changed="words")}
    return charts.layered(
        [
            charts.only("changed", charts.mark("rule", change, color=GREY, strokeDash=[4, 4],
                strokeWidth=1.5)),
            charts.only("rate", charts.mark("line", line, strokeWidth=1.5, opacity=0.6)),
            charts.only("low", charts.mark("rule", encoding | charts.interval("y"),
                strokeWidth=2)),
            *charts.arrows("y", {"x": x}, colour),
            charts.only("rate", charts.mark("point", line | {"fill": colour, "tooltip": told,
                "fillOpacity": filled}, size=50, opacity=1, strokeWidth=2)),
        ],
        height=260,
    )  # fmt: skip


def _point(cell: Cell, series: Series, at: int, numbers: dict[str, int]) -> dict[str, Any]:
    one = " (1 process)" if cell.one_process else ""
    return {
        "time": at, "rate": cell.images_per_second, "name": series.label, "day": day(cell),
        "told": known(cell.images_per_second, ends_of(cell)) + one,
        "versions": pairs(versions_of(cell), sign=" "), "machine": cell.machine,
        "cell": numbers[cell.id], "disturbed": cell.disturbed,
    }  # fmt: skip


def _notes(history: NetworkHistory) -> list[str]:
    """Which versions changed and when, and what there was no room for."""
    changes: dict[str, str] = {}
    for one in history.series:
        for cell, words in one.changes():
            changes.setdefault("; ".join(words), day(cell)[:10])
    dated = sorted(((date, words) for words, date in changes.items()), reverse=True)
    told = [f"{words} ({date})" for date, words in dated[:MOST_CHANGES]]
    if len(dated) > len(told):
        told.append(f"{len(dated) - len(told)} earlier")
    notes = [f"a dashed line: versions changed: {', '.join(told)}"] if told else []
    if any(cell.disturbed for one in history.series for cell in one.cells):
        notes.append("a hollow point: a run that was disturbed by other work all the time")
    if history.left_out:
        left = noun(history.left_out, "cell that was measured longer ago is",
            "cells that were measured longer ago are")  # fmt: skip
        notes.append(f"{left} left out")
    if older := sum(one.left_out for one in history.series):
        notes.append(f"{noun(older, 'older run is', 'older runs are')} left out")
    return notes


def _milliseconds(cell: Cell) -> int:
    found = moment(cell)
    return round(found.timestamp() * 1000) if found else 0

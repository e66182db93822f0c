"""What the page's own script works on: columns, not rows, and every text once."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from convdyno.report.cell import Cell
from convdyno.report.charts import CONFIG, Figure
from convdyno.report.columns import TOLD, view
from convdyno.report.format import pairs, settings_of
from convdyno.report.report_model import ReportModel
from convdyno.report.uncertain import ends_of, thousands, vagueness

ORDER = (
    "network", "engine", "mode", "precision", "batch", "images_per_second", "settings",
    "share_of_peak", "images_per_joule", "memory_bytes", "host", "status", "created",
)  # fmt: skip
"""The columns of the table."""
ALWAYS = ("batch", "images_per_second", "status", "created")
"""Are shown even if all cells have the same."""
WRITTEN = (
    "images_per_second", "between", "share_of_peak", "images_per_joule", "memory_bytes",
    "first_step_seconds",
)  # fmt: skip
"""Figures that the page has in words; it sorts by the numbers."""


def page_data(report: ReportModel, charts: Sequence[Figure]) -> str:
    """JSON that may stand in a script element, because it cannot end it."""
    text = json.dumps(_data(report, charts), separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _data(report: ReportModel, charts: Sequence[Figure]) -> dict[str, Any]:
    cells = report.cells
    warnings = {text: number for number, text in enumerate(report.warnings())}
    values: dict[str, list[Any]] = {
        column.name: [column.value(cell) for cell in cells] for column in view("page")
    } | {
        **{f"{name}_told": [_told(cell, name) for cell in cells] for name in WRITTEN},
        "status": [TOLD["standing"].told(cell) for cell in cells],
        "host": _hosts(cells),
        "settings": [_settings(cell) for cell in cells],
        "used": [_used(cell) for cell in cells],
        "versions": [pairs(cell.versions, sign=" ") for cell in cells],
        "labels": [pairs(cell.labels) for cell in cells],
        "command": [cell.repeated_by for cell in cells],
        "label": [
            ", ".join(filter(None, [cell.trial.label, settings_of(cell.trial)])) for cell in cells
        ],
    }
    return {
        "columns": _columns(values),
        "titles": {name: TOLD[name].title for name in ("devices", "machine", *ORDER)},
        "config": CONFIG,
        "warnings": list(warnings),
        "cells": {name: _packed(column) for name, column in values.items()}
        | {
            "latest": [int(cell.id in report.newest) for cell in cells],
            "warnings": [[warnings[text] for text in cell.warnings] for cell in cells],
        },
        "figures": [
            {
                "spec": chart.to_page(),
                "step": chart.step,
                "values": [_plain(value) for value in chart.values],
            }
            for chart in charts
        ],
    }


def _columns(values: Mapping[str, Sequence[Any]]) -> list[str]:
    """Texts in which cells differ, figures that any cell has, and what is always shown."""
    shown = {*ALWAYS} | ({"network", "engine"} if len(values["id"]) <= 1 else set())
    for name in ORDER:
        texts = [value for value in values[name] if isinstance(value, str)]
        shown |= {name} if (len(set(texts)) > 1 if texts else any(values[name])) else set()
    return [name for name in ORDER if name in shown]


def _told(cell: Cell, name: str) -> str:
    words = TOLD[name].told(cell)
    if name == "between" and cell.images_per_second:
        words = vagueness(cell.images_per_second, ends_of(cell)) or words
    return "" if words == "-" else thousands(str(words))


def _hosts(cells: Sequence[Cell]) -> list[str]:
    """Machines by their host alone, where that tells them apart."""
    short = {cell.machine: cell.machine.partition(": ")[0] for cell in cells}
    unique = len(set(short.values())) == len(short)
    return [short[cell.machine] if unique else cell.machine for cell in cells]


def _settings(cell: Cell) -> str:
    role = f"{cell.role} of a gate" if cell.role else ""
    return ", ".join(filter(None, [settings_of(cell.trial), pairs(cell.labels), role]))


def _used(cell: Cell) -> str:
    """What `auto` became."""
    names = ("device_name", "device", "threads", "layout", "compiled")
    shown = [f"{n.replace('_', ' ')} {cell.settings[n]}" for n in names if n in cell.settings]
    return ", ".join(shown)


def _packed(values: Sequence[Any]) -> Any:
    """Figures as short as they are shown; of texts each once, and which of them a cell has."""
    if not any(isinstance(value, str) for value in values):
        return [_short_number(value) for value in values]
    names = {text: number for number, text in enumerate(dict.fromkeys(values))}
    if len(names) == len(values):
        return list(names)
    return {"names": list(names), "codes": [names[text] for text in values]}


def _short_number(value: float | None) -> float | int | None:
    """Five digits are more than anybody reads; a page of ten thousand cells is read sooner."""
    if value is None or not math.isfinite(value):
        return None
    short = float(f"{value:.5g}")
    return int(short) if short == int(short) else short


def _plain(value: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: _short_number(one) if isinstance(one, float) else one for key, one in value.items()
    }

"""What the page's own script works on: columns, not rows, and every text once."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from convdyno.report.charts import CONFIG, Figure
from convdyno.report.content import Content, settings_of
from convdyno.report.entries import Entry

Command = Callable[[Entry], str]
"""What repeats a cell."""
ALWAYS = ("batch", "rate", "status", "created")
"""Columns that are shown even if all cells have the same."""


def page_data(content: Content, charts: Sequence[Figure], command: Command) -> str:
    """JSON that may stand in a script element."""
    return _safe(_data(content, charts, command))


def _data(content: Content, charts: Sequence[Figure], command: Command) -> dict[str, Any]:
    cells = content.cells
    warnings = {text: number for number, text in enumerate(content.warnings())}
    columns: dict[str, list[Any]] = {
        "network": [cell.trial.network for cell in cells],
        "engine": [cell.trial.engine for cell in cells],
        "mode": [cell.trial.mode for cell in cells],
        "precision": [cell.trial.precision for cell in cells],
        "machine": [cell.machine for cell in cells],
        "host": _hosts(cells),
        "status": [cell.status for cell in cells],
        "reason": [cell.reason or "" for cell in cells],
        "settings": [_settings(cell) for cell in cells],
        "used": [_used(cell) for cell in cells],
        "versions": [", ".join(f"{k} {v}" for k, v in cell.versions.items()) for cell in cells],
        "labels": [", ".join(f"{k}={v}" for k, v in cell.labels.items()) for cell in cells],
        "run": [cell.command for cell in cells],
        "command": [command(cell) for cell in cells],
        "label": [
            ", ".join(filter(None, [cell.trial.label, settings_of(cell.trial)])) for cell in cells
        ],
    }
    coded = {name: _coded(values) for name, values in columns.items() if name != "label"}
    return {
        "columns": _columns(columns, cells),
        "config": CONFIG,
        "warnings": list(warnings),
        "cells": coded
        | {
            "label": columns["label"],
            "id": [cell.id for cell in cells],
            "batch": [cell.trial.batch for cell in cells],
            "devices": [cell.trial.devices for cell in cells],
            "rate": [_short_number(cell.rate) for cell in cells],
            "low": [_short_number(_end(cell, "low")) for cell in cells],
            "high": [_short_number(_end(cell, "high")) for cell in cells],
            "share": [_short_number(cell.share_of_peak) for cell in cells],
            "joule": [_short_number(cell.images_per_joule) for cell in cells],
            "first": [_short_number(cell.first_step_seconds) for cell in cells],
            "memory": [_short_number(cell.memory_bytes) for cell in cells],
            "rounds": [len(cell.rounds) for cell in cells],
            "blocks": [cell.blocks for cell in cells],
            "bad": [cell.contaminated for cell in cells],
            "created": [cell.created[:16] for cell in cells],
            "latest": [int(cell.id in content.newest) for cell in cells],
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


def _columns(columns: Mapping[str, Sequence[Any]], cells: Sequence[Entry]) -> list[str]:
    """The columns in which cells differ, and those that are always shown."""
    varied = {name for name, values in columns.items() if len(set(values)) > 1}
    varied |= {"share"} if any(cell.share_of_peak for cell in cells) else set()
    varied |= {"joule"} if any(cell.images_per_joule for cell in cells) else set()
    varied |= {"memory"} if any(cell.memory_bytes for cell in cells) else set()
    if len({cell.trial.network for cell in cells}) <= 1 and len(cells) <= 1:
        varied |= {"network", "engine"}
    order = (
        "network", "engine", "mode", "precision", "batch", "settings", "host",
        "rate", "share", "joule", "memory", "status", "created",
    )  # fmt: skip
    return [name for name in order if name in varied or name in ALWAYS]


def _hosts(cells: Sequence[Entry]) -> list[str]:
    """Machines by their host alone, where that tells them apart."""
    short = {cell.machine: cell.machine.partition(": ")[0] for cell in cells}
    unique = len(set(short.values())) == len(short)
    return [short[cell.machine] if unique else cell.machine for cell in cells]


def _settings(cell: Entry) -> str:
    labels = [f"{key}={value}" for key, value in cell.labels.items()]
    role = [f"{cell.role} of a gate"] if cell.role else []
    return ", ".join(filter(None, [settings_of(cell.trial), *labels, *role]))


def _used(cell: Entry) -> str:
    """What `auto` became."""
    names = ("device_name", "device", "threads", "layout", "compiled")
    shown = [f"{n.replace('_', ' ')} {cell.settings[n]}" for n in names if n in cell.settings]
    return ", ".join(shown)


def _end(cell: Entry, name: str) -> float | None:
    return getattr(cell.headline, name) if cell.headline else None


def _coded(values: Sequence[str]) -> dict[str, Any]:
    """Texts once, and which of them each cell has."""
    names = {text: number for number, text in enumerate(dict.fromkeys(values))}
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


def _safe(data: Mapping[str, Any]) -> str:
    """JSON that cannot end the script that it stands in."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")

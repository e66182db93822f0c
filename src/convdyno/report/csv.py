"""Records as CSV: our columns, and the older tools' beside them."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from typing import Any, TextIO

from convdyno.report.rows import Row
from convdyno.results.machines import kind

COLUMNS = (
    "id", "created", "status", "reason", "network", "network_digest", "parameters", "macs",
    "engine", "mode", "precision", "batch", "global_batch", "devices", "hosts", "scaling",
    "exchange", "image_size", "classes", "width", "layout", "compile", "threads", "device", "data",
    "images_per_second", "low", "high", "interval_basis", "rounds", "blocks", "contaminated_blocks",
    "step_seconds", "first_step_seconds", "flops", "peak_flops", "share_of_peak", "memory_bytes",
    "joules", "images_per_joule", "energy", "kernels", "rung", "host", "machine", "run", "role",
    "labels", "versions", "convdyno", "command",
)  # fmt: skip
"""Ours, in this order, with full precision."""

OLDER = (
    "mean_speed", "Mean_Time_Per_Step", "speed_uncertainty", "Speed_Jitter", "gpu_type", "num_gpu",
    "staged_from",
)  # fmt: skip
"""The columns of the Deep MNIST collector, by its own names."""


class Lines:
    """A table that is written line by line, its header first."""

    def __init__(self, file: TextIO) -> None:
        self._writer = csv.writer(file, lineterminator="\n")
        self._writer.writerow((*COLUMNS, *OLDER))

    def write(self, row: Row) -> None:
        """One record."""
        values = _values(row)
        self._writer.writerow([_text(values[name]) for name in (*COLUMNS, *OLDER)])


def write_csv(rows: Iterable[Row], file: TextIO) -> None:
    """Write a header and one line for each record."""
    lines = Lines(file)
    for row in rows:
        lines.write(row)


def _values(row: Row) -> dict[str, Any]:
    data = row.to_data()
    trial: dict[str, Any] = data.pop("trial")
    settings = row.record.settings or {}
    image = row.network.image if row.network else trial["image_size"]
    on_cpu = settings.get("device", "cpu") == "cpu"
    job = row.record.machine.get("slurm", {})  # What was allocated, which is what they told.
    return trial | data | {
        "low": row.low,
        "high": row.high,
        "image_size": "x".join(map(str, image)) if image else None,
        "classes": row.network.classes if row.network else trial["classes"],
        "layout": settings.get("layout", trial["layout"]),
        "threads": settings.get("threads", trial["threads"]),
        "device": settings.get("device", trial["device"]),
        "energy": data["energy"] and data["energy"]["status"],
        "host": row.record.machine.get("host"),
        "machine": kind(row.record.machine),
        "run": row.record.run,
        "role": row.record.role,
        "labels": _pairs(row.record.labels),
        "versions": _pairs(row.record.versions),
        "convdyno": row.record.convdyno,
        "command": row.record.command,
        "Mean_Time_Per_Step": data["mean_time_per_step"],
        "Speed_Jitter": data["speed_jitter"],
        "gpu_type": job.get("gpu_type") or (None if on_cpu else settings.get("device_name")),
        "num_gpu": job.get("num_gpu", 0 if on_cpu else row.trial.devices),
        "staged_from": trial["staged"].partition("=")[0] if trial["staged"] else trial["data"],
    }  # fmt: skip


def _pairs(values: Mapping[str, str]) -> str:
    return "; ".join(f"{name}={value}" for name, value in values.items())


def _text(value: Any) -> str:
    """A value for a spreadsheet; text that it would take for a formula is quoted."""
    if value is None:
        return ""
    if isinstance(value, float):
        return repr(value)
    text = str(value)
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text

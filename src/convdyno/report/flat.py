"""A record as one flat row of plain values, as data frames want it. `docs/python.md` lists them."""

from __future__ import annotations

from typing import Any

from convdyno.report.rows import Row
from convdyno.results.machines import kind

NESTED = ("trial", "interval", "latency", "energy", "warnings")


def flat(row: Row) -> dict[str, Any]:
    """What was run, how it ended, its figures, the machine, and every label and version."""
    record, trial = row.record, row.trial
    data = row.to_data()
    said = trial.model_dump(mode="json", exclude={"optimiser", "image_size"})
    size = trial.image_size
    latency: dict[str, Any] = data["latency"] or {}
    return {
        **{name: data[name] for name in ("id", "created", "status", "reason")},
        **said,
        "image_size": "x".join(map(str, size)) if size else None,
        "optimiser": trial.optimiser.kind,
        "rate": trial.optimiser.rate,
        **{name: value for name, value in data.items() if name not in (*NESTED, *said)},
        "low": row.low,
        "high": row.high,
        **{f"latency_{name}": value for name, value in latency.items()},
        "warnings": "; ".join(row.warnings),
        "host": record.machine.get("host"),
        "machine": kind(record.machine),
        "run": record.run,
        "role": record.role,
        "convdyno": record.convdyno,
        "command": record.command,
        **{f"setting.{name}": value for name, value in _plain(record.settings or {}).items()},
        **{f"label.{name}": value for name, value in record.labels.items()},
        **{f"version.{name}": value for name, value in record.versions.items()},
    }


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    return {
        name: value
        for name, value in values.items()
        if value is None or isinstance(value, str | int | float)
    }

"""A cell as one flat row of plain values, as data frames want it. `docs/python.md` lists them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from convdyno.report.cell import Cell
from convdyno.report.columns import view
from convdyno.report.format import written

FIGURES = view("frame")
FIRST = ("id", "created", "status", "reason")


def flat(cell: Cell) -> dict[str, Any]:
    """What was run, how it ended, its figures, the machine, and every label and version."""
    trial = cell.trial
    figures = {column.name: column.value(cell) for column in FIGURES}
    latency = asdict(cell.latency) if cell.latency else {}
    return {
        **{name: figures[name] for name in FIRST},
        **trial.model_dump(mode="json", exclude={"optimiser", "image_size"}),
        "image_size": written(trial.image_size) if trial.image_size else None,
        "optimiser": trial.optimiser.kind,
        "rate": trial.optimiser.rate,
        **figures,
        **{f"latency_{name}": value for name, value in latency.items()},
        **{
            f"setting.{name}": value
            for name, value in cell.settings.items()
            if value is None or isinstance(value, str | int | float)
        },
        **{f"label.{name}": value for name, value in cell.labels.items()},
        **{f"version.{name}": value for name, value in cell.versions.items()},
    }

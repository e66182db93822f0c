"""Charts about one network and mode on one machine."""

from __future__ import annotations

from collections.abc import Sequence

from convdyno.report.cell import Cell
from convdyno.report.charts import Figure, Spec, Values
from convdyno.report.format import MODES, settings_of

Place = tuple[str, str, str]
"""A network, a mode, a machine: what one chart is about."""


def place_figure(
    section: str, place: Place, what: str, spec: Spec, values: Values, cells: Sequence[Cell],
    notes: Sequence[str] = (),
) -> Figure:  # fmt: skip
    """A chart about a network and a mode on a machine."""
    network, mode, machine = place
    same = {settings_of(cell.trial) for cell in cells}
    setting = f"; {next(iter(same))}" if len(same) == 1 and any(same) else ""
    return Figure(
        section=section,
        name=f"{network}_{section}" + (f"_{mode}" if mode != "train" else ""),
        title=", ".join(part for part in (network, MODES[mode], what) if part),
        subtitle=f"{machine}{setting}".removeprefix("; "),
        spec=spec,
        values=values,
        notes=tuple(notes),
    )

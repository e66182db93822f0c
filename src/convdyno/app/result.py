"""What was measured, as a program or a notebook has it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from convdyno.app.requests import RESULTS
from convdyno.app.shown import Shown
from convdyno.report.bench_json import bench_document
from convdyno.report.cell import Cell, cell_of
from convdyno.report.columns import flat
from convdyno.report.comparisons import Certificates, Compared, Pair, compare_cells
from convdyno.report.console import Screen
from convdyno.report.ladders import Climbed, climbed
from convdyno.report.scaling import Curve, curves
from convdyno.report.scaling_files import write_curves
from convdyno.store.record import Record


@dataclass(eq=False, repr=False)
class Result(Shown):
    """What was measured: it prints as `convdyno bench` does, and shows itself in a notebook.

    `records` have everything, `rows` the figures of each.
    """

    records: list[Record]
    certificates: Certificates = field(default_factory=dict)
    out: Path = RESULTS
    budget_seconds: float | None = None
    signal: int | None = None
    """What ended it early."""
    shortfall: str = ""
    """What was wanted and not reached, and what would have been enough."""

    @cached_property
    def rows(self) -> list[Cell]:
        """The figures of each cell."""
        return [cell_of(record) for record in self.records]

    @cached_property
    def _pairs(self) -> list[Pair]:
        """All cells that differ in one thing, compared."""
        return compare_cells(self.rows, self.certificates)

    @cached_property
    def compared(self) -> list[Compared]:
        """Two cells by their number, and their ratio, for all that differ in one thing."""
        numbers = {cell.id: number for number, cell in enumerate(self.rows)}
        return [(numbers[pair.a.id], numbers[pair.b.id], pair.found) for pair in self._pairs]

    @cached_property
    def ladders(self) -> list[Climbed]:
        """Where the time goes, if a ladder was asked for."""
        return list(climbed(self.rows))

    @cached_property
    def curves(self) -> list[Curve]:
        """What more devices bring, if several counts of them were measured."""
        return list(curves(self.rows))

    @property
    def ok(self) -> bool:
        """Whether every cell was measured."""
        return all(record.status == "ok" for record in self.records)

    def to_dicts(self) -> list[dict[str, Any]]:
        """A flat dict for each cell, as `load` gives them."""
        return [flat(one) for one in self.rows]

    def document(self) -> dict[str, Any]:
        """All of it as data, as `bench --json` prints it."""
        return bench_document(self.rows, self._pairs, self.ladders, self.out, self.curves)

    def write_curves(self) -> list[Path]:
        """Write the files of the scaling curves, if there are any; those for people are named."""
        return [f for f in write_curves(self.curves, self.out) if f.suffix in (".svg", ".csv")]

    def show(self, screen: Screen) -> None:
        """Print the result on a screen."""
        if not self.records:
            screen.line("nothing was measured")
            return
        screen.bench(self.rows, self._pairs, self.ladders, self.curves, self.shortfall)

    def __len__(self) -> int:
        return len(self.records)

"""What is faster, from records that are there already."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from convdyno.app.requests import CompareRequest
from convdyno.app.shown import Shown
from convdyno.errors import UnknownName
from convdyno.report import comparisons
from convdyno.report.cells import gather
from convdyno.report.compare_view import show_pairs
from convdyno.report.console import Screen
from convdyno.stage.progress import SILENCE, Narrator
from convdyno.store.folder import stored_certificates


@dataclass(frozen=True, eq=False, repr=False)
class Comparisons(Shown):
    """Cells that differ in one thing, held against each other."""

    axis: str
    values: list[str]
    """What of it was measured."""
    pairs: list[comparisons.Pair]
    strangers: list[comparisons.Strangers]
    """What is not compared, and why."""
    skipped: list[str]
    """A sentence for each file that is no record."""

    @property
    def nothing(self) -> str:
        """Why there is nothing to compare."""
        there = f"there is: {', '.join(self.values)}" if self.values else "no record was measured"
        return f"no two cells differ in {self.axis} alone; {there}"

    def show(self, screen: Screen) -> None:
        """Print a table for each network, and what is not compared."""
        show_pairs(screen, self.pairs, self.strangers)
        if not self.pairs:
            screen.line(self.nothing)

    def to_dicts(self) -> list[dict[str, Any]]:
        """A flat dict for each pair."""
        return [pair.flat() for pair in self.pairs]


def compare(request: CompareRequest, narrator: Narrator = SILENCE) -> Comparisons:
    """Compare stored cells that are alike in all but one thing."""
    found = gather(list(request.results), list(request.where))
    for sentence in found.skipped:
        narrator.say(f"skipped: {sentence}")
    axis = comparisons.check_axis(request.by, found.cells)
    measured = (comparisons.value_of(cell, axis) for cell in found.measured)
    values = dict.fromkeys(value for value in measured if value is not None)
    if request.against is not None and values and request.against not in values:
        raise UnknownName(axis, request.against, values)
    unjudged = comparisons.pairs_along(axis, found.cells, request.against)
    pairs = comparisons.judge(unjudged, stored_certificates(found.stores))
    strangers = comparisons.strangers_along(axis, found.cells)
    return Comparisons(axis, list(values), pairs, strangers, found.skipped)

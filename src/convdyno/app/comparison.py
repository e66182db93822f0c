"""What is faster, from records that are there already."""

from __future__ import annotations

from dataclasses import dataclass

from convdyno.app.certification import stored_certificates
from convdyno.app.requests import CompareRequest
from convdyno.errors import UnknownName
from convdyno.report.entries import gather
from convdyno.report.pairs import (
    Pair,
    Strangers,
    check_axis,
    judge,
    pairs_along,
    strangers_along,
    value_of,
)
from convdyno.stage.progress import SILENCE, Narrator


@dataclass(frozen=True)
class Comparisons:
    """Cells that differ in one thing, held against each other."""

    axis: str
    values: list[str]
    """What of it was measured."""
    pairs: list[Pair]
    strangers: list[Strangers]
    """What is not compared, and why."""
    skipped: list[str]
    """A sentence for each file that is no record."""


def compare(request: CompareRequest, narrator: Narrator = SILENCE) -> Comparisons:
    """Compare stored cells that are alike in all but one thing."""
    found = gather(list(request.results), list(request.where))
    for sentence in found.skipped:
        narrator.say(f"skipped: {sentence}")
    axis = check_axis(request.by, found.entries)
    values = dict.fromkeys(v for e in found.measured if (v := value_of(e, axis)) is not None)
    if request.against is not None and values and request.against not in values:
        raise UnknownName(axis, request.against, values)
    unjudged = pairs_along(axis, found.entries, request.against)
    pairs = judge(unjudged, stored_certificates(found.stores))
    strangers = strangers_along(axis, found.entries)
    return Comparisons(axis, list(values), pairs, strangers, found.skipped)

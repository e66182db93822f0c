"""Halving: many settings as live processes, in turns; after each leg the slower half leaves.

A leg is twice as long as the one before it, so time goes to those that are hard to tell apart.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from convdyno.errors import TrialFailed
from convdyno.stage.rounds import Stage, StagedCell
from convdyno.stage.stopping import Pace
from convdyno.stats.rounds_of_record import rounds_of
from convdyno.stats.summary import interval
from convdyno.store.record import Record

LEG_TURNS = 2
"""Turns of the first leg: forward and backward."""
MEASURING_SHARE = 0.35
"""Of the time, what is kept for turns: nothing more is started then."""
START_SHARE = 0.4
"""Of the time, what one process may take to become ready."""


@dataclass
class Halving(Pace):
    """One round of cells, halved again and again until one of each sitting is left."""

    doubled: int
    """How often legs are doubled at the start."""
    budget_seconds: float
    probes = False
    """Nobody asks for the peaks of settings that are only tried."""

    def start_seconds(self, *, first: bool, left: float) -> float | None:
        """The first one has all the time; others only as long as some is left to measure."""
        if first:
            return None
        if left < MEASURING_SHARE * self.budget_seconds:
            raise TrialFailed("skipped", "the time for the search was over before it was tried")
        return START_SHARE * self.budget_seconds

    def leaving(self, records: Sequence[Record], turn: int, left: float) -> list[Record]:
        """The slower half at the end of a leg, or all but the fastest if the time is over."""
        if not self._ends_leg(turn):
            return []
        keep = 1 if left <= 0 else (len(records) + 1) // 2
        return sorted(records, key=lambda r: -speed(r.but(processes=r.processes[-1:])))[keep:]

    def sitting_is_over(
        self, records: Sequence[Record], sitting: int, turn: int, left: float
    ) -> bool:
        """When one is left, at the end of a leg."""
        return len(records) < 2 and self._ends_leg(turn)

    def finished(self, records: Sequence[Record], left: float) -> bool:
        """After one round."""
        return True

    def _ends_leg(self, turn: int) -> bool:
        """Whether so many turns, counted from 0, are one or several whole legs."""
        legs = (turn + 1) / (LEG_TURNS << self.doubled) + 1  # 1 + 2 + 4 ... is a power less 1.
        return legs.is_integer() and int(legs).bit_count() == 1


def speed(record: Record) -> float:
    """Images per second of a record; 0 if nothing was measured."""
    rounds = rounds_of(record)
    return interval(rounds).estimate if rounds else 0.0


def knock_out(
    cells: list[StagedCell],
    seats: int,
    until: float,
    heat_of: Callable[[list[StagedCell], int, float], Stage],
) -> StagedCell | None:
    """The cell that wins heat after heat; None if none could be measured.

    `heat_of` makes a stage that halves some cells, by how often legs are doubled at its start and
    by its seconds.
    """
    contenders = list(cells)
    for rung in itertools.count():
        left: list[StagedCell] = []
        groups = [contenders[n : n + seats] for n in range(0, len(contenders), seats)]
        parts = len(groups) + (len(groups) > 1)  # The winners of several heats meet once more.
        for place, group in enumerate(groups):
            seconds = max(1.0, (until - time.monotonic()) / (parts - place))
            heat = heat_of(group, rung, seconds)
            heat.run()
            left += heat.stayed
        left = sorted(left, key=lambda cell: -speed(cell.record))
        if len(left) >= len(contenders):  # Everybody had a sitting of their own.
            left = left[: (len(left) + 1) // 2]
        if len(left) < 2 or time.monotonic() >= until:
            return left[0] if left else None
        contenders = left
    raise AssertionError("each rung has fewer contenders")

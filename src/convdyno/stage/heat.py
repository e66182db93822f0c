"""A heat: many settings as live processes, in turns; after each leg the slower half leaves.

A leg is twice as long as the one before it, so time goes to those that are hard to tell apart.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from functools import partial

from convdyno.errors import TrialFailed
from convdyno.launch.crew import OutOfTime, Team
from convdyno.results.record import Process, Record
from convdyno.results.store import Store
from convdyno.stage.narrator import Narrator
from convdyno.stage.rounds import Cell, Limits, Seat, Stage
from convdyno.stats.plan import Goal
from convdyno.stats.records import rounds_of
from convdyno.stats.summary import interval
from convdyno.trial.spec import Trial

LEG_TURNS = 2
"""Turns of the first leg: forward and backward."""
MEASURING_SHARE = 0.35
"""Of a heat's time, what is kept for turns: nothing more is started then."""
START_SHARE = 0.4
"""Of a heat's time, what one process may take to become ready."""


class Heat(Stage):
    """One round of cells, halved again and again; `left` has the best of each sitting."""

    def __init__(
        self,
        cells: list[Cell],
        legs: int,
        limits: Limits,
        store: Store,
        narrator: Narrator,
        start: Callable[[Trial], Team],
    ) -> None:
        super().__init__(cells, Goal(), limits, store, narrator, start)
        self._legs = legs
        self.left: list[Cell] = []

    def _rounds(self) -> None:
        had = [process.round for cell in self.cells for process in cell.record.processes]
        self._round(max(had, default=-1) + 1)

    def _seat(self, number: int, sitting: int, cell: Cell) -> Seat:
        """The first one has all the time; others only as long as some is left to measure."""
        if sitting == 0 and cell is self.cells[0]:
            return super()._seat(number, sitting, cell)
        whole, seconds = self._deadline, self.limits.budget_seconds
        if self._left() < MEASURING_SHARE * seconds:
            raise TrialFailed("skipped", "the time for the search was over before it was tried")
        self._deadline = min(whole, time.monotonic() + START_SHARE * seconds)
        try:
            return super()._seat(number, sitting, cell)
        except OutOfTime:
            raise TrialFailed(
                "timeout", f"was not ready within {START_SHARE * seconds:.0f} s: give more --budget"
            ) from None
        finally:
            self._deadline = whole

    def _take_turns(self, number: int, sitting: int, seats: list[Seat]) -> None:
        turns = itertools.count()
        for leg in itertools.count(self._legs):
            for turn in itertools.islice(turns, LEG_TURNS << leg):
                for seat in list(seats if turn % 2 == 0 else reversed(seats)):
                    self.narrator.measuring(
                        number, turn, seat.cell.record.trial.label, self._left()
                    )
                    self._guard(seats, seat, partial(self._measure, turn=turn))
                    self._heed()
            over = self._left() <= 0
            for seat in _slower(seats, 1 if over else (len(seats) + 1) // 2):
                seats.remove(seat)
                seat.worker.end()
            if len(seats) < 2:
                break
        self.left += [seat.cell for seat in seats]

    def _close(self, seat: Seat) -> None:
        """Nobody asks for the peaks of settings that are only tried."""
        seat.worker.end()

    def _fail(self, cell: Cell, failure: TrialFailed) -> None:
        """Settings that do not work are part of the search, and told at its end."""
        cell.failed = True
        self._write(cell, status=failure.status, reason=str(failure))


def _slower(seats: list[Seat], keep: int) -> list[Seat]:
    return sorted(seats, key=lambda seat: -_speed(seat.process, seat.cell.record))[keep:]


def _speed(process: Process, record: Record) -> float:
    """Images per second of one process."""
    return speed(record.but(processes=(process,)))


def speed(record: Record) -> float:
    """Images per second of a record; 0 if nothing was measured."""
    rounds = rounds_of(record)
    return interval(rounds).estimate if rounds else 0.0


def start_seconds(record: Record) -> float:
    """What it takes to make one process of a record ready, as far as was seen."""
    names = ("import_seconds", "build_seconds", "first_step_seconds", "warmup_seconds")
    each = [sum(getattr(p, name) or 0.0 for name in names) for p in record.processes]
    return max(each, default=0.0)


def knock_out(
    cells: list[Cell], seats: int, until: float, heat_of: Callable[[list[Cell], int, float], Heat]
) -> Cell | None:
    """The cell that wins heat after heat; None if none could be measured.

    `heat_of` makes a heat of some cells, by how often legs are doubled at its start and by its
    seconds.
    """
    contenders = list(cells)
    for rung in itertools.count():
        left: list[Cell] = []
        groups = [contenders[n : n + seats] for n in range(0, len(contenders), seats)]
        parts = len(groups) + (len(groups) > 1)  # The winners of several heats meet once more.
        for place, group in enumerate(groups):
            seconds = max(1.0, (until - time.monotonic()) / (parts - place))
            heat = heat_of(group, rung, seconds)
            heat.run()
            left += heat.left
        left = sorted(left, key=lambda cell: -speed(cell.record))
        if len(left) >= len(contenders):  # Everybody had a sitting of their own.
            left = left[: (len(left) + 1) // 2]
        if len(left) < 2 or time.monotonic() >= until:
            return left[0] if left else None
        contenders = left
    raise AssertionError("each rung has fewer contenders")

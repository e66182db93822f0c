"""When to go on in a round, when to start another, and when to stop."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from convdyno.results.record import Record
from convdyno.stats.plan import Action, Cost, Decision, Goal, Progress, decide, estimate_spread
from convdyno.stats.records import rounds_of
from convdyno.stats.summary import precise_enough


@dataclass
class Pace:
    """Keeps account of what rounds and turns have cost, and decides what comes next."""

    goal: Goal
    turns: list[int] = field(default_factory=list)
    """The turns of each round so far."""
    looks: int = 1
    """How often the precision was looked at, if a look ended the run."""
    _round_started: float = 0.0
    _share: float = 1.0
    """The first sitting's share of all cells."""
    _later_seconds: float = 0.0
    """What opening the cells of later sittings will take."""
    _first_seconds: list[float] = field(default_factory=list)
    """What the turns of first sittings took, round by round."""
    _turn_seconds: list[float] = field(default_factory=list)
    _other_seconds: list[float] = field(default_factory=list)

    def start_round(self) -> None:
        """A round begins: its workers are being started."""
        self.turns.append(0)
        self._first_seconds.append(0.0)
        self._turn_seconds.append(0.0)
        self._round_started = time.monotonic()

    def open_first(self, cells: int, others: int, opening: float) -> None:
        """The first sitting has so many cells, and each took so long to be opened.

        The others will have as many turns, and take as long as these or as in the rounds before.
        """
        self._share = max(1, cells) / max(1, cells + others)
        before = max(self._other_seconds[-2:], default=0.0) - cells * opening
        self._later_seconds = max(others * opening, before) if others else 0.0

    def count_turn(self, seconds: float, *, first_sitting: bool) -> None:
        """All cells of a sitting have had a turn, which took so long."""
        self._turn_seconds[-1] += seconds
        if first_sitting:
            self._first_seconds[-1] += seconds
            self.turns[-1] += 1

    def end_round(self) -> None:
        """A round is over: whatever was not a turn was the price of the round."""
        seconds = time.monotonic() - self._round_started
        self._other_seconds.append(seconds - self._turn_seconds[-1])

    def round_is_over(self, records: Sequence[Record], left: float) -> bool:
        """Whether the first sitting of the round that is running has had enough turns."""
        owed = self.turns[-1] * (1 - self._share) * self._cost().turn_seconds
        left -= self._later_seconds + owed
        if self.turns[-1] >= self.goal.minimum_turns and left <= 0:
            return True
        return self._decide(records, left, live=True).action is not Action.TURN

    def finished(self, records: Sequence[Record], left: float) -> bool:
        """Whether no further round is wanted, or fits."""
        decision = self._decide(records, left, live=False)
        self.looks = decision.looks
        return decision.action is not Action.ROUND

    def _decide(self, records: Sequence[Record], left: float, *, live: bool) -> Decision:
        rounds = [rounds_of(record) for record in records]
        precise = all(
            precise_enough(r, self.goal.within, minimum_rounds=self.goal.minimum_rounds)
            for r in rounds
        )
        spreads = [estimate_spread(r) for r in rounds]
        progress = Progress(tuple(self.turns), live=live)
        return decide(progress, self._cost(), left, precise, spreads, self.goal)

    def _cost(self) -> Cost:
        # Rounds of an earlier run, which this one goes on with, have left no times.
        turns = max(1, sum(self.turns[-len(self._first_seconds) :]))
        # The round that is running has not been closed yet, but has been started.
        started = time.monotonic() - self._round_started - self._turn_seconds[-1]
        others = self._other_seconds[-2:] or [started + self._later_seconds]
        return Cost(max(others), sum(self._first_seconds) / turns / self._share)


def turns_had(records: Sequence[Record]) -> list[int]:
    """The turns of each round that all of these records have already, from an earlier run."""
    had = [{p.round: len({block.turn for block in p.blocks}) for p in r.measured} for r in records]
    common = set.intersection(*(set(rounds) for rounds in had)) if had else set()
    return [min(rounds[number] for rounds in had) for number in sorted(common)]

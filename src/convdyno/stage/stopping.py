"""When to go on in a round, when to start another, and when to stop."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from convdyno.stats import plan
from convdyno.stats.gate import precise_ratio, spread_of_ratio
from convdyno.stats.plan import Action, Cost, Goal, Variation
from convdyno.stats.rounds_of_record import paired, rounds_of
from convdyno.stats.summary import precise_enough
from convdyno.store.record import Record

Precision = Callable[[Sequence[Record], Goal], tuple[bool, list[Variation]]]
"""Whether what is wanted of some records is known precisely enough, and what it spreads by."""


class Pace:
    """Says who stays on a stage for how long: the stage tells it of all that happens.

    Unless it says otherwise, all stay, and what anything has cost is not looked at.
    """

    looks = 1
    """How often the precision was looked at, if a look ended the run."""
    probes = True
    """Whether the peaks and last facts of a process are wanted at its end."""

    def start_round(self) -> None:
        """A round begins: its workers are being started."""

    def start_seconds(self, *, first: bool, left: float) -> float | None:
        """How long a worker may take to become ready, if not all the time that is left.

        `first` is whether it is the first of all. `TrialFailed` says why it is not started at all.
        """
        return None

    def open_first(self, cells: int, others: int, opening: float) -> None:
        """The first sitting has so many cells, and each took so long to be opened."""

    def count_turn(self, seconds: float, *, first_sitting: bool) -> None:
        """All cells of a sitting have had a turn, which took so long."""

    def leaving(self, records: Sequence[Record], turn: int, left: float) -> list[Record]:
        """Who has to leave its sitting after this turn."""
        return []

    def sitting_is_over(
        self, records: Sequence[Record], sitting: int, turn: int, left: float
    ) -> bool:
        """Whether those who are left in a sitting need no other turn."""
        raise NotImplementedError

    def end_round(self) -> None:
        """A round is over."""

    def finished(self, records: Sequence[Record], left: float) -> bool:
        """Whether no further round is wanted, or fits."""
        raise NotImplementedError


def rates_known(records: Sequence[Record], goal: Goal) -> tuple[bool, list[Variation]]:
    """Of each cell by itself."""
    rounds = [rounds_of(record) for record in records]
    precise = all(
        precise_enough(r, goal.within, minimum_rounds=goal.minimum_rounds) for r in rounds
    )
    return precise, [plan.estimate_spread(r) for r in rounds]


def ratio_known(records: Sequence[Record], goal: Goal) -> tuple[bool, list[Variation]]:
    """Of two cells against each other, whatever their own rates are.

    Only the width of the ratio is looked at, never on which side of anything it lies.
    """
    if len(records) < 2:  # A sitting of its own, or the other side has failed.
        return rates_known(records, goal)
    pair = paired(records[1], records[0])
    precise = precise_ratio(pair, goal.within, goal.level, goal.minimum_rounds)
    return precise, [spread_of_ratio(pair)]


@dataclass
class UntilPrecise(Pace):
    """All stay until the goal is met: keeps account of what rounds and turns have cost."""

    goal: Goal
    turns: list[int] = field(default_factory=list)
    """The turns of each round so far."""
    precision: Precision = rates_known
    fewest: int = 1
    """With fewer cells than so many nothing more can be learnt."""
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
        self.turns.append(0)
        self._first_seconds.append(0.0)
        self._turn_seconds.append(0.0)
        self._round_started = time.monotonic()

    def open_first(self, cells: int, others: int, opening: float) -> None:
        """The others will have as many turns, and take as long as these or as in rounds before."""
        self._share = max(1, cells) / max(1, cells + others)
        before = max(self._other_seconds[-2:], default=0.0) - cells * opening
        self._later_seconds = max(others * opening, before) if others else 0.0

    def count_turn(self, seconds: float, *, first_sitting: bool) -> None:
        self._turn_seconds[-1] += seconds
        if first_sitting:
            self._first_seconds[-1] += seconds
            self.turns[-1] += 1

    def end_round(self) -> None:
        """Whatever was not a turn was the price of the round."""
        seconds = time.monotonic() - self._round_started
        self._other_seconds.append(seconds - self._turn_seconds[-1])

    def sitting_is_over(
        self, records: Sequence[Record], sitting: int, turn: int, left: float
    ) -> bool:
        """Whether a sitting of the round that is running has had enough turns, there and back.

        Later sittings of a round have as many turns as its first, which leaves them the time.
        """
        if sitting:
            return turn + 1 >= self.turns[-1]
        halfway = len(records) > 1 and turn % 2 == 0
        return not halfway and self._first_is_over(records, left)

    def finished(self, records: Sequence[Record], left: float) -> bool:
        if len(records) < self.fewest:
            return True
        decision = self._decide(records, left, live=False)
        self.looks = decision.looks
        return decision.action is not Action.ROUND

    def _first_is_over(self, records: Sequence[Record], left: float) -> bool:
        owed = self.turns[-1] * (1 - self._share) * self._cost().turn_seconds
        left -= self._later_seconds + owed
        if self.turns[-1] >= self.goal.minimum_turns and left <= 0:
            return True
        return self._decide(records, left, live=True).action is not Action.TURN

    def _decide(self, records: Sequence[Record], left: float, *, live: bool) -> plan.Decision:
        precise, spreads = self.precision(records, self.goal)
        progress = plan.Progress(tuple(self.turns), live=live)
        return plan.decide(progress, self._cost(), left, precise, spreads, self.goal)

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

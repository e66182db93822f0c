"""When to go on in a round, when to start another, and when to stop."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

from convdyno.stage.progress import UNFORESEEN, Foresight, Outlook
from convdyno.stats import plan
from convdyno.stats.gate import precise_ratio, spread_of_ratio
from convdyno.stats.plan import Action, Cost, Goal, Variation
from convdyno.stats.rounds_of_record import borrowed_for, paired, rounds_of
from convdyno.stats.summary import precise_enough
from convdyno.store.record import Record
from convdyno.trial.rivalry import rivalry


@dataclass(frozen=True)
class Reached:
    """How well what is wanted of some records is known."""

    precise: bool
    """Whether that is enough."""
    spreads: list[Variation]
    """How much each ratio or rate varies."""
    level: float
    """At which each of them is held to the goal."""
    known_rounds: float = 0.0
    """What earlier runs know of their variance, at the least."""


Precision = Callable[[Sequence[Record], Goal], Reached]


class Pace:
    """Says who stays on a stage for how long: the stage tells it of all that happens.

    Unless it says otherwise, all stay, and what anything has cost is not looked at.
    """

    looks = 1
    """How often the precision was looked at, if a look ended the run."""
    probes = True
    """Whether the peaks and last facts of a process are wanted at its end."""

    def begin(self) -> Foresight:
        """What is known of a run before its first round."""
        return UNFORESEEN

    def start_round(self) -> None:
        """A round begins: its workers are being started."""

    def start_seconds(self, *, first: bool, left: float) -> float | None:
        """How long a worker may take to become ready, if not all the time that is left.

        `first` is whether it is the first of all. `TrialFailed` says why it is not started at all.
        """
        return None

    def open_first(self, cells: int, others: int, opening: float, again: float) -> None:
        """The first sitting has so many cells, and each took so long to be opened.

        `again` is what opening and warming up all of them should take in the next round.
        """

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

    def outlook(self, records: Sequence[Record]) -> Outlook | None:
        """How much longer it would take to know what is wanted; None where nothing is missing."""
        return None

    def foresee(self, records: Sequence[Record], left: float) -> Foresight:
        """What the run will still take of the time that is left."""
        return UNFORESEEN


def wanted_known(records: Sequence[Record], goal: Goal) -> Reached:
    """Of rivals their ratios, whatever their own rates are; of a cell that has none its rate."""
    pairs = [(a, b) for a, b in combinations(records, 2) if rivalry(a.trial, b.trial) is not None]
    rivals = {record.id for pair in pairs for record in pair}
    return _known(pairs, [record for record in records if record.id not in rivals], goal)


def ratio_known(records: Sequence[Record], goal: Goal) -> Reached:
    """Of two cells against each other, in however many things they differ."""
    if len(records) < 2:  # A sitting of its own, or the other side has failed.
        return wanted_known(records, goal)
    return _known([(records[0], records[1])], [], goal)


def _known(pairs: Sequence[tuple[Record, Record]], alone: Sequence[Record], goal: Goal) -> Reached:
    """Whether ratios and rates are precise enough, and how much they vary.

    Only widths are looked at, never on which side of anything a ratio lies: stopping on that would
    find differences that are not there. Of several ratios each is held to the level that it is
    shown at when none of them can be told from 1.
    """
    ratios, rates = [paired(b, a) for a, b in pairs], [rounds_of(record) for record in alone]
    level, least = 1 - (1 - goal.level) / max(1, len(pairs)), goal.minimum_rounds
    borrowed = [borrowed_for(record, "rate") for record in alone]
    precise = all(precise_ratio(pair, goal.within, level, least) for pair in ratios) and all(
        precise_enough(r, goal.within, goal.level, least, known)
        for r, known in zip(rates, borrowed, strict=True)
    )
    freedom = [one.freedom for one in (*borrowed, *(pair.borrowed for pair in ratios))]
    spreads = [*map(spread_of_ratio, ratios), *map(plan.estimate_spread, rates)]
    return Reached(precise, spreads, level, min(freedom, default=0.0))


@dataclass
class UntilPrecise(Pace):
    """All stay until the goal is met: keeps account of what rounds and turns have cost."""

    goal: Goal
    turns: list[int] = field(default_factory=list)
    """The turns of each round so far."""
    precision: Precision = wanted_known
    fewest: int = 1
    """With fewer cells than so many nothing more can be learnt."""
    _round_started: float = 0.0
    _share: float = 1.0
    """The first sitting's share of all cells."""
    _again_seconds: float = 0.0
    """What opening the cells of the first sitting should take in the next round."""
    _later_seconds: float = 0.0
    """What opening the cells of later sittings will take."""
    _first_seconds: list[float] = field(default_factory=list)
    """What the turns of first sittings took, round by round."""
    _turn_seconds: list[float] = field(default_factory=list)
    _other_seconds: list[float] = field(default_factory=list)

    def begin(self) -> Foresight:
        how = "at least " if math.isfinite(self.goal.within) else ""
        return Foresight(self.goal.minimum_rounds, how)

    def start_round(self) -> None:
        self.turns.append(0)
        self._first_seconds.append(0.0)
        self._turn_seconds.append(0.0)
        self._round_started = time.monotonic()

    def open_first(self, cells: int, others: int, opening: float, again: float) -> None:
        """The others will have as many turns, and take as long as these or as in rounds before."""
        self._share = max(1, cells) / max(1, cells + others)
        self._again_seconds = again
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

    def outlook(self, records: Sequence[Record]) -> Outlook | None:
        """By what rounds and turns have cost and how much they vary."""
        known = self.precision(records, self.goal)
        enough = sum(turns > 0 for turns in self.turns) >= self.goal.minimum_rounds
        if (known.precise and enough) or math.isinf(self.goal.within):
            return None
        progress = plan.Progress(tuple(self.turns))
        cost, goal = self._cost(), self._goal(known)
        best = plan.make_plan(progress, cost, plan.LONGEST_SECONDS, known.spreads, goal)
        if best.precise:
            return Outlook(max(best.seconds, cost.startup_seconds))
        hour = plan.make_plan(progress, cost, 3600.0, known.spreads, goal)
        return Outlook(math.inf, hour.half_width)

    def foresee(self, records: Sequence[Record], left: float) -> Foresight:
        ahead = self._decide(records, left, live=False).plan
        rounds = len(self.turns) + ahead.rounds
        return Foresight.after(rounds, ahead.seconds, left, enough=ahead.precise)

    def _first_is_over(self, records: Sequence[Record], left: float) -> bool:
        owed = self.turns[-1] * (1 - self._share) * self._cost().turn_seconds
        left -= self._later_seconds + owed
        if self.turns[-1] >= self.goal.minimum_turns and left <= 0:
            return True
        return self._decide(records, left, live=True).action is not Action.TURN

    def _decide(self, records: Sequence[Record], left: float, *, live: bool) -> plan.Decision:
        known = self.precision(records, self.goal)
        progress, goal = plan.Progress(tuple(self.turns), live=live), self._goal(known)
        return plan.decide(progress, self._cost(), left, known.precise, known.spreads, goal)

    def _goal(self, known: Reached) -> Goal:
        return replace(self.goal, level=known.level, known_rounds=known.known_rounds)

    def _cost(self) -> Cost:
        # Rounds of an earlier run, which this one goes on with, have left no times.
        turns = max(1, sum(self.turns[-len(self._first_seconds) :]))
        # The first round opens one cell after the other and probes peaks: others cost less.
        others = self._other_seconds[1:][-2:] or [self._again_seconds + self._later_seconds]
        return Cost(max(others), sum(self._first_seconds) / turns / self._share)


def turns_had(records: Sequence[Record]) -> list[int]:
    """The turns of each round that all of these records have already, from an earlier run."""
    had = [{p.round: len({block.turn for block in p.blocks}) for p in r.measured} for r in records]
    common = set.intersection(*(set(rounds) for rounds in had)) if had else set()
    return [min(rounds[number] for rounds in had) for number in sorted(common)]

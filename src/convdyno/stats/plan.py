"""How to spend what is left of the budget: more turns in this round, another round, or nothing.

A round costs a start-up S, a turn of all cells costs c. With variance B from process to process
and W from turn to turn, R rounds of n turns give a mean with variance (B + W / n) / R for
R (S + n c) seconds. The best n for many rounds is sqrt(W / B * S / c); with few rounds the t
quantile and whole numbers matter, so the plans that fit are simply tried.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from convdyno.stats import t_distribution
from convdyno.stats.rounds import Round
from convdyno.stats.summary import MINIMUM_ROUNDS, alpha_after

PRIOR_BETWEEN = 0.01**2
"""The variance of log rates between processes that is assumed until rounds tell."""
PRIOR_WITHIN = 0.03**2
"""The variance of log rates between turns that is assumed until blocks tell."""
PRIOR_WEIGHT = 2.0
"""The number of rounds that the first assumption is worth."""

WORTHWHILE_ROUNDS = 5
"""Fewer say little about how much processes differ: Student's t is 2.8 of five, and 4.3 of three.
They are planned where they are precise enough, or where no more fit."""

MEASURING_SHARE = 0.69
"""Of the time of a round, what turns have at the least, where enough rounds fit all the same: who
waits for a measurement should not wait for starts."""
NEARLY_AS_GOOD = 1.5
"""How much wider that may be than the best plan."""

LONGEST_SECONDS = 24 * 3600.0
"""What would take longer is not planned."""

_MOST_TURNS = 10_000


class Action(StrEnum):
    """What to do next."""

    TURN = "go on in this round"
    ROUND = "next round"
    PRECISE = "stop: precise enough"
    BUDGET = "stop: budget"
    """Nothing more fits, or the maximum of rounds is done."""


@dataclass(frozen=True, slots=True)
class Variation:
    """How much a cell varies: variances of the logarithm of its rate."""

    between: float = PRIOR_BETWEEN
    """From process to process."""
    within: float = PRIOR_WITHIN
    """From turn to turn in one process."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What measuring takes, all cells together; estimates will do before the first round."""

    startup_seconds: float
    """To start and warm up the processes of a round."""
    turn_seconds: float
    """For each cell to have one turn; the stage may count an ABBA double turn as one."""


@dataclass(frozen=True, slots=True)
class Goal:
    """When an experiment has done enough."""

    within: float = 0.03
    """The half width, 0.03 is 3 %, that each cell should have."""
    level: float = 0.95
    minimum_rounds: int = MINIMUM_ROUNDS
    maximum_rounds: int = 100
    minimum_turns: int = 2
    """The turns of each round."""
    known_rounds: float = 0.0
    """What is known of the variance beforehand is worth so many rounds."""


DEFAULT_GOAL = Goal()


@dataclass(frozen=True, slots=True)
class Progress:
    """What has been measured so far."""

    turns: tuple[int, ...] = ()
    """The turns that each round had."""
    live: bool = False
    """Whether the processes of the last round still run, so that it can have more turns."""


@dataclass(frozen=True, slots=True)
class RoundPlan:
    """What is still to be measured."""

    rounds: int
    """How many new rounds there are."""
    turns: int
    """The turns of each new round, and of the live one if it has had fewer."""
    seconds: float
    """How long that will take."""
    half_width: float
    """The half width to expect of the worst cell, 0.03 is 3 %; infinite with a single round."""
    precise: bool
    """Whether that is enough."""
    short: bool
    """Whether the budget does not allow the minimum of rounds and turns."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do now, and what is expected to follow."""

    action: Action
    plan: RoundPlan
    looks: int
    """To be given to `interval` and `compare` when the experiment ends here."""


def estimate_spread(rounds: Sequence[Round]) -> Variation:
    """The variances of a cell from its rounds, leaning on assumptions while these are few."""
    return spread_of([(r.log_rate, r.log_rate_variance, r.turn_count) for r in rounds])


def spread_of(
    rounds: Sequence[tuple[float, float, int]], expected: Variation | None = None
) -> Variation:
    """The same of any logarithm: each round's own, its variance by turns, and how many they are."""
    expected = expected or Variation()
    within = [turns * variance for _, variance, turns in rounds if math.isfinite(variance)]
    turn = float(np.mean(within)) if within else expected.within
    if len(rounds) < 2:
        return Variation(expected.between, turn)
    logs = np.array([log for log, _, _ in rounds])
    seen = float(logs.var(ddof=1)) - turn * float(np.mean([1 / turns for _, _, turns in rounds]))
    freedom = len(rounds) - 1
    between = PRIOR_WEIGHT * expected.between + freedom * max(0.0, seen)
    return Variation(between / (PRIOR_WEIGHT + freedom), turn)


def make_plan(
    progress: Progress,
    cost: Cost,
    remaining_seconds: float,
    spreads: Sequence[Variation] = (Variation(),),
    goal: Goal = DEFAULT_GOAL,
) -> RoundPlan:
    """The cheapest plan that reaches the goal within the budget; else the most precise that fits.

    When not even the minimum of rounds and turns fits, the plan is flagged `short`: as many rounds
    as fit, each with as many turns as fit. No plan takes longer than `remaining_seconds`.
    """
    task = _Task(progress, cost, remaining_seconds, spreads, goal)
    plans: list[RoundPlan] = []
    cheapest = math.inf
    for rounds in range(task.missing_rounds, goal.maximum_rounds - task.rounds + 1):
        most_turns = task.most_turns(rounds)
        if most_turns < task.least_turns(rounds):
            break
        if task.seconds(rounds, goal.minimum_turns) > cheapest:
            break
        plans.append(task.plan(rounds, task.enough_turns(rounds, most_turns)))
        if plans[-1].precise:
            cheapest = min(cheapest, plans[-1].seconds)
    return task.best(plans) if plans else task.short_plan()


def decide(
    progress: Progress,
    cost: Cost,
    remaining_seconds: float,
    precise: bool,
    spreads: Sequence[Variation] = (Variation(),),
    goal: Goal = DEFAULT_GOAL,
) -> Decision:
    """What to do after a turn, after a round, or at the very beginning.

    `precise` is whether `summary.precise_enough` holds for every cell. It counts once in each
    round, when the round has had its planned turns; if it does not hold then, a new round follows
    rather than more turns, because to look again and again at the same processes would favour luck.
    """
    plan = make_plan(progress, cost, remaining_seconds, spreads, goal)
    done = sum(turns > 0 for turns in progress.turns)
    if progress.live and plan.turns > progress.turns[-1]:
        return Decision(Action.TURN, plan, looks=1)
    if precise and done >= goal.minimum_rounds:
        return Decision(Action.PRECISE, plan, looks=done - goal.minimum_rounds + 1)
    if not plan.rounds:
        # The spread was expected to be smaller than it turned out to be.
        plan = _one_more(plan, _Task(progress, cost, remaining_seconds, spreads, goal))
    if plan.rounds:
        return Decision(Action.ROUND, plan, looks=1)
    return Decision(Action.TURN if plan.seconds > 0 else Action.BUDGET, plan, looks=1)


def _one_more(plan: RoundPlan, task: _Task) -> RoundPlan:
    # A new round if it fits, else whatever turns still fit in the live one, else nothing.
    turns = task.most_turns(1)
    if turns >= task.goal.minimum_turns and task.rounds < task.goal.maximum_rounds:
        usual = max(task.goal.minimum_turns, *task.finished, task.had)
        return task.plan(1, min(turns, usual))
    return task.plan(0, max(task.had, task.most_turns(0)), plan.short)


class _Task:
    # One question to the planner: plans differ in their new rounds and in turns.
    def __init__(
        self,
        progress: Progress,
        cost: Cost,
        remaining_seconds: float,
        spreads: Sequence[Variation],
        goal: Goal,
    ) -> None:
        self.cost, self.goal, self.remaining = cost, goal, max(0.0, remaining_seconds)
        self.live = progress.live
        self.had = progress.turns[-1] if self.live else 0
        self.finished = [max(1, n) for n in (progress.turns[:-1] if self.live else progress.turns)]
        self.rounds = len(progress.turns)
        self.missing_rounds = max(0, goal.minimum_rounds - self.rounds)
        self.between = np.array([spread.between for spread in spreads])
        self.within = np.array([spread.within for spread in spreads])
        self.alpha = alpha_after(goal.level, looks=2)

    def seconds(self, rounds: int, turns: int) -> float:
        extra = max(0, turns - self.had) if self.live else 0
        one_round = self.cost.startup_seconds + turns * self.cost.turn_seconds
        return float(rounds * one_round + extra * self.cost.turn_seconds)

    def most_turns(self, rounds: int) -> int:
        """The largest number of turns that fits; -1 if not even none does."""
        if rounds == 0 and not self.live:
            return 0
        fits, too_many = -1, 1
        while too_many < _MOST_TURNS and self.seconds(rounds, too_many) <= self.remaining:
            too_many *= 2
        while too_many - fits > 1:
            middle = (fits + too_many) // 2
            enough_time = self.seconds(rounds, middle) <= self.remaining
            fits, too_many = (middle, too_many) if enough_time else (fits, middle)
        return fits

    def least_turns(self, rounds: int) -> int:
        return self.goal.minimum_turns if rounds or self.live else 0

    def enough_turns(self, rounds: int, most: int) -> int:
        """The fewest turns that reach the goal, or all that fit."""
        low, high = self.least_turns(rounds), most
        while low < high:
            middle = (low + high) // 2
            reached = self.half_width(rounds, middle) <= self.goal.within
            low, high = (low, middle) if reached else (middle + 1, high)
        return low

    def half_width(self, rounds: int, turns: int) -> float:
        counts = [*self.finished, *[max(turns, self.had)] * self.live, *[turns] * rounds]
        if len(counts) < 2 or min(counts) < 1:
            return math.inf
        per_turn = sum(1 / n for n in counts)
        variances = (self.between * len(counts) + self.within * per_turn) / len(counts) ** 2
        t = t_distribution.quantile(1 - self.alpha / 2, len(counts) - 1 + self.goal.known_rounds)
        width = t * math.sqrt(float(variances.max()))
        return math.expm1(width) if width < 700 else math.inf

    def best(self, plans: Sequence[RoundPlan]) -> RoundPlan:
        """The soonest that is precise, else the most precise of those that are worth their starts.

        Unless processes differ so much that many short rounds are far more precise.
        """
        if precise := [plan for plan in plans if plan.precise]:
            return min(precise, key=lambda plan: plan.seconds)
        many = [plan for plan in plans if self.rounds + plan.rounds >= WORTHWHILE_ROUNDS] or plans
        best = min(many, key=lambda plan: plan.half_width)
        worth = [plan for plan in many if self._measuring(plan) >= MEASURING_SHARE]
        found = min(worth, key=lambda plan: plan.half_width, default=best)
        return found if found.half_width <= NEARLY_AS_GOOD * best.half_width else best

    def _measuring(self, plan: RoundPlan) -> float:
        """The share of the time of a new round that its turns have."""
        measuring = plan.turns * self.cost.turn_seconds
        return measuring / (self.cost.startup_seconds + measuring) if plan.rounds else 1.0

    def plan(self, rounds: int, turns: int, short: bool = False) -> RoundPlan:
        half = self.half_width(rounds, turns)
        precise = half <= self.goal.within
        return RoundPlan(rounds, turns, self.seconds(rounds, turns), half, precise, short)

    def short_plan(self) -> RoundPlan:
        for rounds in range(self.missing_rounds, 0, -1):
            turns = self.most_turns(rounds)
            if turns > 0:
                return self.plan(rounds, turns, short=True)
        return self.plan(0, max(self.had, self.most_turns(0)), short=True)

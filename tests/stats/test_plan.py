"""How the budget is spent."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from noisy_machine import block_seconds

from convdyno.stats.plan import (
    PRIOR_BETWEEN,
    PRIOR_WITHIN,
    Action,
    Cost,
    Decision,
    Goal,
    Progress,
    Variation,
    decide,
    estimate_spread,
    make_plan,
)
from convdyno.stats.rounds import Round
from convdyno.stats.summary import interval, precise_enough

COST = Cost(startup_seconds=20, turn_seconds=4)
NOISY = [Variation(between=0.07**2, within=0.11**2)]
QUIET = [Variation(between=0.001**2, within=0.003**2)]

costs = st.builds(Cost, st.floats(0.1, 100), st.floats(0.1, 30))
spreads = st.builds(Variation, st.floats(1e-8, 0.01), st.floats(1e-8, 0.04))
goals = st.builds(Goal, within=st.floats(0.002, 0.2))
turns = st.lists(st.integers(1, 20), max_size=8).map(tuple)
progresses = st.builds(Progress, turns) | st.builds(
    Progress, turns.map(lambda t: (*t, 3)), st.just(True)
)
budgets = st.floats(0, 2000)


def test_a_quiet_machine_needs_the_minimum() -> None:
    plan = make_plan(Progress(), COST, 300, QUIET)
    assert (plan.rounds, plan.turns, plan.precise, plan.short) == (3, 2, True, False)
    assert plan.seconds == 3 * (20 + 2 * 4)


def test_a_noisy_machine_uses_its_budget() -> None:
    plan = make_plan(Progress(), COST, 300, NOISY)
    assert not plan.precise
    assert 250 < plan.seconds <= 300


def test_a_costly_start_up_means_fewer_and_longer_rounds() -> None:
    cheap = make_plan(Progress(), Cost(5, 4), 1500, NOISY)
    costly = make_plan(Progress(), Cost(60, 4), 1500, NOISY)
    assert costly.rounds < cheap.rounds
    assert costly.turns > cheap.turns


def test_many_rounds_have_the_turns_of_the_formula() -> None:
    spread, cost = Variation(between=0.02**2, within=0.06**2), Cost(40, 1)
    plan = make_plan(Progress(), cost, 1e6, [spread], Goal(within=0.008))
    best = math.sqrt(spread.within / spread.between * cost.startup_seconds / cost.turn_seconds)
    assert plan.rounds > 20
    assert plan.turns == pytest.approx(best, rel=0.25)


def test_the_worst_cell_decides() -> None:
    both = make_plan(Progress(), COST, 900, [*QUIET, *NOISY])
    assert both == make_plan(Progress(), COST, 900, NOISY)


def test_when_three_rounds_do_not_fit_there_are_fewer_and_it_is_said() -> None:
    plan = make_plan(Progress(), COST, 70)
    assert (plan.rounds, plan.turns, plan.short) == (2, 3, True)
    one = make_plan(Progress(), COST, 30)
    assert (one.rounds, one.turns, one.short) == (1, 2, True)
    assert one.half_width == math.inf


def test_when_nothing_fits_nothing_is_planned() -> None:
    decision = decide(Progress(), COST, 20, precise=False)
    assert decision.action is Action.BUDGET
    assert (decision.plan.rounds, decision.plan.seconds) == (0, 0)


@settings(deadline=None)
@given(progresses, costs, budgets, st.lists(spreads, min_size=1, max_size=3), goals)
def test_no_plan_exceeds_the_budget(
    progress: Progress, cost: Cost, budget: float, cells: list[Variation], goal: Goal
) -> None:
    assert 0 <= make_plan(progress, cost, budget, cells, goal).seconds <= budget


@settings(deadline=None)
@given(progresses, costs, budgets, budgets, spreads, goals)
def test_more_budget_is_never_less_precise(
    progress: Progress, cost: Cost, one: float, other: float, spread: Variation, goal: Goal
) -> None:
    poor, rich = (
        make_plan(progress, cost, seconds, [spread], goal) for seconds in sorted((one, other))
    )
    assert rich.half_width <= poor.half_width * (1 + 1e-12) or rich.precise
    assert rich.precise or not poor.precise


@settings(deadline=None)
@given(costs, st.floats(100, 2000), spreads, st.floats(0.002, 0.2), st.floats(1, 5))
def test_a_looser_goal_never_takes_longer(
    cost: Cost, budget: float, spread: Variation, within: float, looser: float
) -> None:
    tight, loose = (
        make_plan(Progress(), cost, budget, [spread], Goal(within=w))
        for w in (within, within * looser)
    )
    if tight.precise:
        assert loose.precise
        assert loose.seconds <= tight.seconds


@settings(deadline=None)
@given(progresses, costs, budgets, spreads, st.booleans())
def test_every_decision_can_be_afforded(
    progress: Progress, cost: Cost, left: float, spread: Variation, precise: bool
) -> None:
    decision = decide(progress, cost, left, precise, [spread])
    if decision.action is Action.TURN:
        assert progress.live
        assert cost.turn_seconds <= left
    if decision.action is Action.ROUND:
        assert cost.startup_seconds + cost.turn_seconds <= left
    if decision.action is Action.PRECISE:
        assert precise
        assert len(progress.turns) >= 3


def test_a_round_gets_its_planned_turns_first() -> None:
    decision = decide(Progress((6, 6, 1), live=True), COST, 200, precise=True)
    assert decision.action is Action.TURN


def test_precise_enough_ends_it_and_tells_the_looks() -> None:
    first = decide(Progress((6, 6, 6), live=True), COST, 200, True, QUIET)
    third = decide(Progress((6, 6, 6, 6, 6), live=True), COST, 200, True, QUIET)
    assert (first.action, first.looks) == (Action.PRECISE, 1)
    assert (third.action, third.looks) == (Action.PRECISE, 3)


def test_two_rounds_are_not_enough_even_when_precise() -> None:
    assert decide(Progress((6, 6), live=True), COST, 200, True, QUIET).action is Action.ROUND


def test_not_as_precise_as_expected_means_another_round() -> None:
    decision = decide(Progress((6, 6, 6), live=True), COST, 200, False, QUIET)
    assert (decision.action, decision.plan.rounds, decision.plan.turns) == (Action.ROUND, 1, 6)


def test_what_is_too_little_for_a_round_is_spent_on_turns() -> None:
    decision = decide(Progress((6, 6, 6), live=True), COST, 25, False, QUIET)
    assert decision.action is Action.TURN
    assert decide(Progress((6, 6, 6), live=True), COST, 3, False, QUIET).action is Action.BUDGET


def test_a_finished_round_gets_no_more_turns() -> None:
    assert decide(Progress((6, 6, 6)), COST, 25, False, QUIET).action is Action.BUDGET


def test_a_number_of_rounds_can_be_fixed() -> None:
    goal = Goal(within=1e-9, minimum_rounds=4, maximum_rounds=4)
    assert make_plan(Progress(), COST, 1e4, QUIET, goal).rounds == 4
    done = decide(Progress((9, 9, 9, 9)), COST, 1e4, False, QUIET, goal)
    assert (done.action, done.looks) == (Action.BUDGET, 1)


def test_assumptions_hold_until_rounds_tell() -> None:
    assert estimate_spread([]) == Variation(PRIOR_BETWEEN, PRIOR_WITHIN)
    one = estimate_spread([Round.of([1.0, 1.01, 0.99, 1.0], 1, 1, turns=[0, 0, 1, 1])])
    assert one.between == PRIOR_BETWEEN
    assert one.within < PRIOR_WITHIN


def test_many_rounds_tell() -> None:
    rng = np.random.default_rng(1)
    seconds = block_seconds(rng, (200, 40), between=0.05, within=0.04, correlation=0.0)
    found = estimate_spread([Round.of(s, 1, 1, turns=np.repeat(range(8), 5)) for s in seconds])
    assert found.between == pytest.approx(0.05**2, rel=0.25)
    assert found.within == pytest.approx(0.04**2 / 5, rel=0.25)


def run(rng: np.random.Generator, budget: float, within: float) -> tuple[Decision, list[Round]]:
    """One cell, measured as the decisions say; a turn has 5 blocks."""
    goal, left = Goal(within=within), budget
    had: list[int] = []
    process, rounds = np.array([]), list[Round]()
    while True:
        precise = precise_enough(rounds, within)
        spread = [estimate_spread(rounds)]
        decision = decide(Progress(tuple(had), bool(had)), COST, left, precise, spread, goal)
        if decision.action is Action.ROUND:
            process, left = block_seconds(rng, (400,)), left - COST.startup_seconds
            had.append(0)
        elif decision.action is Action.TURN:
            had[-1], left = had[-1] + 1, left - COST.turn_seconds
            numbers = np.repeat(range(had[-1]), 5)
            rounds[len(had) - 1 :] = [Round.of(process[: len(numbers)], 1, 1, turns=numbers)]
        else:
            assert left >= 0
            return decision, rounds


@pytest.mark.parametrize(("budget", "within"), [(120, 0.03), (300, 0.03), (300, 0.01)])
def test_experiments_end_precise_or_with_their_budget_spent(budget: float, within: float) -> None:
    rng = np.random.default_rng(2)
    for _ in range(20):
        decision, rounds = run(rng, budget, within)
        found = interval(rounds, looks=decision.looks)
        if decision.action is Action.PRECISE:
            assert found.half_width <= within
        else:
            assert decision.action is Action.BUDGET
        assert len(rounds) >= 3


def test_turns_have_most_of_the_time_unless_processes_differ_much() -> None:
    cost = Cost(2.6, 1.04)
    usual = make_plan(Progress(), cost, 60, [Variation(2e-4, 4e-4)], Goal(within=1e-6))
    assert usual.rounds >= 5
    assert usual.turns * 1.04 / (2.6 + usual.turns * 1.04) >= 0.69
    restless = make_plan(Progress(), cost, 180, [Variation(25e-4, 4e-4)], Goal(within=1e-6))
    assert restless.rounds > 2 * usual.rounds

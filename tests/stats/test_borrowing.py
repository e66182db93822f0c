"""What earlier runs teach about the variance of rounds, and what it is worth."""

import numpy as np
import pytest

from convdyno.stats.borrowing import MOST_FREEDOM, NOTHING, Borrowed, PastRounds, learn
from convdyno.stats.rounds import over_rounds

RNG = np.random.default_rng(11)
TURNS = 0.01**2 / 8


def runs(count: int, rounds: int, between: float, spread: float = 0.0) -> list[PastRounds]:
    """Earlier runs whose processes differ by `between`, itself spread from run to run."""
    found = []
    for _ in range(count):
        own = between * np.exp(spread * RNG.standard_normal())
        logs = RNG.normal(0, np.sqrt(own**2 + TURNS), rounds)
        found.append(PastRounds(rounds, float(logs.var(ddof=1)), TURNS))
    return found


def test_too_few_runs_teach_nothing() -> None:
    assert learn(runs(4, 5, 0.015)) == NOTHING


def test_the_variance_between_processes_is_found() -> None:
    known = learn(runs(200, 5, 0.015))
    expected = float(known.expected(np.array(TURNS)))
    assert expected == pytest.approx(0.015**2 + TURNS, rel=0.2)
    assert known.freedom == MOST_FREEDOM


def test_runs_that_are_unlike_each_other_are_worth_little() -> None:
    assert learn(runs(200, 5, 0.015, spread=1.0)).freedom < 3


def test_a_busy_day_is_expected_to_be_as_wide_as_its_turns() -> None:
    known = Borrowed(8, between=0.01**2)
    assert float(known.expected(np.array(0.05**2))) == pytest.approx(0.05**2 + 0.01**2)


def test_knowledge_narrows_the_interval_of_few_rounds() -> None:
    logs, turns = RNG.normal(0, 0.015, (4000, 3)), np.full((4000, 3), TURNS)
    alone = over_rounds(logs, turns)
    known = over_rounds(logs, turns, Borrowed(8, between=0.015**2))
    assert np.median(known.half_width(0.05)) < 0.65 * np.median(alone.half_width(0.05))
    held = np.abs(known.centre) <= known.half_width(0.05)
    assert 0.93 <= held.mean() <= 0.98


def test_nothing_known_changes_nothing() -> None:
    logs, turns = RNG.normal(0, 0.015, (10, 5)), np.full((10, 5), TURNS)
    found, plain = over_rounds(logs, turns, NOTHING), over_rounds(logs, turns)
    assert (found.half_width(0.05) == plain.half_width(0.05)).all()

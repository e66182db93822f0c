"""Comparisons: pairing, verdicts that agree with intervals, Holm, and how often they are wrong."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from noisy_machine import Cells, block_seconds, ends

from convdyno.stats.compare import (
    Comparison,
    PairedRounds,
    Verdict,
    compare,
    noise_floor,
    verdict,
)
from convdyno.stats.rounds import Booleans as Flags
from convdyno.stats.rounds import Evidence, Round, over_rounds

TURNS = [0, 0, 1, 1, 2, 2]


def pair(ratios: list[float], turn_noise: float = 0.0) -> PairedRounds:
    """A is faster than B by these factors, one for each round."""
    wobble = [1 + turn_noise, 1 + turn_noise, 1 - turn_noise, 1 - turn_noise, 1.0, 1.0]
    return PairedRounds(
        a=[Round.of([w / ratio for w in wobble], 1, 10, turns=TURNS) for ratio in ratios],
        b=[Round.of([1.0] * 6, 1, 10, turns=TURNS) for _ in ratios],
    )


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (1.02, 1.30, "faster"),
        (0.70, 0.98, "slower"),
        (0.995, 1.004, "equivalent"),
        (1.001, 1.009, "equivalent"),
        (0.90, 1.10, "undecided"),
        (0.995, 1.2, "undecided"),
        (1.005, 1.2, "faster"),
        (1.0, 1.0, "equivalent"),
    ],
)
def test_four_verdicts(low: float, high: float, said: Verdict) -> None:
    assert verdict(low, high, delta=0.01) == said


@settings(deadline=None)
@given(st.floats(0.5, 1.5), st.floats(1.0, 1.5), st.floats(0.001, 0.2))
def test_a_verdict_turns_round_with_the_pair(low: float, width: float, delta: float) -> None:
    turned = {"faster": "slower", "slower": "faster"}
    said = verdict(low, low * width, delta)
    if said != "equivalent" and verdict(1 / (low * width), 1 / low, delta) != "equivalent":
        assert verdict(1 / (low * width), 1 / low, delta) == turned.get(said, said)


def test_three_rounds_by_hand() -> None:
    [found] = compare([pair([1.1, 1.2, 1.15])])
    logs = np.log([1.1, 1.2, 1.15])
    half = 4.3026527 * logs.std(ddof=1) / math.sqrt(3)
    assert found.ratio == pytest.approx(math.exp(logs.mean()))
    assert found.low == pytest.approx(math.exp(logs.mean() - half), rel=1e-6)
    assert found.high == pytest.approx(math.exp(logs.mean() + half), rel=1e-6)
    assert (found.verdict, found.rounds, found.level) == ("faster", 3, 0.95)


def test_one_round_is_undecided_and_says_why() -> None:
    [found] = compare([pair([1.5])])
    assert found.ratio == pytest.approx(1.5)
    assert (found.low, found.p, found.verdict, found.rounds) == (None, None, "undecided", 1)
    assert "one round" in found.reason


def test_rounds_without_one_of_the_cells_are_dropped() -> None:
    both = pair([1.5, 1.2, 1.3, 1.4])
    holes = PairedRounds([None, *both.a[1:]], [*both.b[:3], None])
    assert compare([holes])[0] == compare([pair([1.2, 1.3])])[0]
    nothing = PairedRounds([both.a[0], None], [None, both.b[1]])
    assert compare([nothing])[0].ratio is None


def test_only_turns_that_both_cells_had_are_compared() -> None:
    a = Round.of([1.0, 1.0, 5.0], 1, 10, contaminated=[False, False, False], turns=[0, 1, 2])
    b = Round.of([2.0, 2.0, 2.0], 1, 10, contaminated=[False, False, True], turns=[0, 1, 2])
    assert a.against(b)[0] == pytest.approx(math.log(2))


def test_drift_that_hits_both_cells_alike_cancels() -> None:
    drift = [1.0, 1.3, 1.7, 2.0]
    a = Round.of(drift, 1, 10, turns=range(4))
    b = Round.of([1.1 * d for d in drift], 1, 10, turns=range(4))
    ratio, variance = a.against(b)
    assert ratio == pytest.approx(math.log(1.1))
    assert variance == pytest.approx(0, abs=1e-20)


def test_rounds_that_agree_by_luck_do_not_decide() -> None:
    lucky = pair([1.02, 1.02, 1.02], turn_noise=0.2)
    assert compare([lucky])[0].verdict == "undecided"


def test_a_scripted_difference_without_noise_is_found() -> None:
    [found] = compare([pair([1.05, 1.05, 1.05])])
    assert found.verdict == "faster"
    assert found.p == pytest.approx(0, abs=1e-9)
    [same] = compare([pair([1.0, 1.0, 1.0])])
    assert (same.verdict, same.p) == ("equivalent", 1.0)


def test_holm_shares_by_hand() -> None:
    pairs = [pair([1.0, 1.3, 0.9]), pair([1.50, 1.51, 1.52]), pair([1.14, 1.16, 1.15])]
    levels = [found.level for found in compare(pairs)]
    assert levels == pytest.approx([1 - 0.05 / 1, 1 - 0.05 / 3, 1 - 0.05 / 2])


def test_holm_stops_at_the_first_that_is_not_found() -> None:
    pairs = [pair([1.0, 1.3, 0.9]), pair([1.50, 1.51, 1.52]), pair([1.0, 1.2, 0.8])]
    levels = [found.level for found in compare(pairs)]
    assert levels == pytest.approx([1 - 0.05 / 2, 1 - 0.05 / 3, 1 - 0.05 / 2])


def test_untested_pairs_do_not_count_in_the_family() -> None:
    assert compare([pair([1.5]), pair([1.0, 1.3, 0.9])])[1].level == pytest.approx(0.95)


@settings(deadline=None)
@given(st.lists(st.lists(st.floats(0.9, 1.1), min_size=3, max_size=3), min_size=1, max_size=6))
def test_interval_verdict_and_p_always_agree(family: list[list[float]]) -> None:
    for found in compare([pair(ratios, turn_noise=0.01) for ratios in family]):
        assert found.low is not None
        assert found.high is not None
        assert found.p is not None
        assert found.level is not None
        leaves_out_one = found.low > 1 or found.high < 1
        if abs(found.p - (1 - found.level)) > 1e-9:
            assert leaves_out_one == (found.p < 1 - found.level)
        if found.verdict in ("faster", "slower"):
            assert leaves_out_one
        assert found.verdict == verdict(found.low, found.high)


@settings(deadline=None)
@given(st.lists(st.floats(0.9, 1.1), min_size=2, max_size=6), st.floats(0.001, 0.5))
def test_p_is_where_the_interval_reaches_one(ratios: list[float], alpha: float) -> None:
    evidence = over_rounds(np.log(ratios), np.full(len(ratios), 0.01**2))
    outside = abs(float(evidence.centre)) > float(evidence.half_width(alpha))
    assert outside == (evidence.p() < alpha) or evidence.p() == pytest.approx(alpha)


# How often verdicts are wrong: 8000 experiments, standard error of a percentage of 5 is 0.25.

EXPERIMENTS = 8000
MARGIN = 0.6


def equivalent(evidence: Evidence, alpha: float) -> Flags:
    """Where the interval lies inside 1 % of 1."""
    return np.abs(evidence.centre) + evidence.half_width(alpha) <= math.log1p(0.01)


def differs(evidence: Evidence, alpha: float) -> Flags:
    """Where the verdict is faster or slower."""
    leaves_out_one = np.abs(evidence.centre) > evidence.half_width(alpha)
    return leaves_out_one & ~equivalent(evidence, alpha)


def percentage_different(cells: list[Cells], target: float | None, most: int) -> float:
    """In how many experiments any pair is called different: Holm begins with alpha / m."""
    pairs = [a.against(b) for i, a in enumerate(cells) for b in cells[i + 1 :]]
    found = 0
    for rounds, alpha, which in ends(cells, target, most):
        any_differs = np.any([differs(p.after(rounds), alpha / len(pairs)) for p in pairs], axis=0)
        found += int(any_differs[which].sum())
    return 100 * found / EXPERIMENTS


@pytest.mark.parametrize("most", [3, 5, 10])
@pytest.mark.parametrize("target", [None, 0.01, 0.015, 0.02, 0.03])
@pytest.mark.parametrize("between", [0.01, 0.03])
def test_the_same_trial_twice_is_seldom_called_different(
    most: int, target: float | None, between: float
) -> None:
    rng = np.random.default_rng(most)
    cells = [Cells.measure(rng, (EXPERIMENTS, most, 30), between=between) for _ in range(2)]
    assert percentage_different(cells, target, most) <= 5 + MARGIN


@pytest.mark.parametrize("target", [None, 0.01, 0.02, 0.03])
def test_in_a_family_hardly_any_pair_is_called_different(target: float | None) -> None:
    rng = np.random.default_rng(7)
    cells = [Cells.measure(rng, (EXPERIMENTS, 6, 30)) for _ in range(4)]
    assert percentage_different(cells, target, 6) <= 5 + MARGIN


def test_a_difference_of_ten_percent_is_found_in_most_experiments() -> None:
    rng = np.random.default_rng(1)
    a, b = (Cells.measure(rng, (EXPERIMENTS, 5, 30)) for _ in range(2))
    faster = Cells(a.logs + math.log(1.1), a.variances)
    assert percentage_different([faster, b], None, 3) > 90
    assert percentage_different([faster, b], None, 5) > 99


@pytest.mark.parametrize("rounds", [3, 5, 10])
def test_a_difference_of_three_percent_is_never_equivalent(rounds: int) -> None:
    rng = np.random.default_rng(2)
    quiet = {"between": 0.002, "within": 0.006}
    for noise in (quiet, {}):
        a, b = (Cells.measure(rng, (EXPERIMENTS, rounds, 30), **noise) for _ in range(2))
        ratio = Cells(a.logs + math.log(1.03), a.variances).against(b)
        assert equivalent(ratio.after(rounds), 0.05).mean() < 0.001


def test_a_difference_of_just_delta_is_called_equivalent_in_few_experiments() -> None:
    rng = np.random.default_rng(3)
    noise = {"between": 0.001, "within": 0.003}
    a, b = (Cells.measure(rng, (EXPERIMENTS, 5, 30), **noise) for _ in range(2))
    ratio = Cells(a.logs + math.log(1.01), a.variances).against(b)
    assert 100 * equivalent(ratio.after(5), 0.05).mean() <= 2.5 + MARGIN


# The whole function on rounds of blocks; with 2000 experiments the standard error is 0.5.


def family(rng: np.random.Generator, speedups: list[float]) -> list[Comparison]:
    """Every pair of some cells in one experiment of 3 rounds with 4 turns of 5 blocks."""
    turns = np.repeat(np.arange(4), 5)
    cells = [
        [Round.of(times / speedup, 1, 10, turns=turns) for times in block_seconds(rng, (3, 20))]
        for speedup in speedups
    ]
    pairs = [(a, b) for i, a in enumerate(cells) for b in cells[i + 1 :]]
    return compare([PairedRounds(a, b) for a, b in pairs])


def test_like_cells_are_left_alone() -> None:
    rng = np.random.default_rng(4)
    families = [family(rng, [1.0, 1.0, 1.0]) for _ in range(2000)]
    wrong = [any(c.verdict in ("faster", "slower") for c in found) for found in families]
    assert 100 * np.mean(wrong) <= 5 + 1.0


def test_like_cells_are_left_alone_beside_a_fast_one() -> None:
    rng = np.random.default_rng(5)
    families = [family(rng, [1.5, 1.0, 1.0]) for _ in range(800)]
    assert np.mean([found[0].verdict == "faster" for found in families]) > 0.9
    assert 100 * np.mean([f[2].verdict in ("faster", "slower") for f in families]) <= 5 + 1.6


def test_a_difference_at_the_noise_floor_is_found_as_often_as_promised() -> None:
    rng = np.random.default_rng(6)
    logs = 0.02 * rng.standard_normal((EXPERIMENTS, 5))
    floor = np.mean([math.log1p(noise_floor(rounds)) for rounds in logs[:500]])
    found = differs(over_rounds(logs + floor, np.zeros_like(logs)), 0.05)
    assert 70 <= 100 * found.mean() <= 90


def test_a_bias_between_places_counts_as_noise() -> None:
    assert noise_floor([0.05, 0.05, 0.05]) > 0.1


def test_one_round_resolves_nothing() -> None:
    assert noise_floor([0.01]) == math.inf

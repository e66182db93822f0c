"""The gate: what an interval allows to say, and how often it says the wrong thing."""

import math
from collections import Counter

import numpy as np
import pytest
from noisy_machine import Cells, block_seconds, ends

from convdyno.stats.compare import Comparison, PairedRounds, Unpaired, noise_floor
from convdyno.stats.gate import (
    Outcome,
    control_ratios,
    judge,
    limit,
    precise_ratio,
    ratio_of,
    spread_of_ratio,
)
from convdyno.stats.rounds import Round

EXPERIMENTS = 8000
ONE_SIDE = 3.5
"""The percentage that may be missed at either end: intervals cover 93 to 97 % (`test_coverage`)."""


def ratio(low: float | None, high: float | None, middle: float | None = 1.0) -> Comparison:
    return Comparison(middle, low, high, 0.95, None, "undecided", 3)


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (0.98, 1.02, "pass"),
        (1.10, 1.20, "pass"),
        (0.971, 0.99, "pass"),
        (0.96, 1.02, "undecided"),
        (0.90, 0.98, "undecided"),
        (0.85, 0.96, "regression"),
        (None, None, "undecided"),
    ],
)
def test_the_interval_decides(low: float | None, high: float | None, said: Outcome) -> None:
    assert judge(ratio(low, high), within=0.03) == said


def test_nothing_measured_is_a_verdict_of_its_own() -> None:
    assert judge(ratio(None, None, None), within=0.03) == "nothing measured"


def test_the_limit_is_a_step_that_takes_so_much_longer() -> None:
    assert limit(0.25) == pytest.approx(0.8)


def rounds(rng: np.random.Generator, count: int, speed: float = 1.0, **noise: float) -> list[Round]:
    """Rounds of 4 turns of 5 blocks on a machine that varies as `noisy_machine` says."""
    turns = np.repeat(np.arange(4), 5)
    times = block_seconds(rng, (count, 20), **noise)
    return [Round.of(each / speed, 1, 10, turns=turns) for each in times]


def test_a_paired_ratio_is_of_the_rounds_that_both_have() -> None:
    rng = np.random.default_rng(1)
    slow, base = rounds(rng, 5, 0.8, between=0, within=0.01), rounds(rng, 5, between=0, within=0.01)
    found = ratio_of(PairedRounds(slow, base))
    assert found.ratio == pytest.approx(0.8, rel=0.02)
    assert judge(found, 0.1) == "regression"
    assert judge(found, 0.4) == "pass"


# How often the gate errs, by the same intervals as in `test_verdicts`; a percentage of 2.5 has a
# standard error of 0.17. The rounds end by the width of the ratio's interval, or are fixed.


def outcomes(change: float, within: float, most: int, target: float | None) -> Counter[str]:
    """Percentages of verdicts over many experiments with a known change of speed."""
    rng = np.random.default_rng(most + int(1000 * within))
    base, other = (Cells.measure(rng, (EXPERIMENTS, most, 30)) for _ in range(2))
    pair = Cells(other.logs + math.log1p(change), other.variances).against(base)
    said: Counter[str] = Counter()
    edge = math.log(limit(within))
    for count, alpha, which in ends([pair], target, most):
        evidence = pair.after(count)
        half = evidence.half_width(alpha)
        passes = evidence.centre - half >= edge
        fails = evidence.centre + half < edge
        for name, flags in (("pass", passes), ("regression", fails)):
            said[name] += int((flags & which).sum())
    return Counter({name: 100 * count / EXPERIMENTS for name, count in said.items()})


@pytest.mark.parametrize("most", [3, 5, 10])
@pytest.mark.parametrize("target", [None, 0.015, 0.03])
@pytest.mark.parametrize("within", [0.03, 0.05])
def test_a_candidate_just_at_the_limit_is_seldom_judged_either_way(
    most: int, target: float | None, within: float
) -> None:
    found = outcomes(limit(within) - 1, within, most, target)
    assert found["pass"] <= ONE_SIDE
    assert found["regression"] <= ONE_SIDE


@pytest.mark.parametrize("most", [3, 5, 10])
@pytest.mark.parametrize("target", [None, 0.015])
def test_an_unchanged_candidate_is_hardly_ever_a_regression(
    most: int, target: float | None
) -> None:
    assert outcomes(0.0, 0.03, most, target)["regression"] < 0.5


def test_an_unchanged_candidate_passes_where_the_limit_is_well_above_the_noise() -> None:
    assert outcomes(0.0, 0.05, 5, 0.025)["pass"] > 90


@pytest.mark.parametrize("most", [5, 10])
def test_ten_percent_slower_is_found(most: int) -> None:
    assert outcomes(-0.1, 0.03, most, 0.015)["regression"] > 95


def test_at_the_noise_floor_an_unchanged_candidate_passes_as_often_as_promised() -> None:
    rng = np.random.default_rng(6)
    same = [PairedRounds(rounds(rng, 5), rounds(rng, 5)) for _ in range(400)]
    floors = [noise_floor(control_ratios(pair)) for pair in same]
    typical = float(np.median(floors))
    tries = [PairedRounds(rounds(rng, 5), rounds(rng, 5)) for _ in range(400)]
    passed = np.mean([judge(ratio_of(pair), typical) == "pass" for pair in tries])
    assert 0.65 <= passed <= 0.92


def test_more_rounds_lower_the_floor() -> None:
    ratios = [0.01, -0.02, 0.015]
    assert noise_floor(ratios, rounds=12) < noise_floor(ratios, rounds=6) < noise_floor(ratios)
    assert noise_floor(ratios, rounds=3) == noise_floor(ratios)
    assert noise_floor(ratios, rounds=1) == math.inf


def test_precise_asks_for_rounds_and_for_width() -> None:
    rng = np.random.default_rng(2)
    pair = PairedRounds(rounds(rng, 6), rounds(rng, 6))
    found = ratio_of(pair, looks=2)
    assert found.ratio is not None
    assert found.high is not None
    width = found.high / found.ratio - 1
    assert precise_ratio(pair, 1.01 * width)
    assert not precise_ratio(pair, 0.99 * width)
    assert not precise_ratio(pair, 1.01 * width, minimum_rounds=7)
    assert not precise_ratio(PairedRounds(pair.a[:1], pair.b[:1]), 0.5, minimum_rounds=1)


def test_pairing_leaves_out_what_both_sides_share() -> None:
    drift = [1.0, 1.5, 0.7, 1.2]
    turns = np.repeat(np.arange(4), 5)
    rng = np.random.default_rng(3)
    noise = block_seconds(rng, (8, 20), between=0, within=0.005)
    base = [Round.of(d * t, 1, 10, turns=turns) for d, t in zip(drift, noise[:4], strict=True)]
    same = [Round.of(d * t, 1, 10, turns=turns) for d, t in zip(drift, noise[4:], strict=True)]
    assert judge(ratio_of(PairedRounds(same, base)), 0.03) == "pass"
    assert judge(ratio_of(Unpaired(same, base)), 0.03) == "undecided"
    assert spread_of_ratio(PairedRounds(same, base)).between < 0.01**2


def test_unpaired_rounds_cover_the_truth_when_nothing_drifts() -> None:
    rng = np.random.default_rng(4)
    held = 0
    for _ in range(1500):
        found = ratio_of(Unpaired(rounds(rng, 4, 0.9), rounds(rng, 5)))
        assert found.low is not None
        assert found.high is not None
        held += found.low <= 0.9 <= found.high
    assert 93 <= 100 * held / 1500 <= 98.5


def test_unpaired_sides_of_one_round_or_none_say_why() -> None:
    rng = np.random.default_rng(5)
    three = rounds(rng, 3)
    assert "single round" in ratio_of(Unpaired(three[:1], three)).reason
    assert ratio_of(Unpaired([], three)).ratio is None
    equal = ratio_of(Unpaired([three[0]] * 3, [three[0]] * 3))
    assert equal.ratio == 1
    assert equal.p == 1

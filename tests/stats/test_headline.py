"""The headline, the fields of older tools and latency, by hand."""

import math
from itertools import pairwise
from statistics import stdev

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convdyno.stats import summary
from convdyno.stats.rounds import Round
from convdyno.stats.series import mean_variance
from convdyno.stats.summary import interval, latency, legacy, precise_enough, rate

times = st.lists(st.floats(0.01, 10), min_size=1, max_size=30)


def test_rate_is_all_images_by_all_seconds() -> None:
    assert rate([1.0, 3.0], [10, 10]) == 5.0


@settings(deadline=None)
@given(times)
def test_the_mean_of_speeds_is_never_below_the_headline(seconds: list[float]) -> None:
    mean_of_speeds = float(np.mean([32 / t for t in seconds]))
    assert mean_of_speeds >= interval([Round.of(seconds, 1, 32)]).estimate * (1 - 1e-12)


def test_two_rounds_by_hand() -> None:
    found = interval([Round.of([1.0], 1, 100), Round.of([1.1], 1, 100)])
    assert found.estimate == pytest.approx(200 / 2.1)
    standard_error = math.log(1.1) / math.sqrt(2) / math.sqrt(2)
    half = 12.7062047 * standard_error
    assert found.low == pytest.approx(found.estimate * math.exp(-half), rel=1e-6)
    assert found.high == pytest.approx(found.estimate * math.exp(half), rel=1e-6)
    assert found.half_width == pytest.approx(math.exp(half) - 1, rel=1e-6)
    assert (found.rounds, found.basis, found.level) == (2, summary.ROUNDS, 0.95)


def variance_by_the_page(seconds: list[float], images: list[float]) -> float:
    """The v of `docs/method.md`, term by term."""
    n, mean = len(seconds), sum(seconds) / len(seconds)
    each = sum(seconds) / sum(images)
    d = [(s - g * each) / mean for s, g in zip(seconds, images, strict=True)]
    d = [one - sum(d) / n for one in d]
    squares = sum(one**2 for one in d)
    q = sum(a * b for a, b in pairwise(d)) / squares
    r = min(0.9, max(0.0, q + (1 + 3 * q) / n))
    return squares / (n - 1) / (n * (1 - r) / (1 + r))


@pytest.mark.parametrize(
    ("apart", "basis"), [(0.0, summary.ROUNDS_AND_BLOCKS), (0.2, summary.ROUNDS)]
)
def test_the_interval_has_the_formulas_of_the_page(apart: float, basis: str) -> None:
    rng = np.random.default_rng(2)
    rates, variances, rounds = [], [], []
    for number in range(3):
        steps = [3, 4, 5, 3, 4, 5, 3]
        seconds = [n * (1 + apart * number + 0.1 * rng.standard_normal()) for n in steps]
        images = [8.0 * n for n in steps]
        rates.append(sum(images) / sum(seconds))
        variances.append(variance_by_the_page(seconds, images))
        rounds.append(Round.of(seconds, steps, 8))
    spread = stdev(map(math.log, rates))
    over_rounds = 4.30265273 * spread / math.sqrt(3)
    floor = 0.5 * 1.95996398 * math.sqrt(sum(variances)) / 3
    found = interval(rounds)
    assert math.log1p(found.half_width) == pytest.approx(max(over_rounds, floor), rel=1e-6)
    assert found.basis == basis


def test_rounds_of_equal_length_give_all_images_by_all_seconds() -> None:
    rounds = [Round.of([1.0, 2.0], 3, 8), Round.of([1.5, 2.5], 3, 8)]
    assert interval(rounds).estimate == pytest.approx(4 * 3 * 8 / 7)


def test_a_long_round_counts_no_more_than_a_short_one() -> None:
    rounds = [Round.of([1.0], 1, 100), Round.of([2.0] * 50, 1, 100)]
    assert interval(rounds).estimate == pytest.approx(100 / 1.5)


def test_steps_per_block_may_differ() -> None:
    assert Round.of([0.2, 0.4], [1, 3], 10).log_rate == pytest.approx(math.log(40 / 0.6))
    even = Round.of([0.1, 0.2, 0.4], [1, 2, 4], 10)
    assert even.deviations == pytest.approx([0, 0, 0], abs=1e-12)


def test_contaminated_blocks_are_left_out_and_counted() -> None:
    found = interval([Round.of([1.0, 9.0, 1.0], 1, 5, contaminated=[False, True, False])])
    assert (found.estimate, found.blocks, found.left_out) == (5.0, 2, 1)
    assert found.dirty_rounds == 0


def test_a_round_without_a_clean_block_is_used_and_said() -> None:
    rounds = [Round.of([1.0, 3.0], 1, 6, contaminated=[True, True]), Round.of([2.0], 1, 6)]
    found = interval(rounds)
    assert (found.estimate, found.dirty_rounds, found.left_out) == (3.0, 1, 0)


def test_one_round_says_that_it_is_one_process() -> None:
    found = interval([Round.of([1.0, 1.1, 0.9, 1.0], 1, 10)])
    assert found.basis == summary.ONE_PROCESS
    assert found.low is not None


def test_one_block_has_no_interval() -> None:
    found = interval([Round.of([2.0], 1, 10)])
    assert (found.estimate, found.low, found.high) == (5.0, None, None)
    assert found.half_width == math.inf


def test_rounds_that_agree_by_luck_are_widened_to_what_their_blocks_show() -> None:
    noisy = [1.0, 1.2, 0.8, 1.1, 0.9, 1.3, 0.7, 1.0]
    found = interval([Round.of(noisy, 1, 10)] * 3)
    one_error = math.sqrt(float(mean_variance(np.array(noisy))[0]) / 3)
    assert found.basis == summary.ROUNDS_AND_BLOCKS
    assert found.half_width == pytest.approx(math.expm1(0.5 * 1.959964 * one_error), rel=1e-6)


def test_scripted_times_without_any_noise_have_an_interval_of_no_width() -> None:
    found = interval([Round.of([0.25] * 4, 1, 10)] * 3)
    assert (found.low, found.high) == pytest.approx((40.0, 40.0))
    assert precise_enough([Round.of([0.25] * 4, 1, 10)] * 3, within=0.001)


def test_precise_enough_needs_three_rounds() -> None:
    assert not precise_enough([Round.of([0.25] * 4, 1, 10)] * 2, within=0.5)


def test_looking_more_than_once_widens_the_interval() -> None:
    rounds = [Round.of([t], 1, 10) for t in (1.0, 1.1, 1.05, 1.02)]
    once, twice, often = (interval(rounds, looks=looks).half_width for looks in (1, 2, 9))
    assert once < twice == often
    assert interval(rounds, looks=2).level == 0.95


@settings(deadline=None)
@given(times, st.floats(0.1, 100))
def test_the_interval_scales_with_the_clock(seconds: list[float], factor: float) -> None:
    rounds = [Round.of(seconds, 2, 8), Round.of([*seconds[::-1], 1.0], 2, 8)]
    slower = [Round.of(r.seconds * factor, 2, 8) for r in rounds]
    assert interval(slower).estimate * factor == pytest.approx(interval(rounds).estimate)
    assert interval(slower).half_width == pytest.approx(
        interval(rounds).half_width, rel=1e-9, abs=1e-9
    )


def test_nothing_measured_is_refused() -> None:
    with pytest.raises(ValueError, match="no round"):
        interval([])
    with pytest.raises(ValueError, match="at least one block"):
        Round.of([], 1, 1)
    with pytest.raises(ValueError, match="positive"):
        Round.of([1.0, math.nan], 1, 1)
    with pytest.raises(ValueError, match="one flag"):
        Round.of([1.0, 1.0], 1, 1, contaminated=[True])


def test_legacy_fields_by_hand() -> None:
    found = legacy([1.0, 2.0, 4.0], [1, 1, 1], 8)
    assert found.mean_time_per_step == pytest.approx(7 / 3)
    assert found.mean_speed == pytest.approx(24 / 7)
    # speeds 8, 4, 2: mean 14/3, squares of deviations (100 + 4 + 64) / 9, median 4
    assert found.speed_uncertainty == pytest.approx(math.sqrt(168 / 9 / 2) / math.sqrt(3))
    assert found.speed_jitter == pytest.approx(1.4826 * 2)


def test_legacy_speeds_of_blocks_are_per_step() -> None:
    found = legacy([0.5, 1.0], [5, 10], 8)
    assert found.mean_time_per_step == pytest.approx(0.1)
    assert found.speed_uncertainty == pytest.approx(0)


def test_legacy_fields_that_too_few_blocks_cannot_give_are_none() -> None:
    assert legacy([], [], 8) == summary.Legacy(None, None, None, None)
    assert legacy([2.0], [1], 8) == summary.Legacy(2.0, 4.0, None, None)


def test_latency_quantiles() -> None:
    found = latency([i / 1000 for i in range(1, 102)])
    assert found.p50_seconds == pytest.approx(0.051)
    assert found.p90_seconds == pytest.approx(0.091)
    assert found.p99_seconds == pytest.approx(0.1)


def test_a_quantile_needs_a_step_beyond_it() -> None:
    found = latency([1.0] * 50)
    assert found.p90_seconds == 1.0
    assert found.p99_seconds is None
    assert latency([]).p50_seconds is None


def test_the_variance_of_a_mean_counts_correlation() -> None:
    alternating = np.array([1.0, 2.0] * 10)
    assert mean_variance(alternating)[0] == pytest.approx(alternating.var(ddof=1) / 20)
    drifting = np.arange(20.0)
    variance, worth = mean_variance(drifting)
    assert worth < 2
    assert variance == pytest.approx(drifting.var(ddof=1) / worth)
    assert math.isnan(mean_variance(np.array([1.0]))[0])

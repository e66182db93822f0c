"""Warm-up curves whose end is known."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from convdyno.stats.steady import Steady

Curve = Callable[[float], float]


def warm_up(curve: Curve, block_seconds: float = 0.2, **settings: float) -> Steady:
    """Blocks at the rate that the curve gives for their start, until the watcher has enough."""
    watcher = Steady(**settings)  # type: ignore[arg-type]
    while not watcher.add(curve(watcher.seconds), block_seconds):
        pass
    return watcher


def settling(seconds: float) -> Curve:
    return lambda t: 100 * (1 - 0.5 * math.exp(-t / seconds))


def test_a_flat_rate_is_steady_after_the_minimum() -> None:
    watcher = warm_up(lambda t: 100.0)
    assert watcher.reached
    assert watcher.seconds == pytest.approx(3.0, abs=0.21)


@pytest.mark.parametrize("time_constant", [0.3, 1.0, 3.0, 8.0])
@pytest.mark.parametrize("block_seconds", [0.2, 2.0])
def test_a_settling_rate_is_steady_close_to_its_end(
    time_constant: float, block_seconds: float
) -> None:
    watcher = warm_up(settling(time_constant), block_seconds)
    assert watcher.reached
    assert settling(time_constant)(watcher.seconds) > 99


def test_a_sudden_step_is_waited_for() -> None:
    watcher = warm_up(lambda t: 50.0 if t < 2.0 else 100.0)
    assert watcher.reached
    assert watcher.seconds > 3.0


def test_a_few_long_steps_are_enough() -> None:
    watcher = warm_up(lambda t: 16.0, block_seconds=2.0)
    assert watcher.reached
    assert watcher.blocks == 6


@pytest.mark.parametrize("odd_one", range(6))
def test_one_odd_block_does_no_harm(odd_one: int) -> None:
    watcher = Steady()
    for block in range(6):
        watcher.add(10.0 if block == odd_one else 100.0 + block / 10, 2.0)
    assert watcher.reached


def test_a_rate_that_keeps_rising_is_never_steady() -> None:
    watcher = warm_up(lambda t: 100 * 1.05**t, maximum_seconds=30)
    assert not watcher.reached
    assert watcher.over
    assert watcher.seconds == pytest.approx(30, abs=0.21)


def test_a_rate_that_others_make_fall_is_not_waited_for() -> None:
    watcher = warm_up(lambda t: 100.0 if t < 2.5 else 60.0)
    assert watcher.reached
    assert watcher.seconds < 4


def test_a_rate_that_jumps_by_more_than_the_tolerance_and_back_is_not_drift() -> None:
    noise = np.random.default_rng(1).normal(scale=0.1, size=1000)
    watcher = warm_up(lambda t: 100 * math.exp(noise[int(t / 0.2)]))
    assert watcher.reached
    assert watcher.seconds < 10


def test_noise_does_not_hide_a_strong_warm_up() -> None:
    rng = np.random.default_rng(2)
    left = []
    for _ in range(50):
        watcher = warm_up(lambda t: settling(2.0)(t) * math.exp(rng.normal(scale=0.03)))
        left.append(1 - settling(2.0)(watcher.seconds) / 100)
    assert np.median(left) < 0.02


def test_the_unit_of_the_rate_does_not_matter() -> None:
    seconds = [warm_up(lambda t, u=unit: u * settling(1.0)(t)).seconds for unit in (1e-3, 1e6)]  # type: ignore[misc]
    assert seconds[0] == seconds[1]


def test_an_impossible_watch_is_refused() -> None:
    with pytest.raises(ValueError, match="positive"):
        Steady(window=0)

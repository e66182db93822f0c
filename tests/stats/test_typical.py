"""The typical turn: close to the mean where nothing is odd, and hardly moved where something is."""

import math

import numpy as np
import pytest

from convdyno.stats.typical import typical, typical_variance

RNG = np.random.default_rng(13)
EXPERIMENTS = 2000


def test_of_one_or_two_values_it_is_their_mean() -> None:
    assert typical(np.array([3.0])) == 3.0
    assert typical(np.array([3.0, 4.0])) == 3.5


def test_it_is_the_median_of_the_averages_of_all_pairs() -> None:
    values = np.array([1.0, 2.0, 10.0])
    averages = [1, 1.5, 5.5, 2, 6, 10]
    assert typical(values) == np.median(averages)


def test_a_quarter_of_odd_values_hardly_moves_it() -> None:
    values = np.concatenate([RNG.normal(0, 0.01, 15), RNG.uniform(0.3, 0.7, 5)])
    assert abs(typical(values)) < 0.012
    assert values.mean() > 0.07


@pytest.mark.parametrize("turns", [5, 10, 30])
def test_its_variance_is_what_repetition_shows(turns: int) -> None:
    drawn = RNG.normal(0, 0.02, (EXPERIMENTS, turns))
    seen = np.var([typical(values) for values in drawn])
    told = np.mean([typical_variance(values) for values in drawn])
    assert 0.9 < told / seen < 2.5, "the correction for neighbours errs on the wide side"


def test_values_that_resemble_their_neighbours_are_worth_fewer() -> None:
    steps = np.cumsum(RNG.normal(0, 0.01, 40))
    assert typical_variance(steps) > 3 * typical_variance(RNG.permutation(steps))


def test_one_value_has_no_variance() -> None:
    assert math.isnan(typical_variance(np.array([1.0])))
    assert typical_variance(np.array([1.0, 1.0])) == 0

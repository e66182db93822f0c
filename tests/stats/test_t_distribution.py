"""Student's t against the tables in statistics books (rows: degrees of freedom)."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convdyno.stats.t_distribution import (
    cdf,
    normal_quantile,
    normal_two_sided_p,
    quantile,
    two_sided_p,
)

TABLE = {
    1: {0.75: 1.000, 0.95: 6.314, 0.975: 12.706, 0.99: 31.821, 0.995: 63.657, 0.9995: 636.619},
    2: {0.75: 0.816, 0.95: 2.920, 0.975: 4.303, 0.99: 6.965, 0.995: 9.925, 0.9995: 31.599},
    3: {0.75: 0.765, 0.95: 2.353, 0.975: 3.182, 0.99: 4.541, 0.995: 5.841, 0.9995: 12.924},
    4: {0.75: 0.741, 0.95: 2.132, 0.975: 2.776, 0.99: 3.747, 0.995: 4.604, 0.9995: 8.610},
    9: {0.75: 0.703, 0.95: 1.833, 0.975: 2.262, 0.99: 2.821, 0.995: 3.250, 0.9995: 4.781},
    30: {0.75: 0.683, 0.95: 1.697, 0.975: 2.042, 0.99: 2.457, 0.995: 2.750, 0.9995: 3.646},
    120: {0.75: 0.677, 0.95: 1.658, 0.975: 1.980, 0.99: 2.358, 0.995: 2.617, 0.9995: 3.373},
}
CELLS = [(p, df, t) for df, row in TABLE.items() for p, t in row.items()]


@pytest.mark.parametrize(("p", "df", "t"), CELLS)
def test_quantiles_are_those_of_the_table(p: float, df: int, t: float) -> None:
    assert quantile(p, df) == pytest.approx(t, abs=0.00051)


def test_one_and_two_degrees_of_freedom_have_closed_forms() -> None:
    for t in (-40.0, -1.5, 0.0, 1e-9, 0.3, 2.0, 1000.0):
        assert cdf(t, 1) == pytest.approx(0.5 + math.atan(t) / math.pi, abs=1e-14)
        assert cdf(t, 2) == pytest.approx(0.5 + t / (2 * math.sqrt(2 + t * t)), abs=1e-14)


def test_small_tails_keep_their_digits() -> None:
    assert two_sided_p(1e6, 2) == pytest.approx(1e-12, rel=1e-9, abs=0)


def test_many_degrees_of_freedom_are_the_normal_distribution() -> None:
    assert quantile(0.975, 1e7) == pytest.approx(normal_quantile(0.975), abs=1e-6)
    assert normal_two_sided_p(1.959964) == pytest.approx(0.05, abs=1e-7)


@settings(deadline=None)
@given(st.floats(0.001, 0.999), st.floats(0.5, 500))
def test_quantile_undoes_cdf(p: float, df: float) -> None:
    assert cdf(quantile(p, df), df) == pytest.approx(p, abs=1e-12)


@settings(deadline=None)
@given(st.floats(0, 50), st.floats(0.5, 500))
def test_the_distribution_is_symmetric(t: float, df: float) -> None:
    assert cdf(-t, df) == pytest.approx(1 - cdf(t, df), abs=1e-14)


def test_impossible_questions_are_refused() -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        quantile(1.0, 3)
    with pytest.raises(ValueError, match="positive"):
        cdf(1.0, 0)

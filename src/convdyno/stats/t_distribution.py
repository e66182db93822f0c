"""Student's t distribution, for any positive number of degrees of freedom."""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

_TINY = 1e-300
_EPSILON = 1e-15
_NORMAL = NormalDist()


def cdf(t: float, df: float) -> float:
    """The probability that a t variable with `df` degrees of freedom is at most `t`."""
    if df <= 0:
        raise ValueError(f"degrees of freedom must be positive, not {df}")
    if math.isnan(t):
        return math.nan
    if math.isinf(t):
        return 1.0 if t > 0 else 0.0
    tail = 0.5 * _incomplete_beta(df / 2, 0.5, df, t * t)
    return 1 - tail if t > 0 else tail


@lru_cache(maxsize=4096)
def quantile(p: float, df: float) -> float:
    """The t that a variable with `df` degrees of freedom stays below with probability `p`."""
    if not 0 < p < 1:
        raise ValueError(f"a probability must be between 0 and 1, not {p}")
    if p < 0.5:
        return -quantile(1 - p, df)
    low, high = 0.0, 1.0
    while cdf(high, df) < p:
        low, high = high, 2 * high
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if cdf(middle, df) < p else (low, middle)
    return (low + high) / 2


def two_sided_p(t: float, df: float) -> float:
    """The probability of a t variable at least as far from zero as `t`, in either direction."""
    return 2 * cdf(-abs(t), df)


def normal_quantile(p: float) -> float:
    """The quantile of the standard normal distribution, the limit of many degrees of freedom."""
    return _NORMAL.inv_cdf(p)


def normal_two_sided_p(z: float) -> float:
    """The probability of a standard normal variable at least as far from zero as `z`."""
    return math.erfc(abs(z) / math.sqrt(2))


def _incomplete_beta(a: float, b: float, df: float, square: float) -> float:
    # The regularised I_x(a, b) at x = df / (df + square); 1 - x is formed without cancellation.
    x, rest = df / (df + square), square / (df + square)
    if x <= 0 or rest <= 0:
        return 0.0 if x <= 0 else 1.0
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    front = math.exp(log_front + a * math.log(x) + b * math.log(rest))
    if x < (a + 1) / (a + b + 2):
        return front * _continued_fraction(a, b, x) / a
    return 1 - front * _continued_fraction(b, a, rest) / b


def _continued_fraction(a: float, b: float, x: float) -> float:
    # Lentz's method; Abramowitz and Stegun 26.5.8.
    c, d = 1.0, 1 / _nonzero(1 - (a + b) * x / (a + 1))
    total = d
    for m in range(1, 1000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1 / _nonzero(1 + term * d)
            c = _nonzero(1 + term / c)
            total *= c * d
        if abs(c * d - 1) < _EPSILON:
            break
    return total


def _nonzero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY

"""Values measured one after the other, each of which resembles the one before it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

NORMAL_FROM_MAD = 1.4826
"""Times the median distance from the median, it is the standard deviation of normal values."""
_HIGHEST_CORRELATION = 0.9


def mean_variances(series: Sequence[Floats]) -> Floats:
    """The variance of each series' mean, as `mean_variance` has it; of one length all at once."""
    if len({len(values) for values in series}) == 1:
        return mean_variance(np.array(series))[0]
    return np.array([float(mean_variance(values)[0]) for values in series])


def mean_variance(values: Floats) -> tuple[Floats, Floats]:
    """The variance of the mean of an autocorrelated series (last axis), and its effective length.

    With correlation r of neighbours, n values are worth n (1 - r) / (1 + r) independent ones. One
    value gives NaN.
    """
    n = values.shape[-1]
    if n < 2:
        shape = values.shape[:-1]
        return np.full(shape, np.nan), np.ones(shape)
    r = correlation(values)
    worth = n * (1 - r) / (1 + r)
    return values.var(axis=-1, ddof=1) / worth, worth


def correlation(values: Floats) -> Floats:
    """How much each value of a series (last axis) resembles the next, from 0 to 0.9.

    The usual estimate is too low by about (1 + 3 r) / n in a short series (Kendall 1954): that is
    added. Negative correlation is not credited.
    """
    n = values.shape[-1]
    deviations = values - values.mean(axis=-1, keepdims=True)
    squares = (deviations**2).sum(axis=-1)
    products = (deviations[..., 1:] * deviations[..., :-1]).sum(axis=-1)
    raw = products / np.where(squares > 0, squares, 1.0)
    found: Floats = np.clip(raw + (1 + 3 * raw) / n, 0.0, _HIGHEST_CORRELATION)
    return found


def median_deviation(values: Floats) -> float:
    """The median distance from the median, which of normal values is their standard deviation."""
    return NORMAL_FROM_MAD * float(np.median(np.abs(values - np.median(values))))

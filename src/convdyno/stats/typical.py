"""The typical value of a few that somebody disturbs now and then (Hodges and Lehmann 1963).

The median of the averages of all pairs: nearly as good as the mean where nothing is odd (96 % of
its efficiency), and hardly moved while fewer than three in ten are far off.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import numpy.typing as npt

from convdyno.stats.series import NORMAL_FROM_MAD, Floats, correlation

FEW = 5
"""Of fewer values than so many the spread is the plain one."""


def typical(values: Floats) -> float:
    """The median of the averages of all pairs of values, each with itself too."""
    return float(np.median(_averages(values))) if len(values) > 2 else float(values.mean())


def typical_variance(values: Floats) -> float:
    """The variance of `typical`; NaN for a single value.

    From the averages a standard error of Wilcoxon's statistic above and below the middle; values
    that resemble their neighbours are worth fewer.
    """
    n = len(values)
    if n < 2:
        return math.nan
    if n < FEW:
        variance = float(values.var(ddof=1)) / n
    else:
        averages = np.sort(_averages(values))
        middle, error = (len(averages) - 1) / 2, math.sqrt(n * (n + 1) * (2 * n + 1) / 24)
        low, high = math.floor(middle - error), math.ceil(middle + error)
        variance = float((averages[high] - averages[low]) / (high - low) * error) ** 2
    r = float(correlation(_tamed(values)))
    return variance * (1 + r) / (1 - r)


def _averages(values: Floats) -> Floats:
    one, other = _pairs(len(values))
    return (values[one] + values[other]) / 2


@cache
def _pairs(count: int) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    one, other = np.triu_indices(count)
    return one, other


def _tamed(values: Floats) -> Floats:
    """The same, but what is far off is brought nearer: it says nothing about its neighbours."""
    middle = float(np.median(values))
    reach = 3 * NORMAL_FROM_MAD * float(np.median(np.abs(values - middle)))
    return np.clip(values, middle - reach, middle + reach)

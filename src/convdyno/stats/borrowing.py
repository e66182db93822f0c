"""How much rounds vary, with what earlier rounds on the same machine have shown.

A few rounds say little about their own variance: of three, Student's t is 4.3. Earlier runs know
what to expect, so that their knowledge can be added as if it were some more rounds (moderated t,
Smyth 2004, doi 10.2202/1544-6115.1027). What is expected is not a fixed figure, because a machine
is quiet today and busy tomorrow: it is what the turns of these very rounds show, and on top of it
how much processes differ, which does not depend on the load.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from convdyno.stats.series import Floats

FEWEST = 5
"""Earlier runs that are needed before anything is borrowed from them."""
MOST_FREEDOM = 8.0
"""So many rounds, at the most, may what is known of others be worth."""


@dataclass(frozen=True, slots=True)
class Borrowed:
    """What is known of the variance of rounds before they are seen."""

    freedom: float = 0.0
    """How many rounds that knowledge is worth; 0: nothing is known."""
    between: float = 0.0
    """The variance from process to process, beyond what turns show."""
    scale: float = 1.0
    """What the variance of rounds usually is, over what `between` and turns make of it."""

    def expected(self, by_turns: Floats) -> Floats:
        """The variance of rounds whose turns alone would make it so large."""
        return self.scale * (self.between + by_turns)


NOTHING = Borrowed()


@dataclass(frozen=True, slots=True)
class PastRounds:
    """The rounds of an earlier run: how many, their variance, and what their turns made of it."""

    rounds: int
    variance: float
    by_turns: float


def learn(past: Sequence[PastRounds]) -> Borrowed:
    """What earlier runs teach: the variance between processes, and how far it can be relied on.

    The more the variances of runs differ from what was to be expected of each, the less they are
    worth; Smyth's moments of their logarithms say how much that is.
    """
    known = [one for one in past if one.rounds > 1 and one.variance > 0 and one.by_turns >= 0]
    if len(known) < FEWEST:
        return NOTHING
    freedom = np.array([one.rounds - 1 for one in known], dtype=np.float64)
    variance = np.array([one.variance for one in known])
    by_turns = np.array([one.by_turns for one in known])
    between = max(0.0, float(np.average(variance - by_turns, weights=freedom)))
    ratio = variance / np.maximum(between + by_turns, 1e-12)
    logs = np.log(ratio) - np.array([_digamma(d / 2) - math.log(d / 2) for d in freedom])
    spread = float(logs.var(ddof=1)) - float(np.mean([_trigamma(d / 2) for d in freedom]))
    worth = MOST_FREEDOM
    if spread > 0:
        worth = min(worth, 2 * _inverse_trigamma(spread))
    scale = math.exp(float(logs.mean()) + _digamma(worth / 2) - math.log(worth / 2))
    return Borrowed(worth, between, scale)


def _digamma(x: float) -> float:
    # The recurrence up to where the asymptotic series is exact enough.
    shift = 0.0
    while x < 8:
        shift -= 1 / x
        x += 1
    y = 1 / x**2
    return shift + math.log(x) - 0.5 / x - y * (1 / 12 - y * (1 / 120 - y / 252))


def _trigamma(x: float) -> float:
    shift = 0.0
    while x < 8:
        shift += 1 / x**2
        x += 1
    y = 1 / x**2
    return shift + 1 / x + 0.5 * y + y / x * (1 / 6 - y * (1 / 30 - y / 42))


def _inverse_trigamma(value: float) -> float:
    low, high = 1e-3, 1e6
    for _ in range(100):  # It falls: halve on a logarithmic scale.
        middle = math.sqrt(low * high)
        low, high = (middle, high) if _trigamma(middle) > value else (low, middle)
    return low

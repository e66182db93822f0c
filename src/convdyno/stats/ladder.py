"""Why is it not faster? The same trial on a ladder of rungs, each with one more part of the input.

The time that a rung adds over the one below it is what that part costs. Shares are of the step with
the whole input; their intervals are over rounds, like every other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from convdyno.stats import t_distribution
from convdyno.stats.rounds import Round, common_rounds

MATTERS = 0.05
"""The share of a step from which on the input counts as the limit."""

Limit = Literal["input", "compute", "undecided"]


@dataclass(frozen=True, slots=True)
class Share:
    """A part of the step, as a share of the whole, with its 95 % interval."""

    share: float
    low: float | None
    high: float | None
    """None with fewer than two rounds."""


@dataclass(frozen=True, slots=True)
class Ladder:
    """What each part costs, from the device upwards, and what limits the whole."""

    compute: Share
    parts: tuple[tuple[str, Share], ...]
    """Each part of the input by name, in the order of the rungs."""
    input: Share
    """All parts of the input together."""
    limit: Limit
    rounds: int

    @property
    def largest(self) -> str:
        """The part of the input that costs most."""
        return max(self.parts, key=lambda part: part[1].share)[0]


def climb(
    bottom: Sequence[Round | None], rungs: Sequence[tuple[str, Sequence[Round | None]]]
) -> Ladder:
    """The ladder from its lowest rung, which only computes, and the others by what each adds.

    All have as many rounds; only rounds in which every rung was measured count.
    """
    sides = [bottom, *(side for _, side in rungs)]
    complete = common_rounds(sides)
    if not complete:
        raise ValueError("no round has every rung of the ladder")
    seconds = np.array([[one.seconds_per_image for one in found] for found in complete])
    shares = np.column_stack([seconds[:, 0], np.diff(seconds, axis=1)]) / seconds[:, -1:]
    whole = _share(1 - shares[:, 0])
    return Ladder(
        compute=_share(shares[:, 0]),
        parts=tuple((name, _share(shares[:, i + 1])) for i, (name, _) in enumerate(rungs)),
        input=whole,
        limit=_limit(whole),
        rounds=len(complete),
    )


def _share(values: npt.NDArray[np.float64]) -> Share:
    mean, rounds = float(values.mean()), len(values)
    if rounds < 2:
        return Share(mean, None, None)
    error = float(values.std(ddof=1)) / math.sqrt(rounds)
    reach = t_distribution.quantile(0.975, rounds - 1) * error
    return Share(mean, mean - reach, mean + reach)


def _limit(whole: Share) -> Limit:
    if whole.low is not None and whole.low > MATTERS:
        return "input"
    if whole.high is not None and whole.high < MATTERS:
        return "compute"
    return "undecided"

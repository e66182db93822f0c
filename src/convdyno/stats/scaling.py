"""What more devices bring: speed-up and efficiency, what the exchange costs, and who is slow.

All is paired by round, like every ratio of one run: in each round the cells were measured one after
the other on the same machines, so what was slow that hour was slow for all of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from convdyno.stats.compare import Comparison, PairedRounds, Unpaired, compare, judged_together
from convdyno.stats.ladder import MATTERS, Ladder, Share, climb
from convdyno.stats.rounds import Round, common_rounds, over_rounds
from convdyno.stats.summary import alpha_after

STRAGGLES = 0.05
"""How much slower than the others a rank must be to be named."""

Limit = Literal["communication", "compute", "undecided"]

_MEDIAN_OF_MANY = math.pi / 2
"""The variance of a median of many, over that of their mean."""


@dataclass(frozen=True, slots=True)
class Speedup:
    """How many times the images/s of one device several have, with its 95 % interval."""

    devices: int
    speedup: float
    low: float | None
    high: float | None
    """None with fewer than two common rounds."""
    rounds: int

    @property
    def efficiency(self) -> Share:
        """The speed-up as a share of the ideal one, which is the number of devices."""
        ends = (None if end is None else end / self.devices for end in (self.low, self.high))
        return Share(self.speedup / self.devices, *ends)

    @property
    def falls_short(self) -> bool:
        """Whether the ideal is missed by more than what matters."""
        high = self.efficiency.high
        return high is not None and high < 1 - MATTERS


@dataclass(frozen=True, slots=True)
class Communication:
    """What it costs that devices train together, as shares of a step."""

    share: Share
    """All of it: 1 - images/s together / images/s of independent devices."""
    exchange: Share
    """The exchange of gradients: all but the waiting."""
    waiting: Share | None
    """For a slow rank, which the others have to wait for; None where none was found."""
    limit: Limit
    """Whether the exchange matters; waiting for a slow rank does not make it so."""
    rounds: int


@dataclass(frozen=True, slots=True)
class RankPace:
    """The rate of one rank over the median of the others', with its interval."""

    ratio: float
    low: float | None
    high: float | None
    """None with fewer than two rounds. The level is what Holm's correction left this rank."""
    straggles: bool

    @property
    def behind(self) -> Share:
        """How much slower it is, as a share of the others' rate."""
        ends = (None if end is None else 1 - end for end in (self.high, self.low))
        return Share(1 - self.ratio, *ends)


def gain(devices: int, many_and_one: PairedRounds | Unpaired, looks: int = 1) -> Speedup | None:
    """The speed-up of many devices over one; None if no round has both.

    For weak and for strong scaling alike: rates are images per second of all devices together. The
    interval is as in `compare`.
    """
    (found,) = compare([many_and_one], looks=looks)
    if found.ratio is None:
        return None
    return Speedup(devices, found.ratio, found.low, found.high, found.rounds)


def communication(
    together: Sequence[Round | None],
    independent: Sequence[Round | None],
    slowest: Sequence[Round | None] | None = None,
) -> Communication | None:
    """What the exchange of gradients costs; None if no round has all that is given.

    `independent` is the same work without exchange. `slowest`, where a straggler was found, is what
    `independent` would have been had all ranks gone at its pace: together they cannot be faster.
    """
    try:
        if slowest is None:
            whole = climb(independent, [("exchange", together)])
            return Communication(whole.input, whole.input, None, _limit(whole), whole.rounds)
        whole = climb(independent, [("waiting", slowest), ("exchange", together)])
        alone = climb(slowest, [("exchange", together)])
    except ValueError:
        return None
    parts = dict(whole.parts)
    return Communication(
        whole.input, parts["exchange"], parts["waiting"], _limit(alone), whole.rounds
    )


def standings(ranks: Sequence[Sequence[Round | None]], looks: int = 1) -> list[RankPace]:
    """Each rank against the others; one sequence of rounds for each rank, in step.

    A round gives the log of a rank's rate over the median of the other ranks' rates; the interval
    is t over rounds, with Holm's correction for as many questions as there are ranks. A rank is a
    straggler if that interval leaves out 1 and its rate is at least STRAGGLES below the others'.

    This is about ranks that go at their own pace. Ranks that exchange gradients wait for each
    other in every step: their times are equal, whoever is slow.
    """
    complete = common_rounds(ranks)
    if len(ranks) < 2 or not complete:
        return []
    rates = np.array([[one.log_rate for one in found] for found in complete])
    noise = np.array([[one.log_rate_variance for one in found] for found in complete])
    others = [np.delete(np.arange(len(ranks)), rank) for rank in range(len(ranks))]
    logs = [rates[:, i] - np.median(rates[:, rest], axis=1) for i, rest in enumerate(others)]
    if len(complete) < 2:
        return [RankPace(math.exp(values[0]), None, None, False) for values in logs]
    of_median = min(1.0, _MEDIAN_OF_MANY / (len(ranks) - 1))
    variances = [
        noise[:, i] + of_median * noise[:, rest].mean(axis=1) for i, rest in enumerate(others)
    ]
    family = [over_rounds(*found) for found in zip(logs, variances, strict=True)]
    return [_pace(one) for one in judged_together(family, alpha_after(0.95, looks))]


def at_the_pace_of(rank: Sequence[Round | None], size: int) -> list[Round | None]:
    """What a group of workers of that size would do if all its ranks were as fast as this one."""
    return [one and replace(one, images=one.images * size) for one in rank]


def _pace(found: Comparison) -> RankPace:
    assert found.ratio is not None
    straggles = found.verdict == "slower" and found.ratio <= 1 - STRAGGLES
    return RankPace(found.ratio, found.low, found.high, straggles)


def _limit(ladder: Ladder) -> Limit:
    return "communication" if ladder.limit == "input" else ladder.limit

"""The blocks of a round, and what several rounds together say about a mean of logarithms.

A process is the statistical unit. The rate of each round is one number, and the spread of these
numbers over rounds gives the error; the blocks inside a round only keep that error from being
taken too small when a few rounds agree by luck.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from convdyno.stats import t_distribution

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Booleans = npt.NDArray[np.bool_]

FLOOR = 0.5
"""The interval is at least this fraction of the one that the blocks alone would give. The whole of
it would cover 98 % instead of 95 % with 3 rounds; see `tests/stats/test_coverage.py`."""

NORMAL_FROM_MAD = 1.4826
_HIGHEST_CORRELATION = 0.9


@dataclass(frozen=True, eq=False)
class Round:
    """The blocks of one cell in one round, in the order in which they were measured."""

    seconds: Floats
    images: Floats
    contaminated: Booleans
    turns: Integers
    """For each block, the turn in which it was measured; cells share the numbering."""

    @classmethod
    def of(
        cls,
        seconds: Sequence[float] | Floats,
        steps: Sequence[int] | Integers | int,
        images_per_step: float,
        contaminated: Sequence[bool] | Booleans | None = None,
        turns: Sequence[int] | Integers | None = None,
    ) -> Round:
        """A round from its block times; without `turns` all blocks belong to one turn."""
        times = np.asarray(seconds, dtype=np.float64)
        blocks = len(times)
        if not blocks:
            raise ValueError("a round has at least one block")
        counts = np.broadcast_to(np.asarray(steps, dtype=np.float64), (blocks,))
        # What is not a number is not above 0, and the sum of what is infinite is too.
        if not (times.min() > 0 and counts.min() > 0 and math.isfinite(float(times.sum()))):
            raise ValueError("block seconds and steps must be positive numbers")
        flags = np.zeros(blocks, dtype=np.bool_) if contaminated is None else contaminated
        numbers = np.zeros(blocks, dtype=np.int64) if turns is None else turns
        made = cls(
            times,
            counts * images_per_step,
            np.asarray(flags, dtype=np.bool_),
            np.asarray(numbers, dtype=np.int64),
        )
        if not len(made.contaminated) == len(made.turns) == blocks:
            raise ValueError("each block has one flag and one turn")
        return made

    @property
    def has_clean_blocks(self) -> bool:
        """Whether any block was measured without disturbance."""
        return int(np.count_nonzero(self.contaminated)) < len(self.contaminated)

    @cached_property
    def used(self) -> Booleans:
        """The blocks that count: the clean ones, or all when none is clean."""
        return ~self.contaminated if self.has_clean_blocks else np.ones_like(self.contaminated)

    @cached_property
    def seconds_per_image(self) -> float:
        """All seconds of the blocks that count divided by all their images."""
        return float(self.seconds[self.used].sum() / self.images[self.used].sum())

    @property
    def log_rate(self) -> float:
        """The logarithm of the images per second of this round."""
        return -math.log(self.seconds_per_image)

    @property
    def log_rate_variance(self) -> float:
        """The variance of `log_rate` as far as the blocks show it; NaN for a single block."""
        return float(mean_variance(self.deviations)[0])

    @property
    def deviations(self) -> Floats:
        """For each block that counts, its seconds relative to what its images should have taken."""
        seconds, images = self.seconds[self.used], self.images[self.used]
        expected: Floats = images * self.seconds_per_image
        return (seconds - expected) / float(seconds.mean())

    @property
    def turn_count(self) -> int:
        """The number of turns with a block that counts."""
        return len(np.unique(self.turns[self.used]))

    @cached_property
    def log_rates_by_turn(self) -> dict[int, float]:
        """The logarithm of the images per second of each turn."""
        seconds, images, turns = self.seconds[self.used], self.images[self.used], self.turns
        numbers, where = np.unique(turns[self.used], return_inverse=True)
        rates = np.bincount(where, images) / np.bincount(where, seconds)
        return dict(zip(numbers.tolist(), np.log(rates).tolist(), strict=True))

    def during(self, turns: Sequence[int]) -> Round:
        """The part of this round that belongs to some of its turns."""
        keep = self.used & np.isin(self.turns, turns)
        return Round(
            self.seconds[keep], self.images[keep], self.contaminated[keep], self.turns[keep]
        )


@dataclass(frozen=True, eq=False)
class Evidence:
    """What rounds say about a mean of logarithms; arrays hold many experiments at once."""

    centre: Floats
    rounds_error: Floats
    """The standard error from the spread over rounds."""
    blocks_error: Floats
    """The standard error that the blocks alone show; 0 where they cannot tell."""
    rounds: int
    freedom: float | None = None
    """Degrees of freedom of `rounds_error`, if not one less than there are rounds."""

    def half_width(self, alpha: float) -> Floats:
        """Half of the interval that misses with probability `alpha`, on the log scale.

        t(R - 1) times the standard error over rounds. It is valid too when some rounds are noisier
        than others (Ibragimov and Mueller 2010, for alpha up to 8 %). It is at least FLOOR times
        the normal quantile times the standard error from blocks.
        """
        over_rounds = t_distribution.quantile(1 - alpha / 2, self._freedom) * self.rounds_error
        by_blocks = FLOOR * t_distribution.normal_quantile(1 - alpha / 2) * self.blocks_error
        return np.maximum(over_rounds, by_blocks)

    def p(self) -> float:
        """The alpha at which the interval of one experiment just reaches zero."""
        over_rounds = t_distribution.two_sided_p(
            _ratio(self.centre, self.rounds_error), self._freedom
        )
        by_blocks = t_distribution.normal_two_sided_p(
            _ratio(self.centre, FLOOR * self.blocks_error)
        )
        return max(over_rounds, by_blocks)

    @property
    def _freedom(self) -> float:
        return self.rounds - 1 if self.freedom is None else self.freedom


def common_rounds(sides: Sequence[Sequence[Round | None]]) -> list[list[Round]]:
    """The rounds that every side has, all sides of one together."""
    found = ([one for one in each if one is not None] for each in zip(*sides, strict=True))
    return [each for each in found if len(each) == len(sides)]


def over_rounds(logs: Floats, variances: Floats) -> Evidence:
    """The evidence of rounds: along the last axis the logarithm of each and its block variance."""
    rounds = logs.shape[-1]
    if rounds < 2:
        raise ValueError("the variation between rounds needs two rounds")
    known = np.where(np.isfinite(variances), variances, 0.0)
    return Evidence(
        centre=logs.mean(axis=-1),
        rounds_error=logs.std(axis=-1, ddof=1) / math.sqrt(rounds),
        blocks_error=np.sqrt(known.sum(axis=-1)) / rounds,
        rounds=rounds,
    )


def mean_variances(series: Sequence[Floats]) -> Floats:
    """The variance of each series' mean, as `mean_variance` has it; of one length all at once."""
    if len({len(values) for values in series}) == 1:
        return mean_variance(np.array(series))[0]
    return np.array([float(mean_variance(values)[0]) for values in series])


def mean_variance(values: Floats) -> tuple[Floats, Floats]:
    """The variance of the mean of an autocorrelated series (last axis), and its effective length.

    With lag-1 correlation r, n values are worth n (1 - r) / (1 + r) independent ones. The usual
    estimate of r is too low by about (1 + 3 r) / n in a short series (Kendall 1954): that is added.
    Negative correlation is not credited. One value gives NaN.
    """
    n = values.shape[-1]
    if n < 2:
        shape = values.shape[:-1]
        return np.full(shape, np.nan), np.ones(shape)
    deviations = values - values.mean(axis=-1, keepdims=True)
    squares = (deviations**2).sum(axis=-1)
    products = (deviations[..., 1:] * deviations[..., :-1]).sum(axis=-1)
    raw = products / np.where(squares > 0, squares, 1.0)
    correlation = np.clip(raw + (1 + 3 * raw) / n, 0.0, _HIGHEST_CORRELATION)
    worth = n * (1 - correlation) / (1 + correlation)
    return squares / (n - 1) / worth, worth


def median_deviation(values: Floats) -> float:
    """The median distance from the median, which of normal values is their standard deviation."""
    return NORMAL_FROM_MAD * float(np.median(np.abs(values - np.median(values))))


def _ratio(value: Floats, error: Floats) -> float:
    # An error of zero decides at once, except when there is nothing to decide.
    if error > 0:
        return float(value / error)
    return math.inf if value != 0 else 0.0

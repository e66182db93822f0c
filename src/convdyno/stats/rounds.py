"""The blocks of a round, and what several rounds together say about a mean of logarithms.

A process is the statistical unit. The rate of each round is one number, and the spread of these
numbers over rounds gives the error; the blocks inside a round only keep that error from being
taken too small when a few rounds agree by luck.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from convdyno.stats import t_distribution
from convdyno.stats.borrowing import NOTHING, Borrowed
from convdyno.stats.series import Floats, Integers, mean_variance, mean_variances
from convdyno.stats.typical import typical, typical_variance

Booleans = npt.NDArray[np.bool_]

FEWEST_CLEAN = 2
"""Undisturbed turns that a round needs, and a quarter of all, before it does without the others."""
FLOOR = 0.5
"""The interval is at least this fraction of the one that the blocks alone would give. The whole of
it would cover 98 % instead of 95 % with 3 rounds; see `tests/stats/test_coverage.py`."""


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
        made = Round(
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
        return float(sum(self.seconds[self.used].tolist()) / sum(self.images[self.used].tolist()))

    @property
    def log_rate(self) -> float:
        """The logarithm of the images per second of this round."""
        return -math.log(self.seconds_per_image)

    @property
    def log_rate_variance(self) -> float:
        """The variance of `log_rate` as far as the blocks show it; NaN for a single block."""
        return float(mean_variance(self.deviations)[0])

    def against(self, other: Round) -> tuple[float, float]:
        """The log of this rate over another's of the same round, and its variance by turns.

        Only turns in which both have a block that counts are used. The variance is NaN with fewer
        than two of them.
        """
        mine, theirs = self.log_rates_by_turn, other.log_rates_by_turn
        common = sorted(mine.keys() & theirs.keys())
        a, b = self, other
        if common and len(common) < max(len(mine), len(theirs)):
            a, b = self.during(common), other.during(common)
        turns = np.array([mine[turn] - theirs[turn] for turn in common])
        return a.log_rate - b.log_rate, float(mean_variance(turns)[0])

    @property
    def deviations(self) -> Floats:
        """For each block that counts, its seconds relative to what its images should have taken."""
        seconds, images = self.seconds[self.used], self.images[self.used]
        expected: Floats = images * self.seconds_per_image
        return (seconds - expected) * (len(seconds) / math.fsum(seconds.tolist()))

    @property
    def turn_count(self) -> int:
        """The number of turns with a block that counts."""
        return len(np.unique(self.turns[self.used]))

    @cached_property
    def log_rates_by_turn(self) -> dict[int, float]:
        """The logarithm of the images per second of each turn."""
        found: dict[int, tuple[float, float]] = {}
        parts = (part[self.used].tolist() for part in (self.turns, self.seconds, self.images))
        for turn, seconds, images in zip(*parts, strict=True):
            before = found.get(turn, (0.0, 0.0))
            found[turn] = before[0] + seconds, before[1] + images
        return {turn: math.log(images / seconds) for turn, (seconds, images) in found.items()}

    def during(self, turns: Sequence[int]) -> Round:
        """The part of this round that belongs to some of its turns."""
        keep = self.used & np.isin(self.turns, turns)
        return Round(
            self.seconds[keep], self.images[keep], self.contaminated[keep], self.turns[keep]
        )


@dataclass(frozen=True, eq=False)
class TypicalRound(Round):
    """A round by its typical turn, without what others have cost it.

    What is known to have disturbed a block is taken off its time (see `delays`). Turns that were
    contaminated are left out while enough others are left, and the rest is put together so that a
    turn that is odd all the same hardly counts (see `typical`). So it says how fast the cell
    typically is when it has its cores, not how much was done in all that time.
    """

    delays: Floats

    @property
    def has_clean_blocks(self) -> bool:
        """Whether enough turns were undisturbed to leave the others out."""
        return bool(self.used.any()) and not bool((self.used & self.contaminated).any())

    @cached_property
    def used(self) -> Booleans:
        """The blocks of the turns that count."""
        return np.isin(self.turns, self._counting(self.log_rates_by_turn.keys()))

    @cached_property
    def log_rates_by_turn(self) -> dict[int, float]:
        """The logarithm of the images per second of each turn, disturbed or not."""
        numbers, where = np.unique(self.turns, return_inverse=True)
        seconds = np.bincount(where, self.seconds - self.delays)
        rates = np.bincount(where, self.images) / seconds
        return dict(zip(numbers.tolist(), np.log(rates).tolist(), strict=True))

    @cached_property
    def seconds_per_image(self) -> float:
        """Of the typical turn."""
        return math.exp(-typical(self._by_turn))

    @property
    def log_rate_variance(self) -> float:
        """The variance of `log_rate` as far as turns show it; NaN for a single turn."""
        return typical_variance(self._by_turn)

    def against(self, other: Round) -> tuple[float, float]:
        """The typical log ratio of the turns that both had, and its variance."""
        mine, theirs = self.log_rates_by_turn, other.log_rates_by_turn
        common = sorted(mine.keys() & theirs.keys())
        disturbed = other._disturbed if isinstance(other, TypicalRound) else frozenset[int]()
        turns = self._counting(common, disturbed)
        if not turns:
            return self.log_rate - other.log_rate, math.nan
        logs = np.array([mine[turn] - theirs[turn] for turn in turns])
        return typical(logs), typical_variance(logs)

    @cached_property
    def _disturbed(self) -> frozenset[int]:
        return frozenset(self.turns[self.contaminated].tolist())

    @property
    def _by_turn(self) -> Floats:
        logs = self.log_rates_by_turn
        return np.array([logs[turn] for turn in self._counting(logs)])

    def _counting(
        self, turns: Collection[int], disturbed: frozenset[int] = frozenset()
    ) -> list[int]:
        """Of some turns those that nobody disturbed, if they are enough; else all."""
        clean = [turn for turn in turns if turn not in self._disturbed | disturbed]
        return clean if len(clean) >= max(FEWEST_CLEAN, len(turns) / 4) else list(turns)


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


def over_rounds(logs: Floats, variances: Floats, borrowed: Borrowed = NOTHING) -> Evidence:
    """The evidence of rounds: along the last axis the logarithm of each and its block variance.

    What is known of the variance beforehand counts as some more rounds; see `borrowing`.
    """
    rounds = logs.shape[-1]
    if rounds < 2:
        raise ValueError("the variation between rounds needs two rounds")
    known = np.where(np.isfinite(variances), variances, 0.0)
    freedom = rounds - 1 + borrowed.freedom
    seen = logs.var(axis=-1, ddof=1) * (rounds - 1)
    before = borrowed.freedom * borrowed.expected(known.mean(axis=-1))
    return Evidence(
        centre=logs.mean(axis=-1),
        rounds_error=np.sqrt((seen + before) / freedom / rounds),
        blocks_error=np.sqrt(known.sum(axis=-1)) / rounds,
        rounds=rounds,
        freedom=freedom,
    )


def variances_of(rounds: Sequence[Round]) -> Floats:
    """The variance of each round's rate as its blocks or turns show it."""
    if any(isinstance(one, TypicalRound) for one in rounds):
        return np.array([one.log_rate_variance for one in rounds])
    return mean_variances([one.deviations for one in rounds])


def _ratio(value: Floats, error: Floats) -> float:
    # An error of zero decides at once, except when there is nothing to decide.
    if error > 0:
        return float(value / error)
    return math.inf if value != 0 else 0.0

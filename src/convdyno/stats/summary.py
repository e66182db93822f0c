"""The headline of one cell: images per second, its interval, and the fields of older tools."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from convdyno.stats import t_distribution
from convdyno.stats.borrowing import NOTHING, Borrowed
from convdyno.stats.rounds import Round, over_rounds, variances_of
from convdyno.stats.series import Floats, Integers, mean_variance, median_deviation

ROUNDS = "rounds"
ROUNDS_AND_BLOCKS = "rounds, widened to what their blocks show"
ONE_PROCESS = "blocks of one process"
ONE_BLOCK = "one block"

PEEKING = 0.5
"""The fraction of alpha that is left when the rounds were ended by looking at their interval."""

MINIMUM_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Interval:
    """Images per second with the interval that holds the true value in 95 % of experiments."""

    estimate: float
    low: float | None
    """None when there was only one block, which shows no variation."""
    high: float | None
    level: float
    rounds: int
    basis: str
    """What the interval comes from: rounds, or only the blocks of one process."""
    blocks: int
    """The blocks that the estimate uses."""
    left_out: int
    """Contaminated blocks that it does not use."""
    dirty_rounds: int
    """Rounds without a clean block, used as they are."""
    mean: float
    """All images over all seconds of all blocks, disturbed or not."""

    @property
    def half_width(self) -> float:
        """The relative distance from the estimate to the upper end; infinite without interval."""
        return math.inf if self.high is None else self.high / self.estimate - 1


@dataclass(frozen=True, slots=True)
class Legacy:
    """The fields of older tools; None where there are too few blocks."""

    mean_time_per_step: float | None
    mean_speed: float | None
    speed_uncertainty: float | None
    speed_jitter: float | None


@dataclass(frozen=True, slots=True)
class Latency:
    """Quantiles of step times; None where there are too few steps to have one beyond it."""

    steps: int
    p50_seconds: float | None
    p90_seconds: float | None
    p99_seconds: float | None


def rate(seconds: Sequence[float] | Floats, images: Sequence[float] | Floats) -> float:
    """All images divided by all seconds; never the mean of rates, which is always larger."""
    return float(np.sum(images) / np.sum(seconds))


def interval(
    rounds: Sequence[Round], level: float = 0.95, looks: int = 1, borrowed: Borrowed = NOTHING
) -> Interval:
    """The headline of one cell and its interval.

    Each round is one process and counts once: the estimate is the reciprocal of the mean over
    rounds of seconds per image. With as many images in each round that is all images divided by
    all seconds.

    The interval lies symmetrically around it on the log scale; see `Evidence.half_width`. One
    round says nothing about the next process: its interval comes from its blocks, and its `basis`
    says so.

    `looks` is how often `precise_enough` was asked when its yes ended the experiment, and 1 when
    something else did (a fixed number of rounds, the budget). A run that stops when its spread
    looks small stops too often on luck: after more than one look only PEEKING of alpha is left, so
    that the interval still holds the truth in about 95 %. `borrowed` is what is known beforehand of
    how much such rounds vary.
    """
    if not rounds:
        raise ValueError("no round was measured")
    seconds_per_image = sum(r.seconds_per_image for r in rounds) / len(rounds)
    half, basis = _half_width(rounds, alpha_after(level, looks), borrowed)
    estimate = 1 / seconds_per_image
    used = sum(int(np.count_nonzero(r.used)) for r in rounds)
    return Interval(
        estimate=estimate,
        low=None if half is None else estimate * math.exp(-half),
        high=None if half is None else estimate * math.exp(half),
        level=level,
        rounds=len(rounds),
        basis=basis,
        blocks=used,
        left_out=sum(len(r.seconds) for r in rounds) - used,
        dirty_rounds=sum(not r.has_clean_blocks for r in rounds),
        mean=rate([r.seconds.sum() for r in rounds], [r.images.sum() for r in rounds]),
    )


def precise_enough(
    rounds: Sequence[Round],
    within: float,
    level: float = 0.95,
    minimum_rounds: int = MINIMUM_ROUNDS,
    borrowed: Borrowed = NOTHING,
) -> bool:
    """Whether a cell needs no more rounds: its half width is at most `within`, 0.03 is 3 %.

    It is asked for every cell after each round, and the experiment ends when all say yes. The half
    width that must be small enough is always the one after more than one look (see `interval`), so
    three rounds that agree by luck seldom end an experiment. The question is about cells, never
    about a comparison or its verdict: to stop on these would find differences that are not there.
    """
    if math.isinf(within):
        return len(rounds) >= minimum_rounds
    enough = len(rounds) >= max(2, minimum_rounds)
    return enough and interval(rounds, level, 2, borrowed).half_width <= within


def alpha_after(level: float, looks: int) -> float:
    """How often an interval may miss so that, after that many looks, it has its level."""
    if not 0 < level < 1:
        raise ValueError(f"a level must be between 0 and 1, not {level}")
    return (1 - level) * (PEEKING if looks > 1 else 1.0)


def legacy(
    seconds: Sequence[float] | Floats,
    steps: Sequence[int] | Integers,
    images_per_step: float,
) -> Legacy:
    """The older tools' fields from block times; blocks of one step give their exact formulas."""
    times, counts = np.asarray(seconds, dtype=np.float64), np.asarray(steps, dtype=np.float64)
    n = len(times)
    if n == 0:
        return Legacy(None, None, None, None)
    mean_seconds = float(times.sum() / counts.sum())
    speeds = images_per_step * counts / times
    return Legacy(
        mean_time_per_step=mean_seconds,
        mean_speed=images_per_step / mean_seconds,
        speed_uncertainty=float(speeds.std(ddof=1) / math.sqrt(n)) if n > 1 else None,
        speed_jitter=median_deviation(speeds) if n > 1 else None,
    )


def latency(step_seconds: Sequence[float] | Floats) -> Latency:
    """The median, 90 % and 99 % quantile of step times."""
    times = np.asarray(step_seconds, dtype=np.float64)

    def at(percent: int) -> float | None:
        steps_beyond = len(times) * (100 - percent) / 100
        return float(np.percentile(times, percent)) if steps_beyond >= 1 else None

    return Latency(len(times), at(50), at(90), at(99))


def _half_width(
    rounds: Sequence[Round], alpha: float, borrowed: Borrowed
) -> tuple[float | None, str]:
    if len(rounds) == 1:
        variance, worth = mean_variance(rounds[0].deviations)
        if math.isnan(variance):
            return None, ONE_BLOCK
        t = t_distribution.quantile(1 - alpha / 2, max(1.0, float(worth) - 1))
        return t * math.sqrt(variance), ONE_PROCESS
    logs = np.array([r.log_rate for r in rounds])
    evidence = over_rounds(logs, variances_of(rounds), borrowed)
    half = float(evidence.half_width(alpha))
    t = t_distribution.quantile(1 - alpha / 2, evidence.freedom or evidence.rounds - 1)
    return half, ROUNDS if half <= t * float(evidence.rounds_error) else ROUNDS_AND_BLOCKS

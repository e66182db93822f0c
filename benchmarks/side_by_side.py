"""Two ways of doing the same step, raced in alternation."""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from convdyno.stats import t_distribution

BLOCK_SECONDS = 0.3


@dataclass(frozen=True)
class Ratio:
    """How many times as fast the first is, with a 95 % interval over alternations."""

    ratio: float
    low: float
    high: float
    alternations: int

    def __str__(self) -> str:
        return (
            f"{self.ratio:.3f} [{self.low:.3f}, {self.high:.3f}] ({self.alternations} alternations)"
        )


def race(a: Callable[[], object], b: Callable[[], object], seconds: float) -> Ratio:
    """The ratio of rates from ABBA alternations of equal numbers of steps."""
    for step in (a, b, a, b):
        step()
    single = min(_time(step, 2) / 2 for step in (a, b))
    steps = max(1, math.ceil(BLOCK_SECONDS / single))
    logs: list[float] = []
    end = time.perf_counter() + seconds
    gc.collect()
    gc.disable()
    while time.perf_counter() < end or len(logs) < 3:
        a1, b1, b2, a2 = (_time(step, steps) for step in (a, b, b, a))
        logs.append(math.log((b1 + b2) / (a1 + a2)))
    gc.enable()
    mean, error = float(np.mean(logs)), float(np.std(logs, ddof=1)) / math.sqrt(len(logs))
    reach = t_distribution.quantile(0.975, len(logs) - 1) * error
    return Ratio(math.exp(mean), math.exp(mean - reach), math.exp(mean + reach), len(logs))


def _time(step: Callable[[], object], steps: int) -> float:
    start = time.perf_counter()
    for _ in range(steps):
        step()
    return time.perf_counter() - start

"""When is a process warm? When its last window of blocks is no faster than the window before it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from convdyno.stats.series import Floats, median_deviation

_MEDIAN_PENALTY = 1.2533
"""The standard error of a median over that of a mean."""
_SHARE = 0.3
"""A window is also this share of the blocks so far: a slow drift shows only in a long look."""


@dataclass(slots=True)
class Steady:
    """Watches the rates of warm-up blocks one by one and says when they have settled.

    A window is at least `window` blocks, `window_seconds`, and 30 % of the blocks so far: a few
    blocks when a block is one long step, more when blocks are short or the rate settles slowly.
    A process that warms up becomes faster. It is warm when the median of a window is above that of
    the window before it by at most `tolerance`, or by no more than two standard errors of such a
    difference; the error comes from the jumps between successive blocks, so a drift is not taken
    for noise. Medians make one odd block harmless. Becoming slower is somebody else's doing, and
    nothing to wait for; a gain that is smaller than the noise cannot be seen.
    """

    window: int = 3
    window_seconds: float = 1.0
    tolerance: float = 0.02
    minimum_seconds: float = 3.0
    maximum_seconds: float = 60.0
    reached: bool = field(default=False, init=False)
    """Whether the rate has settled."""
    seconds: float = field(default=0.0, init=False)
    """The time of the blocks so far."""
    _logs: list[float] = field(default_factory=list, init=False)
    _lengths: list[float] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        if self.window < 1 or self.tolerance <= 0 or self.maximum_seconds <= 0:
            raise ValueError("window, tolerance and maximum_seconds must be positive")

    def add(self, rate: float, seconds: float) -> bool:
        """Take one block, in any unit of rate; True when the warm-up is over, steady or not."""
        self._logs.append(math.log(rate))
        self._lengths.append(seconds)
        self.seconds += seconds
        old_enough = self.seconds >= min(self.minimum_seconds, self.maximum_seconds)
        self.reached = old_enough and self._windows_agree()
        return self.over

    @property
    def over(self) -> bool:
        """Whether to stop warming up: the rate has settled, or the time for it is used up."""
        return self.reached or self.seconds >= self.maximum_seconds

    @property
    def blocks(self) -> int:
        """The number of blocks so far."""
        return len(self._logs)

    def _windows_agree(self) -> bool:
        size = self._window_blocks()
        if 2 * size > self.blocks:
            return False
        logs = np.array(self._logs[-2 * size :])
        gain = float(np.median(logs[size:]) - np.median(logs[:size]))
        return gain <= max(math.log1p(self.tolerance), 2 * _median_shift_error(logs, size))

    def _window_blocks(self) -> int:
        # The fewest last blocks that are enough in number and in time.
        size = max(self.window, math.ceil(_SHARE * self.blocks))
        while size < self.blocks and sum(self._lengths[-size:]) < self.window_seconds:
            size += 1
        return size


def _median_shift_error(logs: Floats, size: int) -> float:
    block_noise = median_deviation(np.diff(logs)) / math.sqrt(2)
    return block_noise * _MEDIAN_PENALTY * math.sqrt(2 / size) if size > 1 else 0.0

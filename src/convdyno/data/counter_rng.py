"""Random numbers that depend on seed, epoch and example alone, not on threads or ranks.

SplitMix64 (Steele, Lea and Flood 2014) is a hash of a counter: number k of an example is the same
whether it is drawn alone or for a whole batch at once.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_STEP = 0x9E3779B97F4A7C15
_FIRST, _SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_ALL = (1 << 64) - 1
_UNIT = 2.0**-53


def _mix(z: int) -> int:
    z = (z ^ (z >> 30)) * _FIRST & _ALL
    z = (z ^ (z >> 27)) * _SECOND & _ALL
    return z ^ (z >> 31)


def _mix_all(z: NDArray[np.uint64]) -> NDArray[np.uint64]:
    z = (z ^ (z >> np.uint64(30))) * np.uint64(_FIRST)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(_SECOND)
    return z ^ (z >> np.uint64(31))


class Dice:
    """The numbers of one example, drawn one after another."""

    __slots__ = ("_state",)

    def __init__(self, seed: int, epoch: int, example: int) -> None:
        self._state = _mix((_key(seed, epoch) + example * _STEP) & _ALL)

    def uniform(self, low: float = 0.0, high: float = 1.0) -> float:
        """A number from low up to, but not including, high."""
        self._state = (self._state + _STEP) & _ALL
        return low + (high - low) * ((_mix(self._state) >> 11) * _UNIT)

    def below(self, end: int) -> int:
        """A whole number from 0 up to, but not including, end."""
        return int(self.uniform() * end)


def uniforms(seed: int, epoch: int, examples: NDArray[np.int64], count: int) -> NDArray[np.float64]:
    """The first numbers of many examples, a row each."""
    counters = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(_STEP)
    states = _states(seed, epoch, examples)[:, None] + counters
    return (_mix_all(states) >> np.uint64(11)).astype(np.float64) * _UNIT


def shuffled(seed: int, epoch: int, count: int) -> NDArray[np.int64]:
    """The order of an epoch: every example once."""
    keys = _states(seed ^ 0x0DDE5, epoch, np.arange(count, dtype=np.int64))
    return np.argsort(keys, kind="stable").astype(np.int64, copy=False)


def _key(seed: int, epoch: int) -> int:
    return _mix((_mix((seed + _STEP) & _ALL) + epoch * _STEP) & _ALL)


def _states(seed: int, epoch: int, examples: NDArray[np.int64]) -> NDArray[np.uint64]:
    first = np.uint64(_key(seed, epoch))
    return _mix_all(first + examples.astype(np.uint64) * np.uint64(_STEP))

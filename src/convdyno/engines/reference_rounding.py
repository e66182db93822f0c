"""The numbers in which the oracle computes: exactly, or rounded as engines round.

What an engine may be off by is not guessed: the oracle computes the same thing once more in float32
or half precision, in several orders of summation, and sees how far it comes out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convdyno.engines.contract import Numbers

ROUNDING = 2.0**-24
COARSE = 30.0
"""How many times the errors of float32 coarse ones are."""
MANTISSA = {"tf32": 10, "bf16": 7}
"""Bits after the point of what float32 arithmetic is given; the exponent stays float32's."""


@dataclass(frozen=True)
class Arithmetic:
    """In what numbers, and in which order, the oracle computes."""

    numbers: Numbers = "exact"
    backwards: bool = False
    """Whether sums over channels run from the last to the first."""
    coarse: np.random.Generator | None = field(default=None, compare=False)
    """What draws errors many times those of float32, if there are to be any."""
    by_squares: bool = False
    """Whether a variance is the mean of squares less the square of the mean."""

    @property
    def dtype(self) -> type[np.floating[Any]]:
        """What sums are kept in."""
        return np.float64 if self.numbers == "exact" else np.float32

    @property
    def halves(self) -> bool:
        """Whether values are rounded further on their way from op to op."""
        return self.numbers in ("bf16", "fp16")

    def number(self, x: Any) -> NDArray[Any]:
        """An array in the numbers of sums: weights of norms, scores, losses."""
        return np.asarray(x, self.dtype)

    def operand(self, x: Any) -> NDArray[Any]:
        """An array as a product or the next op gets it."""
        found = self.number(x)
        if self.numbers == "fp16":
            return found.astype(np.float16).astype(np.float32)
        return _short(found, MANTISSA[self.numbers]) if self.numbers in MANTISSA else found

    def between(self, x: Any) -> NDArray[Any]:
        """An array on its way from op to op."""
        return self.operand(x) if self.halves else self.number(x)

    def result(self, x: Any) -> NDArray[Any]:
        """What an op has computed, on its way to the next."""
        found = self.between(x)
        if self.coarse is None:
            return found
        errors = self.coarse.random(found.shape, np.float32) * 2 - 1
        coarse: NDArray[Any] = found * (1 + np.float32(COARSE * ROUNDING) * errors)
        return coarse


EXACT = Arithmetic()


def _short(x: NDArray[Any], bits: int) -> NDArray[Any]:
    """float32 rounded to the nearest with so many bits after the point."""
    drop = 23 - bits
    word = np.ascontiguousarray(x, np.float32).view(np.uint32)
    odd = (word >> drop) & 1
    rounded = ((word + ((1 << (drop - 1)) - 1) + odd) >> drop) << drop
    return rounded.astype(np.uint32).view(np.float32)

"""How far an engine may be from what is right: what rounding was seen to do, times a factor.

Every tensor has a limit of its own. The oracle has computed it in float64, and again as engines do
(float32 or half precision, several orders of summation); the largest distance between the two,
times a factor, is the limit. Where a value is so near a kink that engines may differ about it, that
is too rare to be seen so; there errors that are as coarse as the limit show what it does. A tensor
that by luck came out better than most of its kind gets what most get, and none less than a floor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

FACTOR = {"fp32": 30.0, "tf32": 4.0, "bf16": 4.0, "fp16": 4.0}
"""By which rounding may exceed what the oracle saw; kernels sum in ways that NumPy does not."""
COARSE_FACTOR = 2.0
"""By which it may exceed what coarse errors did, which are as large as limits already."""
SQUARES_FACTOR = 4.0
"""By which it may exceed what variances by squares did: Keras has them so, and is not wrong."""
LOSS_SHARE = 0.1
"""Of what rounding does to the usual gradient, a loss is given at least this."""
FLOOR = 1e-6
"""Of a tensor's own norm: some roundings of float32."""

Arrays = Mapping[str, NDArray[np.floating]]


def limits(
    truth: Arrays,
    rounded: Sequence[Arrays],
    coarse: Sequence[Arrays],
    by_squares: Arrays,
    precision: str,
) -> dict[str, float]:
    """The largest norm of a difference that passes, by tensor."""
    sizes = {name: norm(array) for name, array in truth.items()}
    off = {
        name: max(
            *(FACTOR[precision] * norm(sample[name] - array) for sample in rounded),
            *(COARSE_FACTOR * norm(sample[name] - array) for sample in coarse),
            SQUARES_FACTOR * norm(by_squares[name] - array),
        )
        for name, array in truth.items()
    }
    shares: dict[str, list[float]] = {}
    for name, size in sizes.items():
        if size > 0:
            shares.setdefault(_kind(name), []).append(off[name] / size)
    usual = {kind: float(np.median(found)) for kind, found in shares.items()}
    # There is one loss, and it is one number: more than any other it can be right by luck.
    usual["loss"] = max(usual.get("loss", 0.0), LOSS_SHARE * usual.get("gradient", 0.0))
    return {
        name: max(off[name], usual.get(_kind(name), 0.0) * size, FLOOR * size)
        for name, size in sizes.items()
    }


def _kind(name: str) -> str:
    return name.partition("/")[0]


def norm(array: NDArray[np.floating]) -> float:
    """Of all numbers together, in float64."""
    return float(np.sqrt(np.square(array, dtype=np.float64).sum()))


def condition(right: Arrays) -> float:
    """How far the usual gradient may be off, as a share of itself; 0 where there is none."""
    shares = [
        float(right[f"limit/{name}"][0]) / norm(array)
        for name, array in right.items()
        if name.startswith("gradient/") and norm(array)
    ]
    return float(np.median(shares)) if shares else 0.0

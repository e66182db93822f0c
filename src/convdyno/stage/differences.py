"""An engine's evidence beside what is right: tensor by tensor, each within a limit of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from convdyno.store.certificate import Finding

Arrays = Mapping[str, NDArray[np.floating]]
LIMIT = "limit/"
UNSEEN = 0.05
"""A tensor that may be off by this share of itself proves nothing."""


@dataclass(frozen=True)
class Difference:
    """How far one tensor of an engine is from what is right."""

    kind: str
    """forward, loss, gradient, memory, update, statistics, average or dropout."""
    tensor: str
    distance: float
    """Relative to the tensor's own norm."""
    tolerance: float

    @property
    def passed(self) -> bool:
        """Whether it is within its limit; what is not a number is not."""
        return self.distance <= self.tolerance

    @property
    def ratio(self) -> float:
        """The distance as a share of the limit; infinite where it is not a number."""
        if not np.isfinite(self.distance):
            return float("inf")
        return self.distance / self.tolerance if self.tolerance else float("inf")


def differences(found: Arrays, expected: Arrays) -> list[Difference]:
    """Every tensor of the evidence; one that is missing or of another shape is infinitely off.

    What an engine was not asked for, because its answer was to be brief, is left out.
    """
    kinds = {name.partition("/")[0] for name in found}
    rows = []
    for name, array in expected.items():
        kind, _, tensor = name.partition("/")
        if name.startswith(LIMIT) or kind not in kinds:
            continue
        limit, size = float(expected[LIMIT + name][0]), _norm(array)
        scale = size or limit or 1.0
        mine = found.get(name)
        off = float("inf")
        if mine is not None and mine.shape == array.shape:
            off = _norm(mine - array) / scale
        rows.append(Difference(kind, tensor, off, limit / scale))
    return rows


def findings(rows: list[Difference]) -> tuple[Finding, ...]:
    """For each kind of evidence the tensor that is worst."""
    worst: dict[str, Difference] = {}
    for row in rows:
        if row.kind not in worst or row.ratio > worst[row.kind].ratio:
            worst[row.kind] = row
    return tuple(
        Finding(kind=row.kind, distance=row.distance, tolerance=row.tolerance, where=row.tensor)
        for row in worst.values()
    )


def unseen(expected: Arrays) -> list[str]:
    """Tensors whose limit is so wide that nothing about them is proven."""
    return [
        name
        for name, array in expected.items()
        if not name.startswith((LIMIT, "dropout/"))
        and float(expected[LIMIT + name][0]) > UNSEEN * _norm(array)
    ]


def _norm(array: NDArray[np.floating]) -> float:
    return float(np.sqrt(np.square(array, dtype=np.float64).sum()))

"""Axes with several values make cells: the cross product, in the order given."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from convdyno.trial.spec import Trial, make_trial


def expand(axes: Mapping[str, Sequence[object]]) -> list[Trial]:
    """One trial for each combination of the axes' values; the last axis changes fastest."""
    return [
        make_trial(**dict(zip(axes, values, strict=True)))
        for values in itertools.product(*axes.values())
    ]

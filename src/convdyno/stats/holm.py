"""Several ratios judged together: of cells that took turns, and of cells that did not."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from convdyno.stats.compare import (
    Comparison,
    PairedRounds,
    judged_together,
    paired_evidence,
    untested_pair,
)
from convdyno.stats.rounds import Evidence, Round
from convdyno.stats.summary import alpha_after


@dataclass(frozen=True, eq=False)
class Unpaired:
    """Two cells that were measured at different times."""

    a: Sequence[Round]
    b: Sequence[Round]


def judge_family(
    family: Sequence[PairedRounds | Unpaired],
    delta: float = 0.01,
    level: float = 0.95,
    looks: int = 1,
) -> list[Comparison]:
    """Compare each pair, all of them as one family; see `compare`.

    Rounds of different times have Welch's t over both. How the machine has drifted between the two
    is not in the interval.
    """
    return judged_together([_evidence(pair) for pair in family], alpha_after(level, looks), delta)


def _evidence(pair: PairedRounds | Unpaired) -> Evidence | Comparison:
    if isinstance(pair, PairedRounds):
        common = pair.complete()
        return paired_evidence(common) or untested_pair(common)
    return _unpaired(pair)


def _unpaired(pair: Unpaired) -> Evidence | Comparison:
    if not pair.a or not pair.b:
        return Comparison(None, None, None, None, None, "undecided", 0, "one side has no round")
    sides = [np.array([r.log_rate for r in rounds]) for rounds in (pair.a, pair.b)]
    centre, rounds = sides[0].mean() - sides[1].mean(), min(map(len, sides))
    if rounds < 2:
        reason = "one side has a single round: how much processes differ was not seen"
        return Comparison(math.exp(centre), None, None, None, None, "undecided", rounds, reason)
    parts = [float(side.var(ddof=1)) / len(side) for side in sides]
    squares = sum(part**2 / (len(side) - 1) for part, side in zip(parts, sides, strict=True))
    blocks = [np.array([r.log_rate_variance for r in side]) for side in (pair.a, pair.b)]
    return Evidence(
        centre=centre,
        rounds_error=np.sqrt(sum(parts)),
        blocks_error=np.sqrt(sum(float(np.nansum(v)) / len(v) ** 2 for v in blocks)),
        rounds=rounds,
        freedom=sum(parts) ** 2 / squares if squares else None,
    )

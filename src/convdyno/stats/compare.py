"""Is A faster than B? Ratios of rates, and verdicts that agree with the intervals shown."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from convdyno.stats import t_distribution
from convdyno.stats.borrowing import NOTHING, Borrowed
from convdyno.stats.rounds import Evidence, Round, common_rounds, over_rounds
from convdyno.stats.series import Floats
from convdyno.stats.summary import alpha_after

Verdict = Literal["faster", "slower", "equivalent", "undecided"]


@dataclass(frozen=True, slots=True)
class Comparison:
    """The ratio of A's rate to B's, its interval, and what may be said about it."""

    ratio: float | None = None
    """None when no round has both cells."""
    low: float | None = None
    high: float | None = None
    level: float | None = None
    """The level of this very interval: 1 - level is this comparison's share of the family's."""
    p: float | None = None
    """For no difference, of this comparison alone; the interval leaves out 1 if p < 1 - level."""
    verdict: Verdict = "undecided"
    rounds: int = 0
    reason: str = ""
    """Why there is no interval."""


@dataclass(frozen=True, eq=False)
class PairedRounds:
    """Two cells measured in the same rounds; None where a cell has no blocks in a round."""

    a: Sequence[Round | None]
    b: Sequence[Round | None]
    borrowed: Borrowed = NOTHING
    """What is known beforehand of how much such ratios vary."""

    def complete(self) -> list[list[Round]]:
        """The rounds in which both cells were measured."""
        return common_rounds([self.a, self.b])

    def evidence(self) -> Evidence | Comparison:
        """What the common rounds say about the log of the ratio; of fewer than two a number."""
        rounds = self.complete()
        if not rounds:
            return Comparison(reason="no round has both cells")
        logs, variances = zip(*(a.against(b) for a, b in rounds), strict=True)
        if len(rounds) < 2:
            reason = "one round has both cells: how much processes differ was not seen"
            return Comparison(math.exp(logs[0]), rounds=1, reason=reason)
        return over_rounds(np.array(logs), np.array(variances), self.borrowed)


@dataclass(frozen=True, eq=False)
class Unpaired:
    """Two cells that were measured at different times."""

    a: Sequence[Round]
    b: Sequence[Round]

    def evidence(self) -> Evidence | Comparison:
        """The same by Welch's t over both.

        How the machine has drifted between the two is not in the interval.
        """
        if not self.a or not self.b:
            return Comparison(reason="one side has no round")
        sides = [np.array([r.log_rate for r in rounds]) for rounds in (self.a, self.b)]
        centre, rounds = sides[0].mean() - sides[1].mean(), min(map(len, sides))
        if rounds < 2:
            reason = "one side has a single round: how much processes differ was not seen"
            return Comparison(math.exp(centre), rounds=rounds, reason=reason)
        parts = [float(side.var(ddof=1)) / len(side) for side in sides]
        squares = sum(part**2 / (len(side) - 1) for part, side in zip(parts, sides, strict=True))
        blocks = [np.array([r.log_rate_variance for r in side]) for side in (self.a, self.b)]
        return Evidence(
            centre=centre,
            rounds_error=np.sqrt(sum(parts)),
            blocks_error=np.sqrt(sum(float(np.nansum(v)) / len(v) ** 2 for v in blocks)),
            rounds=rounds,
            freedom=sum(parts) ** 2 / squares if squares else None,
        )


def compare(
    pairs: Sequence[PairedRounds | Unpaired],
    delta: float = 0.01,
    level: float = 0.95,
    looks: int = 1,
) -> list[Comparison]:
    """Compare each pair, all of them as one family.

    One round gives one log ratio, from the turns that both cells had in it; the interval is t over
    rounds (see `Evidence.half_width`). p is the alpha at which that interval just reaches 1.

    Holm's correction for m comparisons: sort by p and give the smallest alpha / m, the next
    alpha / (m - 1), and so on as long as p is at most what it is given; the first that is not, and
    all after it, get what that first one was given. Each interval is shown at the level 1 minus its
    share. So an interval leaves out 1 exactly when Holm rejects "no difference", and interval and
    verdict cannot disagree. When nothing differs, any pair at all is called faster or slower in at
    most alpha of the experiments.

    An interval inside 1 / (1 + delta) to 1 + delta is "equivalent", also when it leaves out 1. A
    pair that differs by delta or more is wrongly called so in at most half of its own share; Holm's
    promise for the family is about faster and slower only.

    Pairs with fewer than two common rounds are undecided and not counted in m. `looks` is as in
    `summary.interval`.
    """
    return judged_together([pair.evidence() for pair in pairs], alpha_after(level, looks), delta)


def judged_together(
    family: Sequence[Evidence | Comparison], alpha: float, delta: float = 0.01
) -> list[Comparison]:
    """Judge what there is evidence of as one family; what was not tested stays as it is."""
    shares = iter(_holm_shares([one for one in family if isinstance(one, Evidence)], alpha))
    return [
        _judged(one, *next(shares), delta) if isinstance(one, Evidence) else one for one in family
    ]


def verdict(low: float, high: float, delta: float = 0.01) -> Verdict:
    """What an interval of a ratio allows to say."""
    if 1 / (1 + delta) <= low and high <= 1 + delta:
        return "equivalent"
    if low > 1:
        return "faster"
    return "slower" if high < 1 else "undecided"


def noise_floor(
    log_ratios: Sequence[float] | Floats,
    level: float = 0.95,
    power: float = 0.8,
    rounds: int | None = None,
) -> float:
    """The smallest relative difference that such an experiment finds with probability `power`.

    The log ratios are those of rounds in which the same trial was run as two cells. Their true
    value is 0, so their spread is taken around 0: a bias of the order counts as noise. One round
    cannot resolve anything: the floor is infinite. `rounds` is for an experiment of another length.
    """
    ratios = np.asarray(log_ratios, dtype=np.float64)
    rounds = len(ratios) if rounds is None else rounds
    if len(ratios) < 2 or rounds < 2:
        return math.inf
    error = math.sqrt(float(np.mean(ratios**2)) / rounds)
    needed = sum(t_distribution.quantile(p, rounds - 1) for p in ((1 + level) / 2, power))
    return math.expm1(needed * error)


def _holm_shares(family: Sequence[Evidence], alpha: float) -> list[tuple[float, float]]:
    """Of each of a family its p, and the part of alpha at which it is judged and shown."""
    shares = [0.0] * len(family)
    share, going_on = 0.0, True
    p_values = [found.p() for found in family]
    for place, i in enumerate(sorted(range(len(family)), key=p_values.__getitem__)):
        if going_on:
            share = alpha / (len(family) - place)
            going_on = bool(abs(family[i].centre) > family[i].half_width(share))
        shares[i] = share
    return list(zip(p_values, shares, strict=True))


def _judged(found: Evidence, p: float, share: float, delta: float) -> Comparison:
    """The comparison that evidence about one log ratio gives at its share of alpha."""
    centre, half = float(found.centre), float(found.half_width(share))
    ratio, low, high = (math.exp(centre + shift) for shift in (0.0, -half, half))
    said = verdict(low, high, delta)
    return Comparison(ratio, low, high, 1 - share, p, said, found.rounds)

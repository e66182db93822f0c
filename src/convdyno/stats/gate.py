"""Has it become slower? A candidate against a base, with a limit that was set beforehand.

The interval of the ratio of rates decides: all of it above the limit passes, all of it below is a
regression, and whatever holds the limit is undecided. At the 95 % level a candidate that is just at
the limit passes in about 2.5 % of experiments and is called a regression in as many; one that has
not changed is called a regression far less often.
"""

from __future__ import annotations

import math
from typing import Literal

from convdyno.stats.compare import Comparison, PairedRounds, Unpaired, compare
from convdyno.stats.plan import PRIOR_BETWEEN, PRIOR_WITHIN, Variation, spread_of
from convdyno.stats.summary import MINIMUM_ROUNDS

Outcome = Literal["pass", "regression", "undecided", "nothing measured"]


def limit(within: float) -> float:
    """The smallest ratio of rates that is allowed: a step may take that share longer."""
    return 1 / (1 + within)


def judge(found: Comparison, within: float) -> Outcome:
    """What the ratio of a candidate's rate to its base's allows to say."""
    if found.ratio is None:
        return "nothing measured"
    if found.low is None or found.high is None:
        return "undecided"
    if found.low >= limit(within):
        return "pass"
    return "regression" if found.high < limit(within) else "undecided"


def ratio_of(pair: PairedRounds | Unpaired, level: float = 0.95, looks: int = 1) -> Comparison:
    """The ratio of A's rate to B's: of one pair alone, so with nothing to correct for."""
    (found,) = compare([pair], level=level, looks=looks)
    return found


def precise_ratio(
    pair: PairedRounds, within: float, level: float = 0.95, minimum_rounds: int = MINIMUM_ROUNDS
) -> bool:
    """Whether a ratio needs no more rounds: its half width is at most `within`.

    Like `summary.precise_enough` it asks about the width alone, never about the verdict, and at the
    level after more than one look.
    """
    rounds = len(pair.complete())
    if math.isinf(within):
        return rounds >= minimum_rounds
    if rounds < max(2, minimum_rounds):
        return False
    found = ratio_of(pair, level, looks=2)
    assert found.ratio is not None
    assert found.high is not None
    return found.high <= found.ratio * (1 + within)


def spread_of_ratio(pair: PairedRounds) -> Variation:
    """How much the log ratio varies, from round to round and from turn to turn in one."""
    rounds = [(*a.against(b), a.turn_count) for a, b in pair.complete()]
    return spread_of(rounds, Variation(2 * PRIOR_BETWEEN, 2 * PRIOR_WITHIN))


def control_ratios(pair: PairedRounds) -> list[float]:
    """The log ratios of a trial to itself, round by round: what `noise_floor` is made of."""
    return [a.against(b)[0] for a, b in pair.complete()]

"""Intervals of ratios hold the truth when a machine is disturbed, as records of today are read.

Two equal cells take turns. Bursts of other work make single turns up to three times as long, a
drift makes all slower, some rounds are noisier than others. With 600 experiments the percentage has
a standard error of 0.9.
"""

from collections.abc import Callable

import numpy as np
import pytest

from convdyno.stats.borrowing import Borrowed
from convdyno.stats.compare import PairedRounds, compare
from convdyno.stats.rounds import TypicalRound

EXPERIMENTS, ROUNDS, TURNS = 600, 5, 8
BETWEEN, WITHIN = 0.011, 0.015
Disturb = Callable[[np.random.Generator, np.ndarray], tuple[np.ndarray, np.ndarray]]


def quiet(rng: np.random.Generator, seconds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return seconds, np.zeros_like(seconds, dtype=np.bool_)


def bursts(rng: np.random.Generator, seconds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Three turns in ten; those of less than a tenth go unnoticed."""
    longer = np.where(rng.random(seconds.shape) < 0.3, rng.uniform(1, 2, seconds.shape), 1.0)
    return seconds * longer, longer > 1.1


def drift(rng: np.random.Generator, seconds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both cells become slower by a tenth in each round."""
    return quiet(rng, seconds * np.linspace(1, 1.1, seconds.shape[-1]))


def unlike(rng: np.random.Generator, seconds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Every second round is four times as noisy."""
    noise = np.exp(0.06 * rng.standard_normal(seconds.shape))
    noise[:, ::2] = 1.0
    return quiet(rng, seconds * noise)


def pairs(disturb: Disturb, seed: int, borrowed: Borrowed) -> list[PairedRounds]:
    rng = np.random.default_rng(seed)
    sides = []
    for _ in range(2):
        shape = (EXPERIMENTS, ROUNDS, TURNS)
        process = BETWEEN * rng.standard_normal((EXPERIMENTS, ROUNDS, 1))
        seconds = 0.5 * np.exp(process + WITHIN * rng.standard_normal(shape))
        sides.append(disturb(rng, seconds))
    return [
        PairedRounds(
            *[[_round(s[e, r], dirty[e, r]) for r in range(ROUNDS)] for s, dirty in sides], borrowed
        )
        for e in range(EXPERIMENTS)
    ]


def _round(seconds: np.ndarray, dirty: np.ndarray) -> TypicalRound:
    ones = np.ones(TURNS)
    return TypicalRound(seconds, ones, dirty, np.arange(TURNS), np.zeros(TURNS))


@pytest.mark.parametrize("borrowed", [Borrowed(), Borrowed(8, 2 * BETWEEN**2)], ids=["", "known"])
@pytest.mark.parametrize("disturb", [quiet, bursts, drift, unlike])
def test_the_interval_of_a_ratio_holds_the_truth(disturb: Disturb, borrowed: Borrowed) -> None:
    found = [compare([pair])[0] for pair in pairs(disturb, 5, borrowed)]
    held = np.mean([one.low <= 1 <= one.high for one in found])  # type: ignore[operator]
    assert 0.93 <= held <= 0.99
    wrong = np.mean([one.verdict in ("faster", "slower") for one in found])
    assert wrong <= 0.07


def test_bursts_cost_little_precision() -> None:
    widths = [
        np.median([one.high / one.ratio - 1 for one in map(_only, pairs(how, 6, Borrowed()))])
        for how in (quiet, bursts)
    ]
    assert widths[1] < 2.5 * widths[0]


def _only(pair: PairedRounds):
    return compare([pair])[0]

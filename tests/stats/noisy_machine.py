"""A machine whose processes and blocks vary in a known way, for many experiments at once.

The log time of a block is the log time of its process (standard deviation BETWEEN) plus noise of
standard deviation WITHIN that is correlated from block to block. The true rate is always 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from convdyno.stats.rounds import Booleans, Evidence, Floats, over_rounds
from convdyno.stats.series import mean_variance
from convdyno.stats.summary import alpha_after

BETWEEN, WITHIN, CORRELATION = 0.01, 0.03, 0.5


def block_seconds(
    rng: np.random.Generator,
    shape: tuple[int, ...],
    between: float = BETWEEN,
    within: float = WITHIN,
    correlation: float = CORRELATION,
) -> Floats:
    """Block times; the last axis of the shape is blocks in one process."""
    noise = rng.standard_normal(shape)
    for block in range(1, shape[-1]):
        fresh = np.sqrt(1 - correlation**2) * noise[..., block]
        noise[..., block] = correlation * noise[..., block - 1] + fresh
    processes = between * rng.standard_normal((*shape[:-1], 1))
    return np.exp(processes + within * noise)


@dataclass(frozen=True)
class Cells:
    """Cells in many experiments: by experiment and round, log rate and its block variance."""

    logs: Floats
    variances: Floats

    @classmethod
    def measure(
        cls, rng: np.random.Generator, shape: tuple[int, int, int], **noise: float
    ) -> Cells:
        """Experiments by rounds by blocks."""
        seconds = block_seconds(rng, shape, **noise)
        mean = seconds.mean(axis=-1, keepdims=True)
        return cls(-np.log(mean[..., 0]), mean_variance(seconds / mean)[0])

    def after(self, rounds: int) -> Evidence:
        return over_rounds(self.logs[:, :rounds], self.variances[:, :rounds])

    def against(self, other: Cells) -> Cells:
        """The log ratios of two cells; their block variances add up."""
        return Cells(self.logs - other.logs, self.variances + other.variances)


def ends(cells: list[Cells], target: float | None, most: int) -> list[tuple[int, float, Booleans]]:
    """When experiments end: (rounds, alpha of the intervals then, which experiments).

    Without a target all have `most` rounds. With one, an experiment ends after the first round from
    the third on at which all cells are precise enough, or after `most` rounds.
    """
    experiments = len(cells[0].logs)
    if target is None:
        return [(most, alpha_after(0.95, looks=1), np.ones(experiments, dtype=np.bool_))]
    found, going_on = [], np.ones(experiments, dtype=np.bool_)
    for rounds in range(3, most + 1):
        strict = alpha_after(0.95, looks=2)
        halves = [np.expm1(cell.after(rounds).half_width(strict)) for cell in cells]
        precise = going_on & np.all([half <= target for half in halves], axis=0)
        found.append((rounds, alpha_after(0.95, looks=rounds - 2), precise))
        going_on &= ~precise
    found.append((most, alpha_after(0.95, looks=1), going_on))
    return found


def share_covered(cells: list[Cells], target: float | None, most: int) -> float:
    """The percentage of experiments in which the first cell's interval holds the truth."""
    held = 0
    for rounds, alpha, which in ends(cells, target, most):
        evidence = cells[0].after(rounds)
        held += int((np.abs(evidence.centre) <= evidence.half_width(alpha))[which].sum())
    return 100 * held / len(cells[0].logs)

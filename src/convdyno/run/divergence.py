"""Whether training still means anything: a loss, weights and memories that are numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from convdyno.blueprint.graph import Blueprint
from convdyno.blueprint.weight_file import check_values
from convdyno.blueprint.weights import Weights
from convdyno.engines.contract import OPTIONAL, State
from convdyno.errors import BadWeights, LossLost
from convdyno.run import checkpoint
from convdyno.run.ranks import Ranks
from convdyno.trial.spec import Trial

EXPLODED = 100.0
"""Training stops when the loss is so many times what guessing gives."""


class Divergence:
    """Ends a run whose numbers have lost their meaning, with one sentence that says which."""

    def __init__(self, blueprint: Blueprint, trial: Trial, folder: Path, ranks: Ranks) -> None:
        self._blueprint, self._trial, self._folder = blueprint, trial, folder
        self._ranks = ranks
        self._limit = EXPLODED * math.log(blueprint.classes)

    def loss(self, step: int, losses: Sequence[float]) -> None:
        """Check the losses of all ranks, which all of them know."""
        mean = sum(losses) / len(losses)
        if mean <= self._limit:
            return
        worst = next(rank for rank, loss in enumerate(losses) if not loss <= self._limit)
        where = f" on rank {worst}" if len(losses) > 1 else ""
        said = f"the loss became {losses[worst]:.4g}{where} at step {step}: {self._advice()}"
        self._ranks.fail_together(LossLost(said))

    def weights(self, step: int, weights: Weights) -> Weights:
        """The weights, checked; a loss shows only what was before its step."""
        try:
            check_values(f"step {step} spoilt the weights", self._blueprint, weights)
        except BadWeights as wrong:
            raise LossLost(f"{wrong}: {self._advice()}") from None
        return weights

    def state(self, step: int, state: State) -> State:
        """What the update rule remembers, checked."""
        for name, array in state.items():
            if not name.startswith(OPTIONAL) and not np.isfinite(array).all():
                raise LossLost(f"step {step} spoilt {name!r}: {self._advice()}")
        return state

    def _advice(self) -> str:
        trial, good = self._trial, checkpoint.latest(self._folder)
        kept = f"; the last good checkpoint is {good}" if good else ""
        return (
            f"the learning rate {trial.optimiser.rate:g} may be too high for {trial.network} in "
            f"{trial.precision}{kept}"
        )

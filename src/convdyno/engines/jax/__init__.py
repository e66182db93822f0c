"""JAX as an engine."""

from __future__ import annotations

from convdyno.blueprint.graph import Blueprint
from convdyno.engines.contract import Engine, Session, Trial, Weights, World
from convdyno.engines.frameworks.jax import OnJax, ranks
from convdyno.engines.jax import data_parallel
from convdyno.engines.jax.step import JaxSession


class JaxEngine(OnJax):
    """JAX, imported; its devices are found when a network is opened."""

    def join(self, world: World, trial: Trial) -> None:
        """Meet the other processes, before JAX looks for its devices."""
        data_parallel.check(trial)
        ranks.join(world)

    def open(self, blueprint: Blueprint, trial: Trial, weights: Weights) -> Session:
        """Load a network on a device."""
        return JaxSession(blueprint, trial, weights)


def engine() -> Engine:
    """The engine of JAX."""
    return JaxEngine()

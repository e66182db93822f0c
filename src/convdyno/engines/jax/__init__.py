"""JAX as an engine."""

from __future__ import annotations

from contextlib import AbstractContextManager

from convdyno.blueprint.graph import Blueprint
from convdyno.blueprint.weights import Weights
from convdyno.engines.contract import Engine, Session, Trial, World
from convdyno.engines.frameworks.jax import device, ranks
from convdyno.engines.jax import data_parallel
from convdyno.engines.jax.step import JaxSession


class JaxEngine:
    """JAX, imported; its devices are found when a network is opened."""

    def versions(self) -> dict[str, str]:
        """Versions of jax and of jaxlib, which has the compiler."""
        return device.versions()

    def join(self, world: World, trial: Trial) -> None:
        """Meet the other processes."""
        data_parallel.join(world, trial)

    def leave(self) -> None:
        """Part from the other processes."""
        ranks.leave()

    def open(self, blueprint: Blueprint, trial: Trial, weights: Weights) -> Session:
        """Load a network on a device."""
        return JaxSession(blueprint, trial, weights)

    def op_by_op(self) -> AbstractContextManager[object]:
        """Each op is compiled by itself, once for each shape."""
        return device.op_by_op()

    def out_of_memory(self, error: BaseException) -> bool:
        """Whether the memory of the host or the device did not suffice."""
        return device.out_of_memory(error)


def engine() -> Engine:
    """The engine of JAX."""
    return JaxEngine()

"""JAX as an engine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import jax
from jaxlib.version import __version__ as jaxlib_version

from convdyno.blueprint.graph import Blueprint
from convdyno.blueprint.weights import Weights
from convdyno.engines.contract import Engine, Session, Trial, World
from convdyno.engines.jax import spread
from convdyno.engines.jax.step import JaxSession

FORGET_EVERY = 20
"""Networks run op by op after which compiled ops are forgotten, because each adds hundreds."""
NO_MEMORY = ("RESOURCE_EXHAUSTED", "Out of memory")


class JaxEngine:
    """JAX, imported; its devices are found when a network is opened."""

    def __init__(self) -> None:
        self._asked = 0

    def versions(self) -> dict[str, str]:
        """Versions of jax and of jaxlib, which has the compiler."""
        return {"jax": jax.__version__, "jaxlib": jaxlib_version}

    def join(self, world: World, trial: Trial) -> None:
        """Meet the other processes."""
        spread.join(world, trial)

    def leave(self) -> None:
        """Part from the other processes."""
        spread.leave()

    def open(self, blueprint: Blueprint, trial: Trial, weights: Weights) -> Session:
        """Load a network on a device."""
        return JaxSession(blueprint, trial, weights)

    @contextmanager
    def op_by_op(self) -> Iterator[None]:
        """Each op is compiled by itself, once for each shape."""
        with jax.disable_jit():
            yield
        self._asked += 1
        if self._asked % FORGET_EVERY == 0:
            jax.clear_caches()

    def out_of_memory(self, error: BaseException) -> bool:
        """Whether the memory of the host or the device did not suffice."""
        return isinstance(error, MemoryError) or (
            isinstance(error, jax.errors.JaxRuntimeError)
            and any(text in str(error) for text in NO_MEMORY)
        )


def engine() -> Engine:
    """The engine of JAX."""
    return JaxEngine()

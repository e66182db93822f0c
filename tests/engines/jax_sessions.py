"""Opening small networks in JAX."""

from __future__ import annotations

from typing import Any

from miniatures import lively_weights

from convdyno.blueprint.graph import Blueprint
from convdyno.blueprint.weights import Weights
from convdyno.engines import registry
from convdyno.engines.contract import Optimiser, Session, Trial

FAST = Optimiser(rate=0.05)


def open_session(blueprint: Blueprint, weights: Weights | None = None, **values: Any) -> Session:
    """A session on the CPU, with whatever threads JAX was first used with in this process."""
    given = {"batch": 4, "device": "cpu", "optimiser": FAST, **values}
    trial = Trial(network=blueprint.name, engine="jax", **given)
    return registry.load("jax").open(blueprint, trial, weights or lively_weights(blueprint))

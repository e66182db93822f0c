"""Opening small networks in TensorFlow."""

from __future__ import annotations

from typing import Any

from miniatures import lively_weights

from convdyno.blueprint.graph import Blueprint
from convdyno.blueprint.weights import Weights
from convdyno.engines import registry
from convdyno.engines.contract import Optimiser, Session, Trial

FAST = Optimiser(rate=0.05)


def open_session(blueprint: Blueprint, weights: Weights | None = None, **values: Any) -> Session:
    """A session on one CPU thread, of which a process cannot change the number."""
    given = {"batch": 4, "device": "cpu", "threads": 1, "optimiser": FAST, **values}
    trial = Trial(network=blueprint.name, engine="tensorflow", **given)
    return registry.load("tensorflow").open(blueprint, trial, weights or lively_weights(blueprint))

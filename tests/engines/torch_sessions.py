"""Opening small networks in torch."""

from __future__ import annotations

from typing import Any

from miniatures import lively_weights

from convdyno.blueprint.graph import Blueprint
from convdyno.blueprint.weights import Weights
from convdyno.engines import registry
from convdyno.engines.contract import Optimiser, Session, Trial

FAST = Optimiser(rate=0.05)


def open_session(blueprint: Blueprint, weights: Weights | None = None, **values: Any) -> Session:
    """A session on one CPU thread (so that a busy machine costs no more than its share)."""
    given = {"batch": 4, "device": "cpu", "threads": 1, "optimiser": FAST, **values}
    trial = Trial(network=blueprint.name, engine="torch", **given)
    return registry.load("torch").open(blueprint, trial, weights or lively_weights(blueprint))

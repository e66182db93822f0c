"""Networks as they are drawn, before anything runs them."""

from __future__ import annotations

from convdyno.blueprint.count import NodeCount, count
from convdyno.blueprint.graph import Blueprint
from convdyno.trial import axes
from convdyno.zoo.registry import build


def drawn(
    network: str, image_size: str | None, classes: int | None, width: float, auxiliary: bool
) -> Blueprint:
    """A network in the form that was asked for."""
    (size,) = axes.find("image_size").values(image_size)
    axes.find("classes").values(classes)
    axes.find("width").values(width)
    return build(network, size, classes, width, auxiliary)


def costs(blueprint: Blueprint) -> list[NodeCount]:
    """What each node computes and holds."""
    return count(blueprint)

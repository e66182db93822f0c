"""What there is: networks and how they are drawn, engines, data and recipes."""

from __future__ import annotations

from typing import Any

from convdyno.app.requests import DrawRequest
from convdyno.blueprint.count import count as count
from convdyno.blueprint.graph import Blueprint
from convdyno.data import KNOWN, SOURCES
from convdyno.engines import registry
from convdyno.trial import axes
from convdyno.trial.parse import one_of
from convdyno.trial.recipes import RECIPES
from convdyno.zoo import registry as zoo


def network_names() -> list[str]:
    """The names of the zoo."""
    return list(zoo.networks())


def engine_names() -> list[str]:
    """The names of all engines, installed or not."""
    return list(registry.engines())


def data_names() -> list[str]:
    """Data sets that have a name."""
    return [*SOURCES, *KNOWN]


def networks(family: str = "") -> list[dict[str, Any]]:
    """The networks of the zoo, or of one family."""
    if family:
        family = one_of("family", zoo.FAMILIES)(family)
    wanted = [one for one in zoo.networks().values() if family in ("", one.family)]
    built = [(network, zoo.build(network.name)) for network in wanted]
    return [
        {
            "network": network.name,
            "image": "x".join(map(str, network.image)),
            "parameters": blueprint.parameters,
            "macs": blueprint.macs,
            "paper": network.paper,
            "note": network.note,
        }
        for network, blueprint in built
    ]


def drawn(request: DrawRequest) -> Blueprint:
    """A network in the form that was asked for."""
    (size,) = axes.find("image_size").values(request.image_size)
    axes.find("classes").values(request.classes)
    axes.find("width").values(request.width)
    return zoo.build(request.network, size, request.classes, request.width, request.auxiliary)


def engines() -> list[dict[str, Any]]:
    """The engines, and how to install those that are missing."""
    return [
        {
            "engine": info.name,
            "installed": info.installed,
            "version": info.version or "",
            "to install": "" if info.installed else info.install,
        }
        for info in registry.engines().values()
    ]


def data() -> list[dict[str, Any]]:
    """Where batches can come from."""
    paths = {"a path": "idx files, CIFAR-10, class folders, TFRecord or ImageNet's archives"}
    return [{"data": name, "what": what} for name, what in (SOURCES | KNOWN | paths).items()]


def recipes() -> list[dict[str, Any]]:
    """How networks are trained."""
    return [
        {
            "recipe": recipe.name,
            "epochs": round(recipe.epochs),
            "rule": recipe.optimiser.kind,
            "rate": recipe.optimiser.rate,
            "for batch": recipe.rate_for or "any",
            "schedule": recipe.schedule.kind,
            "precision": recipe.precision,
            "note": recipe.note,
            "published": recipe.expected,
        }
        for recipe in RECIPES.values()
    ]

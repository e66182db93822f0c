"""`convdyno list`: what there is."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from convdyno.cli.parse import one_of

EXAMPLES = """\b
Examples:
  convdyno list networks
  convdyno list engines --json
"""

KINDS = ("networks", "engines", "data", "recipes")


def list_(
    what: Annotated[str, typer.Argument(help="networks, engines, data or recipes")] = "networks",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """List the networks, the engines, the data sources or the recipes."""
    kind = one_of("list", KINDS)(what)
    found = {"networks": _networks, "engines": _engines, "data": _data, "recipes": _recipes}
    rows = found[kind]()
    if as_json:
        typer.echo(json.dumps({kind: rows}, indent=1))
        return
    from convdyno.report.console import Screen
    from convdyno.report.format import quantity

    for row in rows:
        row |= {name: quantity(row[name]) for name in ("parameters", "macs") if name in row}
    Screen().table(rows)


def _networks() -> list[dict[str, Any]]:
    from convdyno.zoo.registry import build, networks

    rows = []
    for name, network in networks().items():
        blueprint = build(name)
        rows.append(
            {
                "network": name,
                "image": "x".join(map(str, network.image)),
                "parameters": blueprint.parameters,
                "macs": blueprint.macs,
                "paper": network.paper,
                "note": network.note,
            }
        )
    return rows


def _engines() -> list[dict[str, Any]]:
    from convdyno.engines.registry import engines

    return [
        {
            "engine": info.name,
            "installed": info.installed,
            "version": info.version or "",
            "to install": "" if info.installed else info.install,
        }
        for info in engines().values()
    ]


def _data() -> list[dict[str, Any]]:
    from convdyno.data import KNOWN, SOURCES

    paths = {"a path": "idx files, CIFAR-10, class folders, TFRecord or ImageNet's archives"}
    return [{"data": name, "what": what} for name, what in (SOURCES | KNOWN | paths).items()]


def _recipes() -> list[dict[str, Any]]:
    from convdyno.trial.recipes import RECIPES

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

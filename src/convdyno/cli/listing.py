"""`convdyno list`: what there is."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from convdyno.cli.options import AsJson
from convdyno.trial.parse import one_of

EXAMPLES = """\b
Examples:
  convdyno list networks
  convdyno list engines --json
"""

KINDS = ("networks", "engines", "data", "recipes")


def list_(
    what: Annotated[str, typer.Argument(help="networks, engines, data or recipes")] = "networks",
    as_json: AsJson = False,
) -> None:
    """List the networks, the engines, the data sources or the recipes."""
    from convdyno.app import catalogue

    kind = one_of("list", KINDS)(what)
    rows = getattr(catalogue, kind)()
    if as_json:
        typer.echo(json.dumps({kind: rows}, indent=1))
        return
    from convdyno.report.console import Screen
    from convdyno.report.words import quantity

    for row in rows:
        row |= {name: quantity(row[name]) for name in ("parameters", "macs") if name in row}
    Screen().table(rows)

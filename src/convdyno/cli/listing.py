"""`convdyno list`: what there is."""

from __future__ import annotations

from typing import Annotated

import typer

from convdyno.cli.options import AsJson, echo_json, new_screen
from convdyno.errors import UsageError
from convdyno.trial.parse import one_of

EXAMPLES = """\b
Examples:
  convdyno list networks
  convdyno list networks --family efficientnet
  convdyno list engines --json
"""

KINDS = ("networks", "engines", "data", "recipes")


def list_(
    what: Annotated[str, typer.Argument(help="networks, engines, data or recipes")] = "networks",
    family: Annotated[str, typer.Option("--family", help="Networks of one family only.")] = "",
    as_json: AsJson = False,
) -> None:
    """List networks, engines, data sources or recipes."""
    from convdyno.app import catalogue

    kind = one_of("list", KINDS)(what)
    if family and kind != "networks":
        raise UsageError(f"only networks have families: `convdyno list networks --family {family}`")
    rows = catalogue.networks(family) if family else getattr(catalogue, kind)()
    if as_json:
        echo_json({kind: rows})
        return
    from convdyno.report.format import quantity

    for row in rows:
        row |= {name: quantity(row[name]) for name in ("parameters", "macs") if name in row}
    new_screen().table(rows)

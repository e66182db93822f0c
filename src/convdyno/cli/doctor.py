"""`convdyno doctor`: what this machine can do, and what would spoil a measurement on it."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from convdyno.cli.options import AsJson

EXAMPLES = """\b
Examples:
  convdyno doctor
  convdyno doctor --quick --json
"""


def doctor(
    quick: Annotated[
        bool, typer.Option("--quick", help="Do not measure which precision is fast.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Examine this machine: processor, engines, fast precisions, disturbances, what to do."""
    from convdyno.app import Narrator
    from convdyno.app.checkup import examine
    from convdyno.report.console import Screen

    found = examine(quick=quick, narrator=Narrator(quiet=as_json))
    if as_json:
        typer.echo(json.dumps(found, indent=1))
    else:
        Screen().doctor(found)

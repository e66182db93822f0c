"""`convdyno doctor`: what this machine can do, and what would spoil a measurement on it."""

from __future__ import annotations

from typing import Annotated

import typer

from convdyno import app
from convdyno.cli.options import AsJson, echo_json, new_screen

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
    from convdyno.app.checkup import examine

    found = examine(quick=quick, narrator=app.Narrator(quiet=as_json))
    if as_json:
        echo_json(found)
    else:
        new_screen().doctor(found)

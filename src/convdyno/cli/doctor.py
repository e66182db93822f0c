"""`convdyno doctor`: what this machine can do, and what would spoil a measurement on it."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from convdyno import app
from convdyno.cli.options import AsJson, echo_json, new_screen
from convdyno.errors import UsageError

EXAMPLES = """\b
Examples:
  convdyno doctor
  convdyno doctor --quick --json
  convdyno doctor --full
"""


def doctor(
    quick: Annotated[
        bool, typer.Option("--quick", help="Do not measure which precision is fast.")
    ] = False,
    full: Annotated[
        bool, typer.Option("--full", help="Measure Keras too, for as long as all of it takes.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Examine this machine, and say what to do.

    Engines, fast precisions, disturbances. It takes less than a minute, and with --full some
    minutes.
    """
    from convdyno.app.checkup import examine, peaks

    if quick and full:
        raise UsageError("--quick and --full are opposites: give one of them")
    found = examine()
    screen = new_screen()
    if not as_json:
        screen.machine(found)
    if not quick:
        rows: list[dict[str, Any]] = []
        for row in peaks(full=full, narrator=app.Narrator(quiet=as_json)):
            if not as_json:
                screen.peak(row, rows)
            rows.append(row)
        found["peaks"] = rows
    if as_json:
        echo_json(found)
    else:
        screen.disturbances(found)

"""`convdyno sweep`: many cells from one file; killed and started again, it goes on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from convdyno import app
from convdyno.cli.options import AsJson, Quiet, asks, echo_json, new_screen
from convdyno.errors import NothingMeasured

if TYPE_CHECKING:
    from convdyno.app.sweeps import SweepStanding

EXAMPLES = """\b
Examples:
  convdyno sweep sweep.toml --dry-run
  convdyno sweep sweep.toml
  convdyno sweep sweep.toml --retry failed
  convdyno sweep sweep.toml --set batch=8,16 --set budget=30s --label gpu=k80

\b
The same command again goes on where it stopped. Exit codes: 0 all is done, 2 bad usage,
3 another process is still measuring some of it, 4 a cell was not measured to its end,
5 a trial failed, 130 or 143 stopped by Ctrl-C or SIGTERM (128 + the signal).
"""
NOT_OVER = 3


@asks(app.SweepRequest)
def sweep(
    request: app.SweepRequest,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A sweep as TOML.")],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print every trial of the plan, and run nothing.")
    ] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Measure every combination of a file's values.

    What is done already is left out. Cells that are neighbours in the plan are measured in turns.
    SIGTERM and Ctrl-C end it after the turn that is being measured; nothing that was measured is
    lost, however it ends.
    """
    from convdyno.app.sweeps import plan_sweep
    from convdyno.cli.jobs import while_jobs_go_on

    narrator = app.Narrator(quiet=as_json or quiet)
    if dry_run:
        _show(plan_sweep(request, narrator), as_json)
        return
    with while_jobs_go_on("what was measured is kept, jobs go on, and so does the same command"):
        done = app.sweep(request, narrator)
    _report(done, as_json)


def _show(plan: SweepStanding, as_json: bool) -> None:
    """Every trial of the plan, in the order in which it would be run."""
    from convdyno.report.sweep import plan_document

    if as_json:
        echo_json(plan_document(plan.title, plan.agenda, plan.groups, plan.times))
    else:
        plan.show(new_screen())


def _report(done: SweepStanding, as_json: bool) -> None:
    """Print how everything stands, and end with the exit code that it deserves."""
    from convdyno.report.sweep import left_words, outcome_document

    agenda = done.agenda
    if as_json:
        stopped = done.signal.name if done.signal else None
        echo_json(outcome_document(done.title, agenda, done.records(), stopped, done.folder))
    else:
        done.show(new_screen())
    if done.signal:
        raise typer.Exit(128 + done.signal)
    if agenda.count("elsewhere"):
        raise typer.Exit(NOT_OVER)
    heads = [one.head.status if one.head else "" for one in agenda.planned]
    if all(status == "refused" for status in heads):
        raise typer.Exit(2)
    if agenda.count("failed", "skipped"):
        raise typer.Exit(5)
    if agenda.left:
        raise NothingMeasured(left_words(agenda))

"""`convdyno sweep`: many cells from one file; killed and started again, it goes on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from convdyno import app
from convdyno.cli.options import AsJson, asks, echo_json, new_screen
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
) -> None:
    """Measure every combination of a file's values, leaving out what is done already.

    Cells that are neighbours in the plan are measured in turns. SIGTERM and Ctrl-C end it after the
    turn that is being measured; nothing that was measured is lost, however it ends.
    """
    from convdyno.app.sweeps import plan_sweep
    from convdyno.cli.jobs import while_jobs_go_on

    narrator = app.Narrator(quiet=as_json)
    if dry_run:
        _show(plan_sweep(request, narrator), as_json)
        return
    with while_jobs_go_on():
        done = app.sweep(request, narrator)
    _report(done, as_json)


def _show(plan: SweepStanding, as_json: bool) -> None:
    """Every trial of the plan, in the order in which it would be run."""
    from convdyno.report.sweep import plan_document, plan_lines
    from convdyno.trial.words import bench_command

    agenda, groups = plan.agenda, plan.groups
    commands = {one.trial.digest: bench_command(one.trial) for one in agenda.planned}
    if as_json:
        echo_json(plan_document(plan.title, agenda, groups, plan.times, commands))
        return
    numbers = {id(one): str(n) for n, group in enumerate(groups, 1) for one in group}
    order = [one for group in groups for one in group]
    order += [one for one in agenda.planned if id(one) not in numbers]
    new_screen().table([
        {
            "group": numbers.get(id(one), "-" if one.trial.slurm is None else "job"),
            "standing": one.standing,
            "labels": ",".join(f"{name}={value}" for name, value in one.labels.items()),
            "trial": commands[one.trial.digest].removeprefix("convdyno bench "),
        }
        for one in order
    ])  # fmt: skip
    for line in plan_lines(agenda, groups, plan.times):
        typer.echo(line)
    for place in plan.unused:
        typer.echo(f"mind: {place}: this means none of the combinations")


def _report(done: SweepStanding, as_json: bool) -> None:
    """Print how everything stands, and end with the exit code that it deserves."""
    from convdyno.report.sweep import left_words, outcome_document, outcome_lines, outcome_table

    agenda, out = done.agenda, done.folder
    stopped = done.signal.name if done.signal else None
    if as_json:
        echo_json(outcome_document(done.title, agenda, done.records(), stopped, out))
    else:
        new_screen().table(outcome_table(agenda))
        for line in outcome_lines(agenda, stopped, out):
            typer.echo(line)
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

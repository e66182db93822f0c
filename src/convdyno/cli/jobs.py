"""`convdyno jobs`: runs that Slurm was given."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from convdyno.cli.help import examples
from convdyno.cli.options import AsJson, Out, echo_json, group, new_screen
from convdyno.errors import Interrupted, signal_of
from convdyno.trial import parse

if TYPE_CHECKING:
    from convdyno.app import BenchRequest, Narrator
    from convdyno.app.slurm_runs import JobRun

EXAMPLES = """\b
Examples:
  convdyno jobs list
  convdyno jobs wait last
  convdyno jobs cancel 20261116T033000-deepmnist-a1b2 --job 3
  convdyno jobs collect
"""
CODES = """Exit codes: 0 done, 2 bad usage or no answer from Slurm, 3 some jobs are not over,
4 nothing was measured, 5 a job failed."""

app = group("Runs of `bench --slurm`: list, wait, cancel, collect.", EXAMPLES)

NOT_OVER = 3
JOBS_GO_ON = "the jobs go on, and `convdyno jobs` shows them"
AnyRun = Annotated[
    str | None, typer.Argument(metavar="[RUN]", help="A name, its beginning, or `last`.")
]


@app.command(
    "list",
    epilog=examples(
        "convdyno jobs list",
        "convdyno jobs list last",
        after=CODES,
    ),
)
def list_(run: AnyRun = None, out: Out = Path("results"), as_json: AsJson = False) -> None:
    """One line for each run; with RUN one for each of its jobs."""
    from convdyno.app.slurm_runs import chosen_runs, runs_document, standing, summary

    runs = chosen_runs(out, run, look=True)
    if as_json:
        echo_json(runs_document(runs, out))
    elif run is None:
        new_screen().table([
            {
                "run": one.name,
                "jobs": len(one.jobs),
                "states": summary(one),
                "collected": sum(bool(job.collected) for job in one.jobs),
            }
            for one in runs
        ])  # fmt: skip
    else:
        new_screen().table([
            {
                "job": job.number,
                "slurm": job.id,
                "what": job.what,
                "state": standing(job),
                "collected": bool(job.collected),
            }
            for one in runs
            for job in one.jobs
        ])  # fmt: skip


@app.command(
    "wait",
    epilog=examples(
        "convdyno jobs wait",
        "convdyno jobs wait 20261116T033000-deepmnist-a1b2",
        after=CODES,
    ),
)
def wait(run: AnyRun = "last", out: Out = Path("results"), as_json: AsJson = False) -> None:
    """Wait until every job of a run is over, and say how each ended."""
    from convdyno.app import Narrator
    from convdyno.app.slurm_runs import chosen_runs, runs_document, summary, wait

    (found,) = chosen_runs(out, run or "last")
    with while_jobs_go_on():
        over = wait(found, out, Narrator(quiet=as_json))
    if as_json:
        echo_json(runs_document([over], out))
    else:
        typer.echo(f"{over.name}: {summary(over)}")
    if any(job.state != "COMPLETED" for job in over.jobs):
        raise typer.Exit(5)


@app.command(
    "cancel",
    epilog=examples(
        "convdyno jobs cancel last",
        "convdyno jobs cancel 20261116T033000-deepmnist-a1b2 --job 3",
        after=CODES,
    ),
)
def cancel(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A name, its beginning, or `last`.")],
    job: Annotated[
        list[str] | None,
        typer.Option("--job", metavar="N", help="Only this one of its jobs, from 1."),
    ] = None,
    out: Out = Path("results"),
    as_json: AsJson = False,
) -> None:
    """Cancel the jobs of a run that are not over; what they have measured can be collected."""
    from convdyno.app.slurm_runs import cancel

    found, cancelled = cancel(out, run, [parse.whole("--job")(one) for one in job or ()])
    if as_json:
        echo_json({"run": found.name, "cancelled": [one.id for one in cancelled]})
    elif cancelled:
        typer.echo(f"cancelled: {', '.join(one.id for one in cancelled)}")
    else:
        typer.echo("all of them are over already")


@app.command(
    "collect",
    epilog=examples(
        "convdyno jobs collect",
        "convdyno jobs collect last --json",
        after=CODES,
    ),
)
def collect(run: AnyRun = None, out: Out = Path("results"), as_json: AsJson = False) -> None:
    """Take the records of finished jobs over into the results folder, and show them.

    Without RUN: of all runs that have something to collect. A second time changes nothing.
    """
    from convdyno.app.slurm_runs import to_collect

    runs = to_collect(out, run)
    if not runs and not as_json:
        typer.echo("everything was collected before: `convdyno results list` shows it")
        return
    report(runs, out, as_json)


def submit_and_report(
    request: BenchRequest, narrator: Narrator, as_json: bool, *, detach: bool
) -> None:
    """Submit the cells of `bench` as jobs; wait for them and report, unless detached."""
    from convdyno.app.slurm_runs import runs_document, submit, submitted, wait, where

    run = submit(request, narrator)
    if not detach:
        narrator.tell(submitted(run))
        with while_jobs_go_on():
            run = wait(run, request.out, narrator)
        report([run], request.out, as_json)
    elif as_json:
        echo_json(runs_document([run], request.out))
    else:
        typer.echo(f"submitted {run.name}: jobs {', '.join(job.id for job in run.jobs)}")
        typer.echo(f"later: convdyno jobs collect {run.name}{where(request.out)}")


@contextmanager
def while_jobs_go_on(kept: str = JOBS_GO_ON) -> Iterator[None]:
    """Signals end the waiting, not the jobs; `kept` says so."""
    try:
        yield
    except KeyboardInterrupt as end:
        raise Interrupted(signal_of(end), kept) from None


def report(runs: list[JobRun], out: Path, as_json: bool) -> None:
    """Collect what is over, show it, and end with the exit code that it deserves."""
    from convdyno.app.slurm_runs import collected
    from convdyno.cli.bench import end_badly, present
    from convdyno.errors import NothingMeasured

    waiting, result = collected(runs, out)
    present(result, as_json)
    if waiting:
        names = ", ".join(f"{job.id} ({job.state.lower()})" for job in waiting)
        typer.echo(f"not over yet: {names}", err=True)
    end_badly(result)
    if waiting:
        raise typer.Exit(NOT_OVER)
    unmeasured = sum(row.images_per_second is None for row in result.rows)
    if unmeasured:
        raise NothingMeasured(f"nothing of {unmeasured} cells was measured: their records say why")

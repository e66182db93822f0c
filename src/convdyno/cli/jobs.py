"""`convdyno jobs`: runs that Slurm was given."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from convdyno.report.comparisons import Certificates
    from convdyno.results.jobs import JobRun
    from convdyno.results.record import Record
    from convdyno.results.store import Store

EXAMPLES = """\b
Examples:
  convdyno jobs list
  convdyno jobs wait last
  convdyno jobs cancel 20261116T033000-deepmnist-a1b2 --job 3
  convdyno jobs collect

\b
Exit codes: 0 done, 2 bad usage or no answer from Slurm, 3 some jobs are not over,
4 nothing was measured, 5 a job failed.
"""

app = typer.Typer(
    help="Runs that were submitted with `convdyno bench --slurm`: list, wait, cancel, collect.",
    no_args_is_help=True,
    rich_markup_mode=None,
    epilog=EXAMPLES,
)

NOT_OVER = 3
Out = Annotated[Path, typer.Option("--out", help="The results folder.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
AnyRun = Annotated[
    str | None, typer.Argument(metavar="[RUN]", help="A name, its beginning, or `last`.")
]


@app.command("list", epilog=EXAMPLES)
def list_(run: AnyRun = None, out: Out = Path("results"), as_json: AsJson = False) -> None:
    """One line for each run; with RUN one for each of its jobs."""
    from convdyno.cli.slurm import standing, summary
    from convdyno.launch import slurm
    from convdyno.report.bench_json import to_json
    from convdyno.report.console import Screen

    runs = [slurm.look(one, out) for one in _chosen(out, run)]
    if as_json:
        typer.echo(to_json(runs_document(runs, out)))
    elif run is None:
        Screen().table([
            {
                "run": one.name,
                "jobs": len(one.jobs),
                "states": summary(one),
                "collected": sum(bool(job.collected) for job in one.jobs),
            }
            for one in runs
        ])  # fmt: skip
    else:
        Screen().table([
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


@app.command("wait", epilog=EXAMPLES)
def wait(run: AnyRun = "last", out: Out = Path("results"), as_json: AsJson = False) -> None:
    """Wait until every job of a run is over, and say how each ended."""
    from convdyno.cli import slurm
    from convdyno.report.bench_json import to_json
    from convdyno.results.jobs import find_run

    over = slurm.wait(find_run(out, run or "last"), out, quiet=as_json)
    if as_json:
        typer.echo(to_json(runs_document([over], out)))
    else:
        typer.echo(f"{over.name}: {slurm.summary(over)}")
    if any(job.state != "COMPLETED" for job in over.jobs):
        raise typer.Exit(5)


@app.command("cancel", epilog=EXAMPLES)
def cancel(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A name, its beginning, or `last`.")],
    job: Annotated[
        list[int] | None, typer.Option("--job", help="Only this one of its jobs, from 1.")
    ] = None,
    out: Out = Path("results"),
    as_json: AsJson = False,
) -> None:
    """Cancel the jobs of a run that are not over; what they have measured can be collected."""
    from convdyno.errors import UsageError
    from convdyno.launch import slurm
    from convdyno.report.bench_json import to_json
    from convdyno.results.jobs import find_run

    found = slurm.look(find_run(out, run), out)
    if unknown := set(job or ()) - {one.number for one in found.jobs}:
        raise UsageError(f"{found.name} has jobs 1 to {len(found.jobs)}, and no {min(unknown)}")
    cancelled = slurm.cancel(one for one in found.jobs if not job or one.number in job)
    if as_json:
        typer.echo(to_json({"run": found.name, "cancelled": [one.id for one in cancelled]}))
    elif cancelled:
        typer.echo(f"cancelled: {', '.join(one.id for one in cancelled)}")
    else:
        typer.echo("all of them are over already")


@app.command("collect", epilog=EXAMPLES)
def collect(run: AnyRun = None, out: Out = Path("results"), as_json: AsJson = False) -> None:
    """Take the records of finished jobs over into the results folder, and show them.

    Without RUN: of all runs that have something to collect. A second time changes nothing.
    """
    from convdyno.launch.collect import uncollected

    chosen = _chosen(out, run)
    runs = chosen if run else uncollected(chosen)
    if not runs and not as_json:
        typer.echo("everything was collected before: `convdyno results list` shows it")
        return
    report(runs, out, as_json, refresh=True)


def report(runs: list[JobRun], out: Path, as_json: bool, *, refresh: bool = False) -> None:
    """Collect what is over, show it, and end with the exit code that it deserves."""
    from convdyno.cli.bench import present
    from convdyno.errors import NothingMeasured
    from convdyno.launch import slurm
    from convdyno.launch.collect import collect, taken
    from convdyno.results.store import Store

    store = Store(out)
    if refresh:
        runs = [slurm.look(run, out) for run in runs]
    runs = [collect(run, store) for run in runs]
    records = [record for run in runs for record in taken(run, store)]
    rows = present(records, _certificates(records, store), out, as_json)
    waiting = [job for run in runs for job in run.jobs if not job.over]
    if waiting:
        names = ", ".join(f"{job.id} ({job.state.lower()})" for job in waiting)
        typer.echo(f"not over yet: {names}", err=True)
    if rows and all(row.status == "refused" for row in rows):
        raise typer.Exit(2)
    if any(row.status not in ("ok", "interrupted") for row in rows):
        raise typer.Exit(5)
    if waiting:
        raise typer.Exit(NOT_OVER)
    unmeasured = sum(row.images_per_second is None for row in rows)
    if unmeasured:
        raise NothingMeasured(f"nothing of {unmeasured} cells was measured: their records say why")


def runs_document(runs: list[JobRun], out: Path) -> dict[str, Any]:
    """Runs and their jobs for machines."""
    from convdyno.results.jobs import files_of

    return {
        "format": 1,
        "runs": [
            {
                "run": run.name,
                "created": run.created,
                "command": run.command,
                "over": run.over,
                "jobs": [
                    {
                        "job": job.number,
                        "slurm": job.id,
                        "what": job.what,
                        "state": job.state,
                        "reason": job.reason,
                        "nodes": job.nodes,
                        "script": str(files_of(out, run.name, job.number).with_suffix(".sh")),
                        "log": str(files_of(out, run.name, job.number).with_suffix(".log")),
                        "records": list(job.collected),
                    }
                    for job in run.jobs
                ],
            }
            for run in runs
        ],
    }


def _chosen(out: Path, wanted: str | None) -> list[JobRun]:
    from convdyno.results.jobs import find_run, read_runs

    return read_runs(out) if wanted is None else [find_run(out, wanted)]


def _certificates(records: list[Record], store: Store) -> Certificates:
    """The stored proofs for the cells; none is made here, where frameworks may not run."""
    wanted = {(record.trial.network, record.trial.kernels) for record in records}
    found = {key: store.certificate(*key) for key in wanted}
    return {key: certificate for key, certificate in found.items() if certificate is not None}

"""`convdyno bench --slurm`: every cell a job of its own."""

from __future__ import annotations

import shlex
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from convdyno.cli import parse
from convdyno.errors import UsageError

if TYPE_CHECKING:
    from convdyno.launch.slurm_order import Order
    from convdyno.launch.slurm_script import Errand, Surroundings
    from convdyno.results.jobs import Job, JobRun
    from convdyno.trial.spec import Trial

LOOK_SECONDS = (1.0, 15.0)
"""How long to wait before looking again: the least, and the most when nothing happens."""
STARTING_SECONDS = 60.0
"""What a job needs besides its budget, at the least."""
PASSED_ON = ("within", "budget", "rounds", "watchdog", "rank_timeout")
"""Options of a measurement that are given to each job's."""


def bench_jobs(given: dict[str, Any]) -> None:
    """Submit the cells of `bench` as jobs; wait for them and report, unless detached."""
    from convdyno.cli.jobs import report, runs_document
    from convdyno.report.bench_json import to_json

    out: Path = given["out"]
    quiet = given["as_json"]
    if not given["slurm"]:
        raise UsageError("--detach and the options --slurm-... need --slurm partition=...,...")
    run = submit([(order, trials, given) for order, trials in _plan(given)])
    if given["detach"]:
        if quiet:
            typer.echo(to_json(runs_document([run], out)))
        else:
            numbers = ", ".join(job.id for job in run.jobs)
            typer.echo(f"submitted {run.name}: jobs {numbers}")
            typer.echo(f"later: convdyno jobs collect {run.name}{_where(out)}")
        return
    run = wait(run, out, quiet=quiet)
    report([run], out, quiet)


def submit(planned: Sequence[tuple[Order, list[Trial], dict[str, Any]]]) -> JobRun:
    """Give trials to Slurm, each list of them as a job, measured as the options beside it say."""
    from convdyno.launch import slurm
    from convdyno.report.format import noun
    from convdyno.results.jobs import new_run
    from convdyno.results.store import Store

    _, first, given = planned[0]
    around, out = _surroundings(given), given["out"]
    Store(out).prepare()
    run = new_run(first[0].network, shlex.join(["convdyno", *sys.argv[1:]]))
    made = [_job(run, number, *one) for number, one in enumerate(planned, 1)]
    chained = not all(order.exclusive for order, _, _ in planned)
    jobs, errands = [job for job, _ in made], [errand for _, errand in made]
    run = slurm.submit(run, jobs, errands, around, out, chained=chained)
    if not given["as_json"] and not given["detach"]:
        typer.echo(f"submitted {run.name}: {noun(len(run.jobs), 'job')}", err=True)
    return run


def wait(run: JobRun, out: Path, *, quiet: bool) -> JobRun:
    """Look at the jobs now and then until all are over; what changes is said."""
    from convdyno.launch import slurm
    from convdyno.stage.progress import Narrator

    narrator, pause, lost = Narrator(), LOOK_SECONDS[0], ""
    told: dict[str, str] = {}
    try:
        while True:
            try:
                run, lost = slurm.look(run, out), ""
            except UsageError as silent:  # Its controller may be back in a minute.
                if not quiet and str(silent) != lost:
                    narrator.say(str(silent))
                lost = str(silent)
            news = {job.id: job.state for job in run.jobs}
            for job in run.jobs:
                if news[job.id] != told.get(job.id) and not quiet:
                    narrator.say(f"job {job.id} ({job.what}): {standing(job)}")
            pause = LOOK_SECONDS[0] if news != told else min(1.3 * pause, LOOK_SECONDS[1])
            told = news
            if run.over:
                return run
            time.sleep(pause)
    except KeyboardInterrupt:
        narrator.say(
            f"\nthe jobs go on: `convdyno jobs wait {run.name}{_where(out)}` waits for them, "
            f"`convdyno jobs cancel {run.name}{_where(out)}` ends them"
        )
        raise typer.Exit(130) from None


def standing(job: Job) -> str:
    """How a job is, in Slurm's words."""
    where = f" on {job.nodes}" if job.nodes and job.state != "PENDING" else ""
    why = f" ({job.reason})" if job.reason else ""
    return f"{job.state.lower().replace('_', ' ')}{where}{why}"


def summary(run: JobRun) -> str:
    """How many jobs of a run are in which state."""
    counts = Counter(job.state.lower().replace("_", " ") for job in run.jobs)
    return ", ".join(f"{count} {state}" for state, count in counts.items())


def _plan(given: dict[str, Any]) -> Iterator[tuple[Order, list[Trial]]]:
    """What Slurm is asked for and the trials of each job; the rungs of a ladder stay together."""
    from convdyno.cli.cells import make_trials
    from convdyno.data import SOURCES
    from convdyno.launch.slurm_order import kinds, read_order

    stages = parse.labelled("--stage-from", given["stage_from"]) if given["stage_from"] else {}
    orders = [read_order(text) for text in given["slurm"]]
    for order, kind in zip(orders, kinds(orders), strict=True):
        trials = make_trials(order, given)
        check_order(order, trials, given)
        if stages and any(trial.data in SOURCES for trial in trials):
            raise UsageError("--stage-from copies real data: give them with --data PATH")
        together: dict[str, list[Trial]] = {}
        for trial in trials:
            named = trial.model_copy(update={"slurm": kind})
            key = named.model_copy(update={"rung": "source"}).digest
            together.setdefault(key, []).append(named)
        for group in together.values():
            for label, folder in stages.items() or [("", "")]:
                staged = {"staged": f"{label}={folder}"} if label else {}
                yield order, [trial.model_copy(update=staged) for trial in group]


def check_order(order: Order, trials: list[Trial], given: dict[str, Any]) -> None:
    """What would go wrong only after hours in the queue."""
    budget = parse.duration("--budget")(given["budget"])
    if order.minutes is not None and 60 * order.minutes < budget + STARTING_SECONDS:
        raise UsageError(
            f"a job of time={order.options['time']} ends after {60 * order.minutes:g} s, too soon "
            f"for a --budget of {budget:g} s and {STARTING_SECONDS:g} s to start: give it more time"
        )
    if order.cpus is not None and given["cores"] not in ("auto", str(order.cpus)):
        raise UsageError(
            f"--cores {given['cores']} and cpus-per-task={order.cpus} are the same thing: give one"
        )
    if any(trial.processes == "host" and trial.hosts > 1 for trial in trials):
        raise UsageError(
            "srun makes a process for each device where there are several nodes: leave --processes "
            "at device, or give nodes=1"
        )
    counts = sorted({trial.devices for trial in trials})
    if order.gpu is None and len(counts) > 1 and any(trial.cores is None for trial in trials):
        raise UsageError(
            f"{', '.join(map(str, counts))} devices without GPUs: say how many CPU cores each has, "
            "with --cores N"
        )


def _job(
    run: JobRun, number: int, order: Order, trials: list[Trial], given: dict[str, Any]
) -> tuple[Job, Errand]:
    from convdyno.cli.words import bench_words
    from convdyno.launch.slurm_order import tasks_of
    from convdyno.launch.slurm_script import Errand
    from convdyno.results.jobs import Job, files_of
    from convdyno.results.record import new_record

    first = trials[0]
    header = order.header(first)
    what = f"{first.label}, {first.slurm}"
    stage = None
    if first.staged is not None:
        label, _, folder = first.staged.partition("=")
        stage, what = (label, folder), f"{what}, staged to {label}"
    words = bench_words(first, ladder=len(trials) > 1)
    for name in PASSED_ON:
        words += [f"--{name.replace('_', '-')}", str(given[name])]
    for label in given["label"] or ():
        words += ["--label", label]
    job = Job(
        number=number,
        id="",
        what=what,
        trials=tuple(trials),
        record_ids=tuple(new_record(trial).id for trial in trials),
        asked=header,
        gpu=order.gpu,
        gpus=first.devices if order.gpu else 0,
    )
    errand = Errand(
        name=f"convdyno-{run.name}-{number}",
        what=what,
        header=header,
        step=order.for_step(first),
        tasks=tasks_of(first),
        words=words,
        stage=stage,
        files=files_of(given["out"], run.name, number),
    )
    return job, errand


def _surroundings(given: dict[str, Any]) -> Surroundings:
    from convdyno.launch.slurm_script import Surroundings

    setup: Path | None = given["slurm_setup"]
    if setup is not None and not setup.is_file():
        raise UsageError(f"--slurm-setup: there is no file {str(setup)!r}")
    return Surroundings(
        folder=Path.cwd(),
        python=given.get("python") or sys.executable,
        modules=tuple(given["slurm_module"] or ()),
        setup=setup.resolve() if setup is not None else None,
    )


def _where(out: Path) -> str:
    """How to name the results folder, if it is not the usual one."""
    return "" if out == Path("results") else f" --out {shlex.quote(str(out))}"

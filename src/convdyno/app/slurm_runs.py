"""Cells as jobs of Slurm: submitted, waited for, collected."""

from __future__ import annotations

import shlex
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from convdyno.app.benchmark import REAL_DATA, command_of, labels_of, stages, with_preset
from convdyno.app.cells import looks_anew, make_trials, refuse_idle
from convdyno.app.requests import RESULTS, BenchRequest
from convdyno.app.result import Result
from convdyno.data import SOURCES
from convdyno.errors import UsageError
from convdyno.launch import slurm
from convdyno.launch.slurm_collect import collect, taken, uncollected
from convdyno.launch.slurm_options import Order, kinds, read_order, tasks_of
from convdyno.launch.slurm_script import Errand, Surroundings
from convdyno.report.format import noun
from convdyno.stage.progress import SILENCE, Narrator
from convdyno.store.folder import Store
from convdyno.store.record import new_record
from convdyno.store.slurm_jobs import Job, files_of, find_run, new_run, read_runs
from convdyno.store.slurm_jobs import JobRun as JobRun
from convdyno.trial import axes
from convdyno.trial.manner import Manner
from convdyno.trial.spec import Trial
from convdyno.trial.words import bench_words

LOOK_SECONDS = (1.0, 15.0)
"""How long to wait before looking again: the least, and the most when nothing happens."""
STARTING_SECONDS = 60.0
"""What a job needs besides its budget, at the least."""
PASSED_ON = ("within", "budget", "rounds", "watchdog", "rank_timeout")
"""What is said of a measurement to each job's."""


@dataclass(frozen=True)
class Errands:
    """The trials of one job, what Slurm is asked for, and what their records are called by."""

    order: Order
    trials: Sequence[Trial]
    labels: Mapping[str, str]


@looks_anew
def submit(request: BenchRequest, narrator: Narrator = SILENCE) -> JobRun:
    """Submit the cells of a benchmark, each as a job; the rungs of a ladder stay together."""
    request = with_preset(request, narrator)
    for name in PASSED_ON:
        request.read(name)
    labels = labels_of(request.labels)
    planned = [Errands(order, trials, labels) for order, trials in _plan(request)]
    return submit_jobs(planned, request)


def submit_jobs(planned: Sequence[Errands], request: BenchRequest) -> JobRun:
    """Give trials to Slurm, measured as the request says."""
    out, setup = request.out, request.slurm_setup
    if setup is not None and not setup.is_file():
        raise UsageError(f"--slurm-setup: there is no file {str(setup)!r}")
    around = Surroundings(
        folder=Path.cwd(),
        python=request.python or sys.executable,
        modules=tuple(request.slurm_module),
        setup=setup.resolve() if setup is not None else None,
    )
    Store(out).prepare()
    run = new_run(planned[0].trials[0].network, request.command or command_of(request))
    made = [_job(run, number, one, request) for number, one in enumerate(planned, 1)]
    chained = not all(one.order.exclusive for one in planned)
    jobs, errands = [job for job, _ in made], [errand for _, errand in made]
    return slurm.submit(run, jobs, errands, around, out, chained=chained)


def submitted(run: JobRun) -> str:
    """That a run was submitted, in words."""
    return f"submitted {run.name}: {noun(len(run.jobs), 'job')}"


def wait(run: JobRun, out: Path, narrator: Narrator = SILENCE) -> JobRun:
    """Look at the jobs now and then until all are over; what changes is told."""
    pause, lost = LOOK_SECONDS[0], ""
    told: dict[str, str] = {}
    try:
        while True:
            try:
                run, lost = slurm.look(run, out), ""
            except UsageError as silent:  # Its controller may be back in a minute.
                if str(silent) != lost:
                    narrator.tell(str(silent))
                lost = str(silent)
            news = {job.id: job.state for job in run.jobs}
            for job in run.jobs:
                if news[job.id] != told.get(job.id):
                    narrator.tell(f"job {job.id} ({job.what}): {standing(job)}")
            pause = LOOK_SECONDS[0] if news != told else min(1.3 * pause, LOOK_SECONDS[1])
            told = news
            if run.over:
                return run
            time.sleep(pause)
    except KeyboardInterrupt:
        narrator.say(
            f"\nthe jobs go on: `convdyno jobs wait {run.name}{where(out)}` waits for them, "
            f"`convdyno jobs cancel {run.name}{where(out)}` ends them"
        )
        raise


def chosen_runs(out: Path, wanted: str | None, *, look: bool = False) -> list[JobRun]:
    """One run, or all of a folder; as Slurm has them now, if it shall be asked."""
    runs = read_runs(out) if wanted is None else [find_run(out, wanted)]
    return [slurm.look(run, out) for run in runs] if look else runs


def cancel(out: Path, wanted: str, numbers: Sequence[int] = ()) -> tuple[JobRun, list[Job]]:
    """Cancel the jobs of a run that are not over, or some of them; which they were."""
    found = slurm.look(find_run(out, wanted), out)
    if unknown := set(numbers) - {one.number for one in found.jobs}:
        raise UsageError(f"{found.name} has jobs 1 to {len(found.jobs)}, and no {min(unknown)}")
    return found, slurm.cancel(one for one in found.jobs if not numbers or one.number in numbers)


def to_collect(out: Path, wanted: str | None) -> list[JobRun]:
    """The run that was asked for, or all that have something to collect; looked at anew."""
    runs = chosen_runs(out, wanted)
    return [slurm.look(run, out) for run in (runs if wanted else uncollected(runs))]


def collected(runs: Sequence[JobRun], out: Path) -> tuple[list[Job], Result]:
    """Take the records of jobs that are over into the results folder; what is not over."""
    store = Store(out)
    over = [collect(run, store) for run in runs]
    records = [record for run in over for record in taken(run, store)]
    # None is made here, where frameworks may not run.
    wanted = {(record.trial.network, Manner.of(record.trial)) for record in records}
    proofs = {key: store.certificate(*key) for key in wanted}
    known = {key: proof for key, proof in proofs.items() if proof is not None}
    waiting = [job for run in over for job in run.jobs if not job.over]
    return waiting, Result(records, known, out)


def standing(job: Job) -> str:
    """How a job is, in Slurm's words."""
    where = f" on {job.nodes}" if job.nodes and job.state != "PENDING" else ""
    why = f" ({job.reason})" if job.reason else ""
    return f"{job.state.lower().replace('_', ' ')}{where}{why}"


def summary(run: JobRun) -> str:
    """How many jobs of a run are in which state."""
    counts = Counter(job.state.lower().replace("_", " ") for job in run.jobs)
    return ", ".join(f"{count} {state}" for state, count in counts.items())


def runs_document(runs: list[JobRun], out: Path) -> dict[str, Any]:
    """Runs and their jobs for machines."""
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


def _plan(request: BenchRequest) -> Iterator[tuple[Order, list[Trial]]]:
    given = request.given
    refuse_idle({name: value for name, value in given.items() if name != "slurm"})
    folders = stages(request.axes)
    orders = [read_order(text) for text in axes.find("slurm").values(given["slurm"])]
    for order, kind in zip(orders, kinds(orders), strict=True):
        trials = make_trials(order, given)
        check_order(order, trials, request, given)
        if folders and any(trial.data in SOURCES for trial in trials):
            raise UsageError(REAL_DATA)
        together: dict[str, list[Trial]] = {}
        for trial in trials:
            named = trial.model_copy(update={"slurm": kind})
            key = named.model_copy(update={"rung": "source"}).digest
            together.setdefault(key, []).append(named)
        for group in together.values():
            for folder in folders or [""]:
                yield order, [one.model_copy(update={"staged": folder or None}) for one in group]


def check_order(
    order: Order, trials: Sequence[Trial], request: BenchRequest, given: axes.Given
) -> None:
    """What would go wrong only after hours in the queue."""
    budget = request.read("budget")
    if order.minutes is not None and 60 * order.minutes < budget + STARTING_SECONDS:
        raise UsageError(
            f"a job of time={order.options['time']} ends after {60 * order.minutes:g} s, too soon "
            f"for a --budget of {budget:g} s and {STARTING_SECONDS:g} s to start: give it more time"
        )
    cores = axes.find("cores").values(given.get("cores", "auto"))
    if order.cpus is not None and set(cores) - {None, order.cpus}:
        raise UsageError(
            f"--cores {axes.word(given['cores'])} and cpus-per-task={order.cpus} are the same "
            "thing: give one"
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


def _job(run: JobRun, number: int, one: Errands, request: BenchRequest) -> tuple[Job, Errand]:
    order, trials = one.order, one.trials
    first = trials[0]
    header = order.header(first)
    what = f"{first.label}, {first.slurm}"
    stage = None
    if first.staged is not None:
        label, _, folder = first.staged.partition("=")
        stage, what = (label, folder), f"{what}, staged to {label}"
    words = bench_words(first, ladder=len(trials) > 1)
    for name in PASSED_ON:
        words += [f"--{name.replace('_', '-')}", axes.word(getattr(request, name))]
    for label, value in one.labels.items():
        words += ["--label", f"{label}={value}"]
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
        files=files_of(request.out, run.name, number),
    )
    return job, errand


def where(out: Path) -> str:
    """How to name the results folder, if it is not the usual one."""
    return "" if out == RESULTS else f" --out {shlex.quote(str(out))}"

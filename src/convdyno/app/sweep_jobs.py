"""The part of a sweep that Slurm is given: each trial a job of its own."""

from __future__ import annotations

from contextlib import ExitStack

from convdyno.app import slurm_runs
from convdyno.app.requests import BenchRequest
from convdyno.app.slurm_runs import Errands, submit_jobs, submitted
from convdyno.app.sweep_plan import Plan
from convdyno.launch import slurm
from convdyno.launch.slurm_collect import collect, uncollected
from convdyno.stage.progress import Narrator
from convdyno.stats.index_figures import figures
from convdyno.store import cell_locks
from convdyno.store.folder import Store
from convdyno.store.index import Index
from convdyno.store.slurm_jobs import JobRun, read_runs
from convdyno.store.sweep_plan import OPEN, PlannedTrial, SweepPlan

SUBMITTING_SECONDS = 600.0
"""How long giving all jobs to Slurm may take."""


def run_jobs(agenda: SweepPlan, plan: Plan, how: BenchRequest, narrator: Narrator) -> None:
    """Submit what is neither done nor in the queue, wait for all of it, and collect."""
    out = how.out
    store = Store(out)
    with ExitStack() as held:
        ours, others = _claimed(agenda, how, narrator, held)
        # Only now: what others have submitted is in the queue before they let go of it.
        runs = _still_queued(agenda, how, narrator)
        queued = {trial.digest for run in runs for job in run.jobs for trial in job.trials}
        for one in others:
            one.taken = one.trial.digest not in queued
        missing = [o for o in ours if o.standing in OPEN and o.trial.digest not in queued]
        if missing:
            runs.append(_submit(missing, plan, how))
            narrator.tell(submitted(runs[-1]))
    for run in runs:
        collect(slurm_runs.wait(run, out, narrator), store)
    agenda.look(Index(out, figures).heads())


def _still_queued(agenda: SweepPlan, how: BenchRequest, narrator: Narrator) -> list[JobRun]:
    """Earlier runs that have a part of this plan and are not over; others are collected."""
    out = how.out
    wanted = {one.trial.digest for one in agenda.left}
    waiting = []
    for run in uncollected(read_runs(out)):
        if wanted & {trial.digest for job in run.jobs for trial in job.trials}:
            seen = collect(slurm.look(run, out), Store(out))
            if not seen.over:
                waiting.append(seen)
                narrator.tell(f"{seen.name} was submitted before, and is waited for")
    agenda.look(Index(out, figures).heads())
    return waiting


def _claimed(
    agenda: SweepPlan, how: BenchRequest, narrator: Narrator, held: ExitStack
) -> tuple[list[PlannedTrial], list[PlannedTrial]]:
    """What is ours to submit for as long as that takes, and what others are submitting."""
    ours, others = [], []
    for one in agenda.left:
        if one.trial.slurm is None:
            continue
        name = cell_locks.cell_name(one.trial.digest, one.trial.slurm)
        found = cell_locks.claim(how.out, name, SUBMITTING_SECONDS)
        if isinstance(found, cell_locks.Claim):
            held.callback(found.release)
            ours.append(one)
        else:
            others.append(one)
            narrator.tell(f"{one.trial.label} is being submitted by {found}")
    return ours, others


def _submit(missing: list[PlannedTrial], plan: Plan, how: BenchRequest) -> JobRun:
    together: dict[str, list[PlannedTrial]] = {}
    for one in missing:
        key = one.trial.model_copy(update={"rung": "source"}).digest
        together.setdefault(key, []).append(one)
    jobs = [
        Errands(plan.orders[str(group[0].trial.slurm)], [o.trial for o in group], group[0].labels)
        for group in together.values()
    ]
    return submit_jobs(jobs, how)

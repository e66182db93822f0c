"""The part of a sweep that Slurm is given: each trial a job of its own."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from convdyno.cli.plan import Plan
    from convdyno.results.jobs import JobRun
    from convdyno.stage.sweep_plan import PlannedTrial, SweepPlan

SUBMITTING_SECONDS = 600.0
"""How long giving all jobs to Slurm may take."""


def run_jobs(agenda: SweepPlan, plan: Plan, given: dict[str, Any]) -> None:
    """Submit what is neither done nor in the queue, wait for all of it, and collect."""
    from convdyno.cli.slurm import wait
    from convdyno.launch.collect import collect
    from convdyno.results.store import Store
    from convdyno.stage.sweep_plan import OPEN

    out, quiet = given["out"], given["as_json"]
    store = Store(out)
    with ExitStack() as held:
        ours, others = _claimed(agenda, given, held)
        # Only now: what others have submitted is in the queue before they let go of it.
        runs = _still_queued(agenda, given)
        queued = {trial.digest for run in runs for job in run.jobs for trial in job.trials}
        for one in others:
            one.taken = one.trial.digest not in queued
        missing = [o for o in ours if o.standing in OPEN and o.trial.digest not in queued]
        if missing:
            runs.append(_submit(missing, plan, given))
    for run in runs:
        collect(wait(run, out, quiet=quiet), store)
    look(agenda, given)


def look(agenda: SweepPlan, given: dict[str, Any]) -> None:
    """How everything stands now."""
    from convdyno.results.index import Index
    from convdyno.stats.index_figures import figures

    agenda.look(Index(given["out"], figures).heads())


def _still_queued(agenda: SweepPlan, given: dict[str, Any]) -> list[JobRun]:
    """Earlier runs that have a part of this plan and are not over; others are collected."""
    from convdyno.launch import slurm
    from convdyno.launch.collect import collect, uncollected
    from convdyno.results.jobs import read_runs
    from convdyno.results.store import Store

    out = given["out"]
    wanted = {one.trial.digest for one in agenda.left}
    waiting = []
    for run in uncollected(read_runs(out)):
        if wanted & {trial.digest for job in run.jobs for trial in job.trials}:
            seen = collect(slurm.look(run, out), Store(out))
            if not seen.over:
                waiting.append(seen)
                if not given["as_json"]:
                    typer.echo(f"{seen.name} was submitted before, and is waited for", err=True)
    look(agenda, given)
    return waiting


def _claimed(
    agenda: SweepPlan, given: dict[str, Any], held: ExitStack
) -> tuple[list[PlannedTrial], list[PlannedTrial]]:
    """What is ours to submit for as long as that takes, and what others are submitting."""
    from convdyno.results.claims import Claim, claim
    from convdyno.results.machines import cell_name

    ours, others = [], []
    for one in agenda.left:
        if one.trial.slurm is None:
            continue
        name = cell_name(one.trial.digest, one.trial.slurm)
        found = claim(given["out"], name, SUBMITTING_SECONDS)
        if isinstance(found, Claim):
            held.callback(found.release)
            ours.append(one)
        else:
            others.append(one)
            if not given["as_json"]:
                typer.echo(f"{one.trial.label} is being submitted by {found}", err=True)
    return ours, others


def _submit(missing: list[PlannedTrial], plan: Plan, given: dict[str, Any]) -> JobRun:
    from convdyno.cli.slurm import submit

    together: dict[str, list[PlannedTrial]] = {}
    for one in missing:
        key = one.trial.model_copy(update={"rung": "source"}).digest
        together.setdefault(key, []).append(one)
    jobs = []
    for group in together.values():
        first = group[0]
        labels = [f"{name}={value}" for name, value in first.labels.items()]
        order = plan.orders[str(first.trial.slurm)]
        jobs.append((order, [one.trial for one in group], given | {"label": labels}))
    return submit(jobs)

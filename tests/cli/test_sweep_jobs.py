"""Sweeps of Slurm jobs that share a store: each cell is submitted once."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from convdyno.app import sweep_jobs
from convdyno.app.requests import BenchRequest
from convdyno.report.sweep import left_words
from convdyno.stage.progress import SILENCE
from convdyno.store import cell_locks
from convdyno.store.cell_locks import cell_name
from convdyno.store.folder import Store
from convdyno.store.slurm_jobs import Job, JobRun, new_run
from convdyno.store.sweep_plan import PlannedTrial, SweepPlan
from convdyno.trial.spec import Trial

TRIAL = Trial(network="deepmnist", engine="clockwork", batch=50, slurm="GPU/k80")
CELL = cell_name(TRIAL.digest, "GPU/k80")


def submitted(out: Path) -> JobRun:
    job = Job(
        number=1, id="22", what="deepmnist", trials=(TRIAL,), record_ids=("given-1",), asked={}
    )
    run = new_run("deepmnist", "convdyno sweep").with_jobs([job])
    run.write(out)
    return run


def cancelled(run: JobRun, *_: Any) -> JobRun:
    return run.with_jobs([job.but(state="CANCELLED") for job in run.jobs])


@pytest.fixture
def agenda(tmp_path: Path) -> SweepPlan:
    Store(tmp_path).prepare()
    return SweepPlan([PlannedTrial(TRIAL)], "fast")


@pytest.fixture
def sweep(agenda: SweepPlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Run the jobs of the agenda, all of which are cancelled; how many runs were submitted."""
    runs: list[Any] = []

    def submit(missing: list[PlannedTrial], *_: Any) -> JobRun:
        runs.append(missing)
        return submitted(tmp_path)

    monkeypatch.setattr(sweep_jobs, "_submit", submit)
    monkeypatch.setattr("convdyno.launch.slurm.look", lambda run, out: run)
    monkeypatch.setattr("convdyno.app.slurm_runs.wait", cancelled)

    def run() -> int:
        plan: Any = None
        sweep_jobs.run_jobs(agenda, plan, BenchRequest(out=tmp_path), SILENCE)
        return len(runs)

    return run


def test_a_job_that_ended_without_a_result_is_the_reason(
    agenda: SweepPlan, sweep: Callable[[], int]
) -> None:
    assert sweep() == 1
    assert agenda.planned[0].standing == "interrupted"
    assert left_words(agenda).startswith(
        "1 cell not measured to the end: Slurm job 22: CANCELLED. The same command goes on"
    )


def test_what_another_sweep_has_just_submitted_is_waited_for(
    sweep: Callable[[], int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = cell_locks.claim

    def late(*given: Any) -> Any:
        submitted(tmp_path)
        return plain(*given)

    monkeypatch.setattr(cell_locks, "claim", late)
    assert sweep() == 0
    assert [record.reason for record in Store(tmp_path).records()] == ["Slurm job 22: CANCELLED"]


def test_what_another_sweep_is_submitting_is_elsewhere(
    agenda: SweepPlan, sweep: Callable[[], int], tmp_path: Path
) -> None:
    taken = cell_locks.claim(tmp_path, CELL, 60)
    assert isinstance(taken, cell_locks.Claim)
    assert sweep() == 0
    agenda.look([])
    assert agenda.planned[0].standing == "elsewhere"
    taken.release()

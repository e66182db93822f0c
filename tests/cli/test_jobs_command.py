"""`convdyno jobs` for machines, about jobs that are over, so that Slurm is not asked."""

from pathlib import Path
from typing import Any

import pytest
from schemas import keeps_to

from convdyno.store.slurm_jobs import Job, JobRun, new_run
from convdyno.trial.spec import Trial

TRIAL = Trial(network="deepmnist", engine="torch", batch=50, slurm="GPU/k80")


def job(number: int, **values: Any) -> Job:
    plain = {"id": f"2{number}", "what": "deepmnist", "asked": {"gres": "gpu:k80:1"}}
    ours = {"number": number, "trials": (TRIAL,), "record_ids": (f"given-{number}",)}
    return Job.model_validate(plain | ours | values)


@pytest.fixture
def run(tmp_path: Path) -> JobRun:
    """One job that went well and one that did not."""
    jobs = (
        job(1, state="COMPLETED", nodes="n1", collected=("one",)),
        job(2, state="NODE_FAIL", reason="NodeDown", nodes="n[1-2]"),
    )
    made = new_run("deepmnist", "convdyno bench deepmnist --slurm time=15").with_jobs(jobs)
    (tmp_path / "results" / "jobs").mkdir(parents=True)
    made.write(tmp_path / "results")
    return made


@pytest.mark.parametrize(("words", "code"), [(("list",), 0), (("list", "last"), 0), (("wait",), 5)])
def test_runs_are_told_with_their_jobs(
    convdyno: Any, run: JobRun, words: tuple[str, ...], code: int
) -> None:
    outcome = convdyno("jobs", *words, "--json")
    assert outcome.code == code
    (told,) = keeps_to("jobs", outcome.json)["runs"]
    assert (told["run"], told["over"]) == (run.name, True)
    assert [one["state"] for one in told["jobs"]] == ["COMPLETED", "NODE_FAIL"]
    assert told["jobs"][0]["records"] == ["one"]


def test_what_is_over_is_not_cancelled(convdyno: Any, run: JobRun) -> None:
    document = keeps_to("jobs", convdyno("jobs", "cancel", "last", "--json").json)
    assert document == {"run": run.name, "cancelled": []}


def test_a_folder_without_jobs_has_none(convdyno: Any) -> None:
    assert keeps_to("jobs", convdyno("jobs", "list", "--json").json)["runs"] == []

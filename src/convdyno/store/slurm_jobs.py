"""Runs that Slurm was given: one small file each, `jobs/RUN.json` beside the records.

Whatever is learnt of a job is written down at once, because Slurm forgets it after a while.
"""

from __future__ import annotations

import datetime
import re
import secrets
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from convdyno import __version__
from convdyno.errors import BadStore
from convdyno.store.folder import read_document, write_whole
from convdyno.store.names import shortened
from convdyno.store.record import Frozen, RecordId
from convdyno.trial.spec import Trial

ENDED = frozenset({
    "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY",
    "PREEMPTED", "REVOKED", "TIMEOUT", "LOST",
})  # fmt: skip
"""Slurm's words for a job that is over; LOST is ours for one that it no longer knows."""


class Job(Frozen):
    """One job: a cell, or the rungs of one ladder."""

    number: int
    """In its run, from 1; its files are called by it."""
    id: Annotated[str, Field(pattern="^[0-9]*$")]
    """Slurm's: a number, and no option of a command that is given it."""
    what: str
    """The trial, in words."""
    trials: tuple[Trial, ...]
    """As they were submitted."""
    record_ids: tuple[RecordId, ...]
    """What their records are called if the job itself leaves none."""
    asked: dict[str, str]
    """The options of sbatch."""
    gpu: str | None = None
    """The kind of GPU that was asked for."""
    gpus: int = 0
    """How many of them."""
    state: str = "PENDING"
    """Slurm's word, as last heard."""
    reason: str = ""
    nodes: str = ""
    facts: dict[str, str] = Field(default={})
    """What else Slurm said of it."""
    collected: tuple[RecordId, ...] = ()
    """The records that were taken over, once it is over."""

    @property
    def over(self) -> bool:
        """Whether it will not run any more."""
        return self.state in ENDED


class JobRun(Frozen):
    """All jobs of one command."""

    schema_version: Literal[1] = 1
    convdyno: str = __version__
    name: RecordId
    created: str
    """The time, UTC, ISO 8601."""
    command: str
    """What submitted it."""
    jobs: tuple[Job, ...] = ()

    @property
    def over(self) -> bool:
        """Whether every job is."""
        return all(job.over for job in self.jobs)

    def with_jobs(self, jobs: Iterable[Job]) -> JobRun:
        """The run with its jobs as they are now."""
        return self.but(jobs=tuple(jobs))

    def write(self, out: Path) -> None:
        """Write it in place of its earlier state."""
        write_whole(jobs_folder(out) / f"{self.name}.json", self.model_dump_json(indent=1))


def new_run(network: str, command: str) -> JobRun:
    """A run that is about to be submitted."""
    now = datetime.datetime.now(datetime.UTC)
    name = re.sub(r"[^A-Za-z0-9._]+", "-", network).strip("-.")[:40]
    return JobRun(
        name=f"{now:%Y%m%dT%H%M%S}-{name}-{secrets.token_hex(2)}",
        created=now.isoformat(timespec="seconds"),
        command=command,
    )


def jobs_folder(out: Path) -> Path:
    """Where the jobs of a results folder are."""
    return out / "jobs"


def files_of(out: Path, run: str, job: int) -> Path:
    """The beginning of the names of a job's files, and the folder of its own records."""
    return jobs_folder(out).resolve() / run / str(job)


def read_runs(out: Path) -> list[JobRun]:
    """All runs of a results folder, the oldest first."""
    return [_read(path) for path in sorted(jobs_folder(out).glob("*.json"))]


def find_run(out: Path, wanted: str) -> JobRun:
    """The run whose name is or begins with `wanted`; `last` is the newest."""
    runs = read_runs(out)
    if not runs:
        raise BadStore(f"no jobs were submitted from {str(out)!r}: `convdyno bench --slurm` does")
    by_name = {run.name: run for run in runs}
    return by_name[shortened(wanted, [*by_name], "run of jobs")]


def _read(path: Path) -> JobRun:
    found = read_document(JobRun, path, "list of jobs")
    if found.name != path.stem:
        raise BadStore(f"{path} is no list of jobs: it calls itself {found.name!r}")
    return found

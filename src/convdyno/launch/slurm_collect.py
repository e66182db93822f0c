"""The records of jobs, taken over into the store: each once, and none is missing.

A job writes its records into a folder of its own, one folder for each time that Slurm started it. A
job that was cancelled, killed or lost has left none, or one that goes half the way: how it ended,
in Slurm's own word, is the reason in its record.
"""

from __future__ import annotations

import contextlib
import shlex
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from convdyno.errors import BadStore
from convdyno.launch.slurm import Mark, marks
from convdyno.store.folder import Store, read_record
from convdyno.store.record import Process, Rank, Record, Status, new_record
from convdyno.store.slurm_jobs import Job, JobRun, files_of
from convdyno.trial.spec import Trial

STATUS: dict[str, Status] = {
    "CANCELLED": "interrupted",
    "PREEMPTED": "interrupted",
    "REVOKED": "interrupted",
    "TIMEOUT": "timeout",
    "DEADLINE": "timeout",
    "OUT_OF_MEMORY": "oom",
}
"""What a job's end means for its record; everything else that is not COMPLETED is a failure."""
REFUSED = 2
"""The exit code of a command that could not be carried out as it was given."""
LAST_WORDS_BYTES = 8192
SETTLING_SECONDS = 10.0
"""How long to wait for what a job that has ended by itself must have written."""


def collect(run: JobRun, store: Store) -> JobRun:
    """Take over the records of all jobs that are over; the run as it is then, written down."""
    jobs = []
    for job in run.jobs:
        if job.over:
            files = files_of(store.folder, run.name, job.number)
            again = f"sbatch {shlex.quote(str(files.with_suffix('.sh')))}"
            records = [record.but(command=again) for record in _records(job, files)]
            for record in records:
                if record.id not in job.collected:
                    store.write(record)
            job = job.but(collected=tuple(record.id for record in records))
        jobs.append(job)
    now = run.with_jobs(jobs)
    if now != run:
        now.write(store.folder)
    return now


def taken(run: JobRun, store: Store) -> list[Record]:
    """The records of a run that are in the store."""
    return [
        read_record(path)
        for job in run.jobs
        for name in job.collected
        if (path := store.folder / f"{name}.json").exists()
    ]


def _records(job: Job, files: Path) -> Iterator[Record]:
    """Everything that each start of a job has left; the last one says how the job ended."""
    left = _settled(job, files.with_suffix(".marks"))
    own = [mark for mark in left if mark.job == job.id]
    for mark in own[:-1]:
        reason = f"Slurm job {job.id}: REQUEUED after it had begun on {mark.host}"
        for record in _found(files, mark)[0]:
            if record.status in ("ok", "interrupted"):
                record = record.but(status="interrupted", reason=reason)
            yield _placed(record, job, job.trials[0], _facts(job) | {"nodes": mark.host})
    yield from _ended(job, files, *(_found(files, own[-1]) if own else ([], [])))
    for mark in left:  # The script was given to sbatch again, by hand.
        if mark.job != job.id and mark.exit_code is not None:
            for record in _found(files, mark)[0]:
                yield _placed(record, job, job.trials[0], {"job": mark.job, "nodes": mark.host})


def _settled(job: Job, path: Path) -> list[Mark]:
    """A job's marks, once its end is among them: a shared file system may be a little late."""
    deadline = time.monotonic() + SETTLING_SECONDS
    while True:
        left = marks(path)
        ended = any(mark.job == job.id and mark.exit_code is not None for mark in left)
        if ended or job.state not in ("COMPLETED", "FAILED") or time.monotonic() > deadline:
            return left
        time.sleep(0.5)


def _found(files: Path, mark: Mark) -> tuple[list[Record], list[str]]:
    """What one start of a job has written down; a sentence for each file that is not a record."""
    store = Store(files / f"{mark.job}-{mark.attempt}")
    with contextlib.suppress(BadStore):
        return list(store.records()), store.skipped
    return [], []


def _ended(
    job: Job, files: Path, records: Sequence[Record], unreadable: Sequence[str]
) -> Iterator[Record]:
    """The last start of a job: a record for each of its trials."""
    by_rung = {record.trial.rung: record for record in records}
    for trial, name in zip(job.trials, job.record_ids, strict=True):
        record = by_rung.get(trial.rung)
        if record is None:
            said = "; ".join(unreadable) or _last_words(files.with_suffix(".log"))
            status, reason = _why_none(job, said)
            record = new_record(trial, status=status, reason=reason).but(id=name)
        elif record.status == "interrupted" and job.state != "COMPLETED":
            # A record that says "stopped by SIGTERM" does not know why; Slurm does.
            record = record.but(status=STATUS.get(job.state, "failed"), reason=_end(job))
        if (restarts := job.facts.get("restarts", "0")) != "0":
            again = f"Slurm put job {job.id} back into its queue (restarts: {restarts})"
            record = record.but(warnings=(*record.warnings, again))
        yield _placed(record, job, trial, _facts(job))


def _why_none(job: Job, said: str) -> tuple[Status, str]:
    """The status and the reason of a job without a record, by its end and what it said."""
    if job.state == "FAILED" and job.facts.get("exit_code", "").partition(":")[0] == str(REFUSED):
        return "refused", f"{_end(job)}: {said}" if said else _end(job)
    if job.state in ("FAILED", "COMPLETED"):
        return "failed", f"{_end(job)}, without a result{f': {said}' if said else ''}"
    return STATUS.get(job.state, "failed"), _end(job)


def _end(job: Job) -> str:
    """How a job ended, in Slurm's words."""
    where = f" on {job.nodes}" if job.nodes else ""
    code = job.facts.get("exit_code", "").partition(":")[0]
    detail = job.reason
    if job.state == "FAILED" and code not in ("", "0"):
        detail = f"exit code {code}"
    elif job.state == "CANCELLED" and not detail.startswith("by "):
        detail = ""  # Why it had been waiting.
    elif job.state == "TIMEOUT" and job.facts.get("limit"):
        detail = f"its time limit was {job.facts['limit']}"
    return f"Slurm job {job.id}: {job.state}{where}{f' ({detail})' if detail else ''}"


def _last_words(log: Path) -> str:
    """The sentence in which convdyno says what was wrong, or else the last line of the log."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - LAST_WORDS_BYTES))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError:
        return ""
    spoken = [line.strip() for line in lines if line.strip() and not line.startswith("srun:")]
    ours = [line.removeprefix("convdyno: ") for line in spoken if line.startswith("convdyno: ")]
    return (ours or spoken or [""])[-1][:300]


def _facts(job: Job) -> dict[str, Any]:
    """What a record says of its job."""
    known = {"job": job.id, "state": job.state, "nodes": job.nodes, **job.facts}
    known |= {name: job.asked[name] for name in ("gres", "constraint") if name in job.asked}
    return {name: value for name, value in known.items() if value}


def _placed(record: Record, job: Job, trial: Trial, facts: dict[str, Any]) -> Record:
    """A record that says in which job, on what kind of node and on which devices it was made."""
    gpus = {"gpu_type": job.gpu, "num_gpu": job.gpus}
    slurm: dict[str, Any] = {**record.machine.get("slurm", {}), **facts, **gpus}
    # Where exactly data were copied to differs from job to job, and is in `input`.
    named = record.trial.model_copy(update={"slurm": trial.slurm, "staged": trial.staged})
    return record.but(
        trial=named,
        trial_digest=named.digest,
        machine=record.machine | {"slurm": slurm},
        processes=tuple(_ranked(process, record, slurm) for process in record.processes),
    )


def _ranked(process: Process, record: Record, slurm: dict[str, Any]) -> Process:
    """A process with its only rank: what it was given, shown and has used."""
    if process.ranks:
        return process
    alone = Rank(
        rank=0,
        host=process.host,
        pid=process.pid,
        device=str((record.settings or {}).get("device", "")),
        visible=slurm.get("visible"),
        allocated=slurm.get("allocated"),
        seconds=tuple(block.seconds for block in process.blocks),
        last_loss=process.last_loss,
        peak_memory_bytes=process.peak_memory_bytes,
        device_memory_bytes=process.device_memory_bytes,
    )
    return process.but(ranks=(alone,))


def uncollected(runs: Iterable[JobRun]) -> list[JobRun]:
    """The runs with a job whose records have not been taken over."""
    return [run for run in runs if not all(job.collected for job in run.jobs)]

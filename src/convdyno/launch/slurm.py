"""Slurm, spoken to by its own commands: submit, look, cancel. Accounting is not needed.

What became of a job is told by `squeue` and `scontrol` for as long as they know it, then by
`sacct` where a site has it, and else by the marks that the job's own script has left.
"""

from __future__ import annotations

import contextlib
import re
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from convdyno.errors import UsageError
from convdyno.launch.slurm_script import Errand, Surroundings, script
from convdyno.store.slurm_jobs import Job, JobRun, files_of

PATIENCE_SECONDS = 60.0
"""How long one of Slurm's commands may take."""
NEVER = frozenset({
    "AccountNotAllowed", "BadConstraints", "InvalidAccount", "InvalidQOS", "PartitionConfig",
    "PartitionNodeLimit", "PartitionTimeLimit", "QOSNotAllowed",
})  # fmt: skip
"""Why a job that Slurm has taken would wait for ever."""
FACTS = {
    "Partition": "partition", "Restarts": "restarts", "ExitCode": "exit_code",
    "SubmitTime": "submitted", "StartTime": "started", "EndTime": "ended", "TimeLimit": "limit",
}  # fmt: skip
"""What is kept of a job's description, and how we call it."""


@dataclass(frozen=True)
class Mark:
    """A line that a job's script wrote when it began or ended."""

    job: str
    attempt: int
    exit_code: int | None = None
    """None until it has ended."""
    host: str = ""


def submit(
    run: JobRun, jobs: Sequence[Job], errands: Sequence[Errand], around: Surroundings,
    out: Path, *, chained: bool,
) -> JobRun:  # fmt: skip
    """Write all scripts and submit them; if Slurm refuses one, none is left behind."""
    for errand in errands:
        errand.script.parent.mkdir(parents=True, exist_ok=True)
        errand.script.write_text(script(errand, around), encoding="utf-8")
    done: list[Job] = []
    try:
        for job, errand in zip(jobs, errands, strict=True):
            after = [f"--dependency=afterany:{done[-1].id}"] if chained and done else []
            done.append(job.but(id=_sbatch(errand, after)))
            run = run.with_jobs(done)
            run.write(out)
        run = look(run, out)
        for job in run.jobs:
            if job.state == "PENDING" and job.reason in NEVER:
                raise UsageError(
                    f"Slurm would never start job {job.id} ({job.what}): {job.reason}; the "
                    "whole run was withdrawn"
                )
    except BaseException:
        _withdraw([job.id for job in done], run, errands, out)
        raise
    return run


def look(run: JobRun, out: Path) -> JobRun:
    """The run as Slurm sees it now, written down if anything is new."""
    if run.over:
        return run
    queue = _squeue([job.id for job in run.jobs if not job.over])
    now = run.with_jobs(
        job if job.over else _seen(job, queue.get(job.id), run, out) for job in run.jobs
    )
    if now != run:
        now.write(out)
    return now


def cancel(jobs: Iterable[Job]) -> list[Job]:
    """Cancel those that are not over; which these were."""
    waiting = [job for job in jobs if not job.over]
    if waiting:
        done = _call("scancel", *(job.id for job in waiting))
        if done.returncode:
            raise UsageError(f"Slurm did not cancel the jobs: {_words(done)}")
    return waiting


def marks(path: Path) -> list[Mark]:
    """What a job's script has left of its beginnings and ends, one for each attempt."""
    found: dict[tuple[str, int], Mark] = {}
    with contextlib.suppress(OSError):
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            match line.split():
                case ["begin", job, attempt, host, _] if attempt.isdecimal():
                    found[job, int(attempt)] = Mark(job, int(attempt), host=host)
                case ["end", job, attempt, code, _] if attempt.isdecimal() and code.isdecimal():
                    begun = found.get((job, int(attempt)), Mark(job, int(attempt)))
                    found[job, int(attempt)] = replace(begun, exit_code=int(code))
    return list(found.values())


def as_described(job: Job, text: str) -> Job:
    """A job as `scontrol --oneliner show job` describes it; free text comes last there."""
    found: dict[str, str] = {}
    for name, value in re.findall(r"(?:^|\s)([A-Za-z/:]+)=(\S*)", text):
        found.setdefault(name, "" if value in ("None", "(null)", "N/A") else value)
    return job.but(
        state=found.get("JobState", job.state),
        reason=found.get("Reason", ""),
        nodes=found.get("NodeList", ""),
        facts={ours: found[name] for name, ours in FACTS.items() if found.get(name)},
    )


def _sbatch(errand: Errand, more: Sequence[str]) -> str:
    done = _call("sbatch", "--parsable", *more, str(errand.script))
    number = done.stdout.strip().partition(";")[0]
    if done.returncode or not number.isdecimal():
        raise UsageError(f"Slurm refused {errand.what}: {_words(done)}")
    return number


def _withdraw(ids: Sequence[str], run: JobRun, errands: Sequence[Errand], out: Path) -> None:
    """Undo a submission."""
    if ids:
        with contextlib.suppress(UsageError):
            _call("scancel", *ids)
    folder = files_of(out, run.name, 0).parent
    for errand in errands:
        for file in (errand.script, errand.log, errand.marks):
            file.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        folder.rmdir()
    (folder.parent / f"{run.name}.json").unlink(missing_ok=True)


def _seen(job: Job, row: Sequence[str] | None, run: JobRun, out: Path) -> Job:
    """A job with what is known of it now."""
    if row is not None:
        state, reason, nodes = row
        job = job.but(state=state, reason="" if reason == "None" else reason, nodes=nodes)
        return (_described(job) or job) if job.over else job
    files = files_of(out, run.name, job.number)
    return _described(job) or _accounted(job) or _marked(job, files)


def _described(job: Job) -> Job | None:
    """A job with the last that `scontrol` says of it; None once that has forgotten it."""
    done = _call("scontrol", "--oneliner", "show", "job", job.id)
    return None if done.returncode else as_described(job, done.stdout)


def _accounted(job: Job) -> Job | None:
    """What the site's accounting says, where there is one."""
    wanted = "--format=State,ExitCode,NodeList,Partition,Start,End"
    done = _call("sacct", "--noheader", "--parsable2", "--allocations", f"--jobs={job.id}", wanted)
    lines = done.stdout.splitlines() if not done.returncode else []
    if not lines:
        return None
    state, code, nodes, partition, start, end = (*lines[-1].split("|"), *[""] * 6)[:6]
    word, _, by = state.partition(" ")  # CANCELLED by 1000
    facts = {"exit_code": code, "partition": partition, "started": start, "ended": end}
    return job.but(state=word, reason=by, nodes=nodes, facts={k: v for k, v in facts.items() if v})


def _marked(job: Job, files: Path) -> Job:
    """What the job's own marks say."""
    own = [mark for mark in marks(files.with_suffix(".marks")) if mark.job == job.id]
    if not own:
        return job.but(state="LOST", reason="Slurm no longer knows it, and it never began")
    last = own[-1]
    if last.exit_code is None:
        why = "Slurm no longer knows it, and its script did not reach its end: it was killed"
        return job.but(state="LOST", reason=why, nodes=last.host)
    return job.but(
        state="FAILED" if last.exit_code else "COMPLETED",
        reason=f"exit code {last.exit_code}" if last.exit_code else "",
        nodes=last.host,
        facts={"exit_code": f"{last.exit_code}:0", "restarts": str(last.attempt)},
    )


def _squeue(ids: Sequence[str]) -> dict[str, list[str]]:
    """State, reason and nodes of those that Slurm knows."""
    done = _call(
        "squeue", "--noheader", "--states=all", f"--jobs={','.join(ids)}", "--format=%A|%T|%r|%N"
    )
    if done.returncode and "Invalid job id" not in done.stderr:
        raise UsageError(f"Slurm does not say how the jobs are: {_words(done)}")
    rows = (line.strip().split("|") for line in done.stdout.splitlines())
    return {row[0]: row[1:] for row in rows if len(row) == 4}


def _call(*command: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=PATIENCE_SECONDS,
        )
    except FileNotFoundError:
        if command[0] == "sacct":
            return subprocess.CompletedProcess(command, 1, "", "")
        why = f"{command[0]} was not found: is this a machine of a Slurm site?"
    except subprocess.TimeoutExpired:
        why = f"Slurm gave no answer to {command[0]} for {PATIENCE_SECONDS:.0f} s"
    raise UsageError(why)


def _words(done: subprocess.CompletedProcess[str]) -> str:
    """What a command said, on one line and without its own name."""
    lines = (line.strip() for line in (done.stderr or done.stdout).splitlines())
    said = [re.sub(r"^(?:sbatch|squeue|scancel): (?:error: )?", "", line) for line in lines]
    return "; ".join(filter(None, said)) or f"exit code {done.returncode}"

"""Every job has a record in the end: its own, or one that says in Slurm's words how it ended."""

import csv
import io
from pathlib import Path

import pytest

from convdyno.launch.slurm import as_described, marks
from convdyno.launch.slurm_collect import collect, taken, uncollected
from convdyno.report.cell import cell_of
from convdyno.report.csv import write_csv
from convdyno.store.folder import Store
from convdyno.store.record import Block, Process, Record, new_record
from convdyno.store.slurm_jobs import Job, JobRun, files_of, find_run, new_run
from convdyno.trial.spec import Trial

TRIAL = Trial(network="deepmnist", engine="torch", batch=50, slurm="GPU/k80")
IN_JOB = TRIAL.model_copy(update={"slurm": None})
DESCRIBED = (
    "JobId=22 JobName=f.sh UserId=root(0) GroupId=root(0) MCS_label=N/A Priority=4294901740 Nice=0 "
    "Account=(null) QOS=(null) JobState={state} Reason={reason} Dependency=(null) Requeue=1 "
    "Restarts=0 BatchFlag=1 Reboot=0 ExitCode={code} RunTime=00:01:26 TimeLimit=00:01:00 "
    "TimeMin=N/A SubmitTime=2026-11-16T03:41:43 EligibleTime=2026-11-16T03:41:43 "
    "StartTime=2026-11-16T03:41:44 EndTime=2026-11-16T03:43:10 Deadline=N/A SuspendTime=None "
    "Scheduler=Main Partition=GPU AllocNode:Sid=localhost:21587 ReqNodeList=(null) "
    "ExcNodeList=(null) NodeList=n1 BatchHost=n1 NumNodes=1 NumCPUs=1 NumTasks=1 CPUs/Task=1 "
    "TRES=cpu=1,node=1,billing=1 Command=/tmp/sl/f.sh 300 WorkDir=/tmp/sl "
    "Comment=a JobState=COMPLETED TresPerNode=gres:gpu:k80:1 "
)
"""What Slurm 22.05 said of a job; its comment tries to say something else."""


@pytest.fixture(autouse=True)
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("convdyno.launch.slurm_collect.SETTLING_SECONDS", 0.0)


def job(number: int = 1, **values: object) -> Job:
    plain = {
        "number": number,
        "id": "22",
        "what": "deepmnist",
        "trials": (TRIAL,),
        "record_ids": (f"given-{number}",),
        "asked": {"gres": "gpu:k80:1"},
        "gpu": "k80",
        "gpus": 1,
    }
    return Job.model_validate(plain | values)


def run_of(*jobs: Job) -> JobRun:
    return new_run("deepmnist", "convdyno bench").with_jobs(jobs)


def leave(out: Path, run: JobRun, text: str, *records: Record, start: str = "22-0") -> Path:
    """What a job would have left: its marks and its records."""
    files = files_of(out, run.name, 1)
    files.mkdir(parents=True, exist_ok=True)
    files.with_suffix(".marks").write_text(text)
    for record in records:
        Store(files / start).write(record)
    return files


def measured(**values: object) -> Record:
    process = Process(
        round=0, host="n1", pid=7, blocks=(Block(seconds=1.0, steps=10),), last_loss=2.0
    )
    machine = {"slurm": {"job": "22", "allocated": "SLURM_STEP_GPUS=0", "visible": "0"}}
    plain = {"status": "ok", "processes": (process,), "machine": machine}
    return new_record(IN_JOB, settings={"device": "cuda:0"}, **(plain | values))


@pytest.mark.parametrize(
    ("state", "reason", "code", "status", "words"),
    [
        ("TIMEOUT", "TimeLimit", "143:0", "timeout", "TIMEOUT on n1 (its time limit was 00:01:00)"),
        ("CANCELLED", "None", "143:0", "interrupted", "CANCELLED on n1"),
        ("OUT_OF_MEMORY", "OutOfMemory", "0:125", "oom", "OUT_OF_MEMORY on n1 (OutOfMemory)"),
        ("NODE_FAIL", "NodeDown", "0:0", "failed", "NODE_FAIL on n1 (NodeDown)"),
        ("PREEMPTED", "None", "0:0", "interrupted", "PREEMPTED on n1"),
        ("FAILED", "NonZeroExitCode", "7:0", "failed", "FAILED on n1 (exit code 7)"),
        ("COMPLETED", "None", "0:0", "failed", "COMPLETED on n1, without a result"),
    ],
)
def test_a_job_without_a_record_gets_one(
    tmp_path: Path, state: str, reason: str, code: str, status: str, words: str
) -> None:
    described = DESCRIBED.format(state=state, reason=reason, code=code)
    run = run_of(as_described(job(), described))
    store = Store(tmp_path)
    (record,) = taken(collect(run, store), store)
    assert (record.id, record.status) == ("given-1", status)
    assert record.reason is not None
    assert record.reason.startswith(f"Slurm job 22: {words}")
    assert record.trial == TRIAL
    assert record.machine["slurm"]["gpu_type"] == "k80"
    assert record.machine["slurm"]["partition"] == "GPU"


def test_half_a_record_keeps_its_blocks_and_says_how_the_job_ended(tmp_path: Path) -> None:
    described = DESCRIBED.format(state="TIMEOUT", reason="TimeLimit", code="143:0")
    run = run_of(as_described(job(), described))
    half = measured(status="interrupted")
    leave(tmp_path, run, "begin 22 0 n1 5\nend 22 0 143 9\n", half)
    store = Store(tmp_path)
    (record,) = taken(collect(run, store), store)
    assert (record.id, record.status) == (half.id, "timeout")
    assert len(record.measured) == 1


def test_a_reason_of_its_own_is_better_than_slurms(tmp_path: Path) -> None:
    run = run_of(job(state="FAILED", facts={"exit_code": "5:0"}))
    leave(
        tmp_path, run, "begin 22 0 n1 5\n", measured(status="oom", reason="try a smaller --batch")
    )
    store = Store(tmp_path)
    (record,) = taken(collect(run, store), store)
    assert (record.status, record.reason) == ("oom", "try a smaller --batch")


def test_a_command_that_was_refused_says_why_in_the_log(tmp_path: Path) -> None:
    run = run_of(job(state="FAILED", facts={"exit_code": "2:0"}))
    files = leave(tmp_path, run, "begin 22 0 n1 5\nend 22 0 2 9\n")
    files.with_suffix(".log").write_text(
        "convdyno 0.1.0\nconvdyno: no data in 'x'\nsrun: error: n1: task 0: Exited\n"
    )
    store = Store(tmp_path)
    (record,) = taken(collect(run, store), store)
    assert record.status == "refused"
    assert record.reason == "Slurm job 22: FAILED (exit code 2): no data in 'x'"


def test_a_record_of_another_version_is_not_passed_over(tmp_path: Path) -> None:
    run = run_of(job(state="COMPLETED"))
    files = leave(tmp_path, run, "begin 22 0 n1 5\nend 22 0 0 9\n", measured())
    (path,) = files.glob("*/*.json")
    path.write_text(path.read_text().replace('"schema_version": 2', '"schema_version": 99'))
    store = Store(tmp_path)
    (record,) = taken(collect(run, store), store)
    assert record.status == "failed"
    assert "it has schema 99" in (record.reason or "")


def test_records_say_what_was_allocated_visible_and_used(tmp_path: Path) -> None:
    run = run_of(job(state="COMPLETED"))
    leave(tmp_path, run, "begin 22 0 n1 5\nend 22 0 0 9\n", measured())
    store = Store(tmp_path)
    (record,) = taken(collect(run, store), store)
    (rank,) = record.processes[0].ranks
    assert record.command == f"sbatch {files_of(tmp_path, run.name, 1)}.sh"
    assert (rank.allocated, rank.visible, rank.device) == ("SLURM_STEP_GPUS=0", "0", "cuda:0")
    assert rank.seconds == (1.0,)
    assert record.trial.slurm == "GPU/k80"
    assert record.trial_digest == record.trial.digest


def test_each_start_of_a_requeued_job_has_its_record(tmp_path: Path) -> None:
    run = run_of(job(state="COMPLETED", facts={"restarts": "1"}))
    first, second = measured(status="interrupted"), measured()
    leave(tmp_path, run, "begin 22 0 n1 5\nbegin 22 1 n2 7\nend 22 1 0 9\n", first)
    leave(tmp_path, run, "begin 22 0 n1 5\nbegin 22 1 n2 7\nend 22 1 0 9\n", second, start="22-1")
    store = Store(tmp_path)
    one, two = taken(collect(run, store), store)
    assert (one.id, one.status) == (first.id, "interrupted")
    assert one.reason == "Slurm job 22: REQUEUED after it had begun on n1"
    assert (two.id, two.status) == (second.id, "ok")
    assert "back into its queue" in two.warnings[0]


def test_collecting_again_changes_nothing(tmp_path: Path) -> None:
    run = run_of(job(state="CANCELLED"), job(2, id="23"))
    run.write(tmp_path)
    store = Store(tmp_path)
    once = collect(run, store)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.json")}
    assert collect(find_run(tmp_path, run.name), store) == once
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.json")} == before
    assert [one.collected for one in once.jobs] == [("given-1",), ()]
    assert uncollected([once]) == [once]


def test_a_script_that_was_submitted_by_hand_is_collected_too(tmp_path: Path) -> None:
    run = run_of(job(state="COMPLETED"))
    own, again = measured(), measured()
    leave(tmp_path, run, "begin 22 0 n1 5\nend 22 0 0 9\n", own)
    store = Store(tmp_path)
    run = collect(run, store)
    both = "begin 22 0 n1 5\nend 22 0 0 9\nbegin 31 0 n2 5\nend 31 0 0 9\n"
    leave(tmp_path, run, both, again, start="31-0")
    found = taken(collect(run, store), store)
    assert [record.id for record in found] == [own.id, again.id]
    assert found[1].machine["slurm"]["job"] == "31"


def test_marks_that_are_cut_short_are_not_believed(tmp_path: Path) -> None:
    path = tmp_path / "1.marks"
    assert marks(path) == []
    path.write_text("begin 22 0 n1 5\nend 22 0\nbegin x\n\0\0")
    (mark,) = marks(path)
    assert (mark.job, mark.host, mark.exit_code) == ("22", "n1", None)


def test_the_older_tools_columns_tell_kind_number_and_storage(tmp_path: Path) -> None:
    staged = TRIAL.model_copy(update={"staged": "local=$LOCAL"})
    run = run_of(job(state="COMPLETED", trials=(staged,)))
    leave(tmp_path, run, "begin 22 0 n1 5\nend 22 0 0 9\n", measured())
    store = Store(tmp_path)
    text = io.StringIO()
    write_csv([cell_of(record) for record in taken(collect(run, store), store)], text)
    (line,) = csv.DictReader(io.StringIO(text.getvalue()))
    assert (line["gpu_type"], line["num_gpu"], line["staged_from"]) == ("k80", "1", "local")

"""Real Slurm: a matrix of jobs submitted, waited for and collected, whatever becomes of each."""

import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from lab_slurm import Slurm
from runs import bars
from schemas import keeps_to

from convdyno.store.folder import Store, read_record
from convdyno.store.record import Record
from convdyno.store.slurm_jobs import find_run

PATIENT = ("--rank-timeout", "2m")
QUICK = ("--rounds", "1", "--within", "any", "--budget", "3m", *PATIENT)
SHORT = ("deepmnist", "--engine", "clockwork", "--device", "step=0.01", *QUICK)
LONG = (
    "deepmnist", "--engine", "clockwork", "--device", "step=0.01;clock=real", "--budget", "10m",
    "--rounds", "50", *PATIENT,
)  # fmt: skip
"""Goes on until it is ended."""
PATIENCE = 240


class Site:
    """A user at a machine of the cluster, with a folder of their own."""

    def __init__(self, slurm: Slurm, home: Path) -> None:
        self.slurm, self.home = slurm, home
        self.out = home / "results"

    def __call__(self, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "convdyno", *words]
        done = self.slurm.run(*command, cwd=self.home, timeout=1800)
        assert done.returncode == code, f"{done.returncode}: {done.stderr}\n{done.stdout}"
        return done

    def submit(self, *words: str) -> str:
        """Submit and return at once; the run's name."""
        done = self("bench", *words, "--detach")
        return re.findall(r"submitted (\S+):", done.stdout)[0]

    def records(self) -> list[Record]:
        return list(Store(self.out).records())

    def jobs(self, *run: str) -> list[dict[str, Any]]:
        listed = keeps_to("jobs", json.loads(self("jobs", "list", *run, "--json").stdout))
        return [job for one in listed["runs"] for job in one["jobs"]]

    def until(self, state: str, *run: str) -> dict[str, Any]:
        """Wait for the first job of a run to be in a state."""
        end = time.monotonic() + PATIENCE
        while (job := self.jobs(*run)[0])["state"] != state:
            assert time.monotonic() < end, job
            time.sleep(0.5)
        return job


@pytest.fixture
def site(slurm: Slurm, tmp_path: Path) -> Site:
    return Site(slurm, tmp_path)


def test_a_matrix_of_gpu_type_count_and_staging(site: Site) -> None:
    bars(site.home / "bars")
    (site.home / "site.sh").write_text(
        'export LOCAL=/srv/local SCRATCH="$PWD/scratch disk"\nmkdir -p "$LOCAL" "$SCRATCH"\n'
    )
    shown = site(
        "bench", *SHORT, "--data", "bars", "--stage-from", "scratch=$SCRATCH,local=$LOCAL",
        "--devices", "1,2", "--slurm-setup", "site.sh",
        "--slurm", "partition=GPU,gres=gpu:k80:4,cpus-per-task=1,time=15",
        "--slurm", "partition=GPU,gres=gpu:p100,cpus-per-task=1,time=15",
    )  # fmt: skip
    assert "completed on n2" in shown.stderr
    assert shown.stdout.count("weak scaling: 50 images on each device") == 4

    records = site.records()
    cells = {
        (r.machine["slurm"]["gpu_type"], r.machine["slurm"]["num_gpu"], r.trial.staged): r
        for r in records
    }
    assert len(cells) == len(records) == 8
    assert {key[2] for key in cells} == {"scratch=$SCRATCH", "local=$LOCAL"}
    for (kind, count, staged), record in cells.items():
        assert record.status == "ok", record.reason
        assert record.trial.slurm == f"GPU/{kind}"
        assert record.trial.devices == count
        assert record.machine["host"] == {"k80": "n1", "p100": "n2"}[kind]
        assert record.machine["slurm"]["gres"] == f"gpu:{kind}:{count}"
        assert record.machine["slurm"]["partition"] == "GPU"
        granted = ",".join(map(str, range(count)))
        ranks = record.processes[0].ranks
        assert len(ranks) == count
        for rank in ranks:
            assert rank.allocated == f"SLURM_STEP_GPUS={granted}"
            assert rank.visible == granted
            assert rank.device == "clockwork"
        assert record.input is not None
        place = {"scratch=$SCRATCH": "scratch disk/", "local=$LOCAL": "/srv/local/"}[staged or ""]
        assert place in str(record.input)
    assert not list((site.home / "scratch disk").iterdir())


def test_detached_jobs_are_waited_for_collected_and_not_twice(site: Site) -> None:
    run = site.submit(*SHORT, "--slurm", "partition=GPU,gres=gpu:k80", "--devices", "1")
    assert not site.records()
    assert "1 completed" in site("jobs", "wait", run[:20]).stdout
    (cell,) = keeps_to("bench", json.loads(site("jobs", "collect", "--json").stdout))["cells"]
    assert cell["status"] == "ok"
    (record,) = site.records()
    (rank,) = record.processes[0].ranks
    assert (rank.allocated, rank.visible) == ("SLURM_STEP_GPUS=0", "0")
    files = {path: path.read_bytes() for path in site.out.rglob("*.json")}
    site("jobs", "collect", run)
    assert "collected before" in site("jobs", "collect").stdout
    assert {path: path.read_bytes() for path in site.out.rglob("*.json")} == files

    # By hand: the script as it is.
    script = site.jobs(run)[0]["script"]
    assert site.slurm.run("sbatch", "--wait", script).returncode == 0
    assert len(json.loads(site("jobs", "collect", run, "--json").stdout)["cells"]) == 2
    first, second = site.records()
    assert first.trial.slurm == second.trial.slurm == "GPU/k80"
    assert first.machine["slurm"]["job"] != second.machine["slurm"]["job"]


def test_jobs_that_end_badly_are_records_with_slurms_word(site: Site) -> None:
    slurm = ("--slurm", "partition=RM,cpus-per-task=1")
    crashing = (*SHORT[:4], "step=0.01;fail=crash", *QUICK)
    failing = site.submit(*crashing, *slurm)
    running = site.submit(*LONG, *slurm)
    waiting = site.submit(*SHORT, *slurm)
    without = site.submit(
        *SHORT, "--data", str(bars(site.home / "bars")), "--stage-from", "local=$NOWHERE", *slurm
    )
    said = site("jobs", "cancel", waiting).stdout
    assert said.startswith("cancelled: ")
    site("jobs", "collect", waiting, code=4)
    site.until("RUNNING", running)
    end = time.monotonic() + PATIENCE
    while not list((site.out / "jobs" / running / "1").glob("*/*.json")):
        assert time.monotonic() < end
        time.sleep(0.5)
    number = site.jobs(running)[0]["slurm"]
    assert site.slurm.run("scancel", number).returncode == 0
    site("jobs", "wait", running, code=5)
    site("jobs", "wait", without, code=5)
    site("jobs", "wait", failing, code=5)
    site("jobs", "collect", code=5)

    by_run = {
        name: find_run(site.out, name).jobs[0] for name in (failing, running, waiting, without)
    }
    found = {
        name: read_record(site.out / f"{job.collected[0]}.json") for name, job in by_run.items()
    }
    assert found[failing].status == "failed"
    assert "SIGSEGV" in (found[failing].reason or "")
    assert found[running].status == "interrupted"
    assert found[running].reason == f"Slurm job {number}: CANCELLED on n3"
    assert found[running].measured
    assert found[waiting].status == "interrupted"
    assert found[waiting].reason == f"Slurm job {by_run[waiting].id}: CANCELLED"
    assert found[without].status == "failed"
    assert "NOWHERE: is not set on this node" in (found[without].reason or "")
    assert len(site.records()) == 4


def test_a_requeued_job_has_a_record_for_each_start(site: Site) -> None:
    run = site.submit(*LONG, "--slurm", "partition=RM,requeue,cpus-per-task=1")
    folder = site.out / "jobs" / run / "1"
    number = site.until("RUNNING", run)["slurm"]
    for attempt in (0, 1):
        end = time.monotonic() + PATIENCE
        while not list(folder.glob(f"{number}-{attempt}/*.json")):
            assert time.monotonic() < end
            time.sleep(0.5)
        if attempt == 0:
            assert site.slurm.run("scontrol", "requeue", number).returncode == 0
            site.until("PENDING", run)
            now = site.slurm.run("scontrol", "update", f"jobid={number}", "StartTime=now")
            assert now.returncode == 0, now.stderr
    site("jobs", "cancel", run)
    site("jobs", "wait", run, code=5)
    site("jobs", "collect", run)
    first, second = site.records()
    assert first.reason == f"Slurm job {number}: REQUEUED after it had begun on n3"
    assert second.reason == f"Slurm job {number}: CANCELLED on n3"
    assert "back into its queue" in second.warnings[0]


def test_a_job_that_slurm_has_forgotten_is_known_by_its_marks(site: Site) -> None:
    run = site.submit(*SHORT, "--slurm", "partition=RM,cpus-per-task=1")
    (job,) = site.jobs(run)
    site("jobs", "wait", run)
    folder = site.out / "jobs"
    listed = folder / f"{run}.json"
    forgotten = "987654"
    text = listed.read_text().replace(f'"id": "{job["slurm"]}"', f'"id": "{forgotten}"')
    listed.write_text(text.replace('"COMPLETED"', '"RUNNING"'))
    marks = folder / run / "1.marks"
    marks.write_text(marks.read_text().replace(f" {job['slurm']} ", f" {forgotten} "))
    (folder / run / "1" / f"{job['slurm']}-0").rename(folder / run / "1" / f"{forgotten}-0")
    site("jobs", "collect", run)
    (record,) = site.records()
    assert record.status == "ok"

    begun, _ = marks.read_text().splitlines()
    marks.write_text(f"{begun}\n")
    listed.write_text(text.replace('"COMPLETED"', '"RUNNING"'))
    (killed,) = site.jobs(run)
    assert killed["state"] == "LOST"
    assert "did not reach its end" in killed["reason"]


@pytest.mark.parametrize(
    ("order", "words"),
    [
        ("partition=NOPE", "invalid partition specified: NOPE"),
        ("partition=GPU,gres=gpu:a100", "Requested node configuration is not available"),
        ("partition=GPU,gres=gpu:p100", "Requested node configuration is not available"),
        ("partition=GPU,time=9999", "would never start"),
        ("partition=$(touch evil)", "invalid partition specified: $(touch evil)"),
        ("partition=GPU,constraint=a b'c\"", "Invalid feature specification"),
    ],
)
def test_a_refusal_is_in_slurms_words_and_leaves_nothing(
    site: Site, order: str, words: str
) -> None:
    held = ("--slurm", "partition=RM,cpus-per-task=1,hold")
    done = site("bench", *SHORT, *held, "--slurm", order, "--devices", "3", "--cores", "1", code=2)
    assert words in done.stderr
    assert not list(site.out.rglob("*.*"))
    assert not (site.home / "evil").exists()
    end = time.monotonic() + PATIENCE
    while site.slurm.run("squeue", "--noheader").stdout.strip():
        assert time.monotonic() < end
        time.sleep(0.5)


def test_jobs_that_share_nodes_wait_for_each_other(site: Site) -> None:
    run = site.submit(
        *SHORT, "--batch", "8,16", "--slurm", "partition=RM,exclusive=no,cpus-per-task=1,hold"
    )
    first, second = find_run(site.out, run).jobs
    said = site.slurm.run("scontrol", "--oneliner", "show", "job", second.id).stdout
    assert f"Dependency=afterany:{first.id}(" in said
    site("jobs", "cancel", run, "--job", "2")
    assert [job["state"] for job in site.jobs(run)] == ["PENDING", "CANCELLED"]
    site("jobs", "collect", run, code=3)
    site("jobs", "cancel", run)


def test_ranks_on_two_nodes(site: Site) -> None:
    site(
        "bench", *SHORT, "--devices", "2",
        "--slurm", "partition=GPU,nodes=2,gres=gpu:1,cpus-per-task=1",
    )  # fmt: skip
    (record,) = site.records()
    assert record.trial.hosts == 2
    assert [rank.host for rank in record.processes[0].ranks] == ["n1", "n2"]
    assert record.machine["slurm"]["nodes"] == "n[1-2]"


def test_torch_trains_in_jobs_of_one_and_two_devices(site: Site) -> None:
    document = site(
        "bench", "deepmnist", "--engine", "torch", "--batch", "16", "--devices", "1,2",
        "--slurm", "partition=GPU,gres=gpu:k80,cpus-per-task=1,time=15", *QUICK, "--json",
    )  # fmt: skip
    cells = json.loads(document.stdout)["cells"]
    assert [cell["trial"]["devices"] for cell in cells] == [1, 2]
    assert all(cell["status"] == "ok" for cell in cells)
    one, two = site.records()
    assert [rank.visible for rank in two.processes[0].ranks] == ["0,1", "0,1"]
    assert one.versions["torch"] == two.versions["torch"]

"""A sweep whose cells are jobs of real Slurm: submitted once, waited for and collected."""

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator

import pytest
from lab_slurm import Slurm
from test_slurm import PATIENCE, Site, site  # noqa: F401

SWEEP = """
network = "deepmnist"
engine = "clockwork"
device = "step=0.01"
devices = [1, 2]
rounds = 1
within = "50%"
budget = "3m"
rank-timeout = "2m"

[case.k80]
slurm = "partition=GPU,gres=gpu:k80,cpus-per-task=1,time=15"

[case.p100]
slurm = "partition=GPU,gres=gpu:p100,cpus-per-task=1,time=15"

[[exclude]]
case = "p100"
devices = 2
"""


@pytest.fixture
def user(slurm: Slurm, site: Site) -> Site:  # noqa: F811
    (site.home / "sweep.toml").write_text(SWEEP)
    return site


def test_a_sweep_submits_what_is_missing_and_collects_it(user: Site) -> None:
    document = json.loads(user("sweep", "sweep.toml", "--json", "--label", "site=lab").stdout)
    assert {cell["standing"] for cell in document["cells"]} == {"done"}
    records = user.records()
    assert {record.status for record in records} == {"ok"}
    assert Counter((r.labels["case"], r.trial.devices) for r in records) == {
        ("k80", 1): 1, ("k80", 2): 1, ("p100", 1): 1,
    }  # fmt: skip
    assert {record.labels["site"] for record in records} == {"lab"}
    assert len(user.jobs()) == 3
    user("sweep", "sweep.toml", "--label", "site=lab")
    assert (len(user.jobs()), len(user.records())) == (3, 3)


@pytest.fixture
def kept_waiting(slurm: Slurm) -> Iterator[None]:
    """No job starts before two of them are in the queue."""

    def state(word: str) -> None:
        assert slurm.run("scontrol", "update", "PartitionName=GPU", f"State={word}").returncode == 0

    def release() -> None:
        end = time.monotonic() + PATIENCE
        while len(slurm.run("squeue", "--noheader").stdout.splitlines()) < 2:
            if time.monotonic() > end:
                break
            time.sleep(0.5)
        state("UP")

    state("DOWN")
    releasing = threading.Thread(target=release)
    releasing.start()
    yield
    releasing.join()


@pytest.mark.usefixtures("kept_waiting")
def test_jobs_that_are_in_the_queue_are_waited_for_not_submitted_again(user: Site) -> None:
    user.submit(
        "deepmnist", "--engine", "clockwork", "--device", "step=0.01", "--devices", "1",
        "--rounds", "1", "--within", "50%", "--budget", "3m", "--rank-timeout", "2m",
        "--slurm", "partition=GPU,gres=gpu:k80,cpus-per-task=1,time=15",
    )  # fmt: skip
    done = user("sweep", "sweep.toml", "--set", "case=k80")
    assert "was submitted before, and is waited for" in done.stderr
    assert len(user.jobs()) == 2
    assert {record.status for record in user.records()} == {"ok"}

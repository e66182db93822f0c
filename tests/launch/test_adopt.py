"""Ranks that somebody else has made: who is who, and that they run one trial together."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from convdyno.errors import UsageError
from convdyno.launch.adopt import first_node, found

TORCHRUN = {
    "RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "MASTER_ADDR": "node7",
    "MASTER_PORT": "29500",
}  # fmt: skip
MPIEXEC = {
    "OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
    "PMIX_NAMESPACE": "871",
}  # fmt: skip
SRUN = {
    "SLURM_PROCID": "2", "SLURM_STEP_NUM_TASKS": "3", "SLURM_JOB_ID": "17", "SLURM_STEP_ID": "0",
    "SLURM_STEP_NODELIST": "gpu[03-05]", "SLURM_STEP_NUM_NODES": "3",
}  # fmt: skip
OWN = {"CONVDYNO_RANK": "1", "CONVDYNO_SIZE": "2", "CONVDYNO_ADDRESS": "head"}


@pytest.mark.parametrize(
    "variables, rank, size, addresses",
    [
        (TORCHRUN, 3, 4, "node7"),
        (MPIEXEC, 1, 2, "127.0.0.1"),
        (SRUN, 2, 3, "gpu03"),
        (SRUN | {"SLURM_STEP_NUM_NODES": "1"}, 2, 3, "127.0.0.1"),
        (OWN, 1, 2, "head"),
        (
            MPIEXEC | {
                "OMPI_COMM_WORLD_LOCAL_SIZE": "1",
                "OMPI_MCA_orte_hnp_uri": "871.0;tcp://10.77.0.1,192.168.1.4:4711",
                "OMPI_MCA_orte_node_regex": "head,n[2:1-2,7]@0(4)",
            },
            1, 2, "head n01 n02 n07 10.77.0.1",
        ),
        (SRUN | MPIEXEC, 1, 2, "127.0.0.1"),
    ],
)  # fmt: skip
def test_each_starter_is_known_by_its_variables(
    variables: dict[str, str], rank: int, size: int, addresses: str
) -> None:
    member = found(variables)
    assert member is not None
    assert (member.rank, member.size) == (rank, size)
    assert member.addresses == tuple(addresses.split())


@pytest.mark.parametrize(
    "variables",
    [
        {},
        SRUN | {"SLURM_STEP_NUM_TASKS": "1"},
        {"SLURM_PROCID": "0", "SLURM_NTASKS": "4", "SLURM_JOB_ID": "17"},  # A batch script itself.
        {"RANK": "1", "WORLD_SIZE": "2"},  # Words that anybody may use.
    ],
)
def test_a_process_that_was_started_alone_is_alone(variables: dict[str, str]) -> None:
    assert found(variables) is None


def test_ranks_of_one_job_meet_and_those_of_two_do_not() -> None:
    ours, other = found(SRUN), found(SRUN | {"SLURM_PROCID": "0"})
    another = found(SRUN | {"SLURM_JOB_ID": "18"})
    assert ours is not None and other is not None and another is not None
    assert (ours.port, ours.token) == (other.port, other.token)
    assert ours.port != another.port and ours.token != another.token


@pytest.mark.parametrize("wrong", [{"SLURM_PROCID": "x"}, {"SLURM_PROCID": "3"}])
def test_variables_that_make_no_sense_are_a_sentence(wrong: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="SLURM_PROCID"):
        found(SRUN | wrong)


@pytest.mark.parametrize(
    "nodes, first",
    [("n1", "n1"), ("n1,n2", "n1"), ("n[1-3,7],m2", "n1"), ("gpu[007,009]", "gpu007"),
     ("r[1-2]-ib", "r1-ib")],
)  # fmt: skip
def test_the_first_node_of_slurms_lists(nodes: str, first: str) -> None:
    assert first_node(nodes) == first


def run_as_ranks(folder: Path, size: int, *words: str) -> list[subprocess.CompletedProcess[str]]:
    """The same command as each of several ranks, all at once."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "convdyno", *words],
            cwd=folder,
            env=os.environ
            | {"CONVDYNO_RANK": str(rank), "CONVDYNO_SIZE": str(size), "CONVDYNO_JOB": folder.name},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(size)
    ]
    done = []
    for process in processes:
        out, err = process.communicate(timeout=120)
        done.append(subprocess.CompletedProcess(process.args, process.returncode, out, err))
    return done


BENCH = ("bench", "deepmnist", "--engine", "clockwork", "--rounds", "2", "--budget", "5s")


def test_several_ranks_are_one_trial_and_only_the_first_speaks(tmp_path: Path) -> None:
    first, *others = run_as_ranks(tmp_path, 3, *BENCH, "--json")
    assert [one.returncode for one in (first, *others)] == [0, 0, 0], first.stderr
    assert {(one.stdout, one.stderr) for one in others} == {("", "")}
    (row,) = json.loads(first.stdout)["cells"]
    assert row["trial"]["devices"] == 3
    (record,) = [json.loads(path.read_text()) for path in (tmp_path / "results").glob("*.json")]
    assert record["processes"]
    for process in record["processes"]:
        assert [rank["rank"] for rank in process["ranks"]] == [0, 1, 2]
        assert len({rank["pid"] for rank in process["ranks"]}) == 3


def test_a_mistake_is_said_once_and_ends_all(tmp_path: Path) -> None:
    first, second = run_as_ranks(tmp_path, 2, *BENCH, "--devices", "4")
    assert first.returncode == 2
    assert "has made 2 ranks, so --devices can only be 2" in first.stderr
    assert (second.returncode, second.stdout, second.stderr) == (0, "", "")


def test_a_rank_that_is_killed_is_named_and_nothing_is_left(tmp_path: Path) -> None:
    words = (*BENCH, "--device", "clock=real;step=0.01", "--budget", "60s", "--json")
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "convdyno", *words],
            cwd=tmp_path,
            env=os.environ
            | {"CONVDYNO_RANK": str(rank), "CONVDYNO_SIZE": "2", "CONVDYNO_JOB": tmp_path.name},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    worker = _child(processes[1].pid)
    os.kill(worker, 9)
    out, _ = processes[0].communicate(timeout=60)
    assert processes[1].wait(60) == 0
    (row,) = json.loads(out)["cells"]
    assert row["status"] == "failed" and "rank 1 on" in row["reason"], row["reason"]
    assert "SIGKILL" in row["reason"]


def _child(pid: int) -> int:
    """The worker of a rank, once it has been measured for the first time."""
    import time

    import psutil

    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        children: list[Any] = psutil.Process(pid).children()
        if children and time.time() - children[0].create_time() > 3:
            return int(children[0].pid)
        time.sleep(0.1)
    raise AssertionError("rank 1 has no worker")

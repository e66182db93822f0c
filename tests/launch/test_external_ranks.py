"""Ranks that somebody else has started run one trial together."""

import contextlib
import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import external
import psutil
import pytest

from convdyno.machine.processor import core_count, usable_cores


def test_several_ranks_are_one_trial_and_only_the_first_speaks(tmp_path: Path) -> None:
    first, *others = external.run(tmp_path, 3, *external.BENCH, "--json")
    assert [one.returncode for one in (first, *others)] == [0, 0, 0], first.stderr
    assert {(one.stdout, one.stderr) for one in others} == {("", "")}
    (row,) = json.loads(first.stdout)["cells"]
    assert row["trial"]["devices"] == 3
    (record,) = [json.loads(path.read_text()) for path in (tmp_path / "results").glob("*.json")]
    assert record["processes"]
    for process in record["processes"]:
        assert [rank["rank"] for rank in process["ranks"]] == [0, 1, 2]
        assert len({rank["pid"] for rank in process["ranks"]}) == 3


@pytest.mark.skipif(len(usable_cores()) < 2, reason="ranks are bound to a core each")
def test_ranks_that_are_bound_to_a_core_each_are_on_the_machine_that_they_are_on(
    tmp_path: Path,
) -> None:
    whole = usable_cores()
    started = []
    try:
        for rank in range(2):
            os.sched_setaffinity(0, {whole[rank]})
            started.append(external.start(tmp_path, rank, 2, *external.BENCH))
    finally:
        os.sched_setaffinity(0, whole)
    assert [external.finish(one).returncode for one in started] == [0, 0]
    (record,) = [json.loads(path.read_text()) for path in (tmp_path / "results").glob("*.json")]
    assert record["machine"]["cores_usable"] == core_count(whole[:2])


def test_a_mistake_is_said_once_and_ends_all(tmp_path: Path) -> None:
    first, second = external.run(tmp_path, 2, *external.BENCH, "--devices", "4")
    assert first.returncode == 2
    assert "has made 2 ranks, so --devices can only be 2" in first.stderr
    assert (second.returncode, second.stdout, second.stderr) == (0, "", "")


def test_a_rank_that_is_killed_is_named_and_nothing_is_left(tmp_path: Path) -> None:
    endless = ("--device", "clock=real;step=0.01", "--rounds", "50", "--within", "0.01%")
    words = (*external.BENCH, *endless, "--json")
    processes = [external.start(tmp_path, rank, 2, *words) for rank in range(2)]
    out = None
    while out is None:
        # One that has just done its part of a round is missed by nobody: then the next one.
        os.kill(_child(processes[1].pid), 9)
        with contextlib.suppress(subprocess.TimeoutExpired):
            out, _ = processes[0].communicate(timeout=20)
    assert processes[1].wait(60) == 0
    (row,) = json.loads(out)["cells"]
    assert row["status"] == "failed" and "rank 1 on" in row["reason"], row["reason"]
    assert "SIGKILL" in row["reason"]


def _child(pid: int) -> int:
    """The worker of a rank, once it has been measured for the first time."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        children: list[Any] = psutil.Process(pid).children()
        with contextlib.suppress(psutil.NoSuchProcess):
            if children and time.time() - children[0].create_time() > 2:
                return int(children[0].pid)
        time.sleep(0.1)
    raise AssertionError("rank 1 has no worker")

"""A rank that dies, stops, hangs or fails: named within the limit, and nobody is left."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from convdyno.errors import TrialFailed
from convdyno.launch.local import Here
from convdyno.launch.transport import PipeLink
from convdyno.launch.worker_group import WorkerGroup
from convdyno.trial.spec import Trial

LIMIT = 8.0
"""Seconds of silence after which a rank is lost; a busy machine may leave it no breath."""
Begin = Callable[..., WorkerGroup]


@pytest.fixture
def crew() -> Iterator[Begin]:
    """Start a crew of two; when a test is over, none of its processes may be."""
    started: list[tuple[WorkerGroup, list[int]]] = []

    def begin(engine: str, device: str = "cpu", rank_seconds: float = LIMIT) -> WorkerGroup:
        trial = Trial(
            network="deepmnist", engine=engine, batch=8, device=device, devices=2, threads=1
        )
        one = Here().start(trial, rank_seconds)
        assert isinstance(one, WorkerGroup)
        pids: list[int] = []
        started.append((one, pids))
        one.ask("open", silence=200, trial=trial.model_dump(mode="json"))
        pids += [rank.pid for rank in one.ranks]
        return one

    yield begin
    for one, pids in started:
        one.end()
        assert not left_over(pids)


def left_over(pids: list[int]) -> list[int]:
    """The processes that are still there, or have left something in their group."""
    return [pid for pid in pids if psutil.pid_exists(pid) or group_exists(pid)]


def group_exists(leader: int) -> bool:
    try:
        os.killpg(leader, 0)
    except ProcessLookupError:
        return False
    return True


def measure_until_lost(crew: WorkerGroup, silence: float = 200) -> TrialFailed:
    with pytest.raises(TrialFailed) as lost:
        for turn in range(10_000):
            crew.ask("measure", silence=silence, turn=turn, blocks=5)
    return lost.value


def strike(crew: WorkerGroup, rank: int, number: signal.Signals) -> TrialFailed:
    """Send one rank a signal in the middle of a measurement; what is said of it."""
    crew.ask("warm", silence=200, seconds=0.5)
    threading.Timer(0.5, os.kill, (crew.ranks[rank].pid, number)).start()
    return measure_until_lost(crew)


KILLED, STOPPED = "died (SIGKILL)", f"was lost: no sign of life for {LIMIT:.0f} s"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("engine", "number", "rank"),
    [
        ("torch", signal.SIGKILL, 1),
        ("torch", signal.SIGSTOP, 1),
        ("jax", signal.SIGKILL, 0),  # JAX's coordinator is there: without it, others end at once.
        ("jax", signal.SIGSTOP, 1),
        ("tensorflow", signal.SIGSTOP, 1),
        # Two processes of a framework each, for a rank that is no other to it.
        pytest.param("jax", signal.SIGKILL, 1, marks=pytest.mark.long),
        pytest.param("tensorflow", signal.SIGKILL, 1, marks=pytest.mark.long),
        pytest.param("tensorflow", signal.SIGSTOP, 0, marks=pytest.mark.long),
    ],
)
def test_a_lost_rank_of_a_framework_is_named(
    crew: Begin, engine: str, number: signal.Signals, rank: int
) -> None:
    failure = strike(crew(engine), rank, number)
    assert failure.status == "failed"
    assert f"rank {rank} on this machine" in str(failure)


@pytest.mark.parametrize("rank", [1, 0])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
def test_a_lost_rank_is_named_without_a_framework_too(
    crew: Begin, number: signal.Signals, rank: int
) -> None:
    failure = strike(crew("clockwork", "step=0.01;clock=real"), rank, number)
    how = KILLED if number == signal.SIGKILL else STOPPED
    assert str(failure).startswith(f"rank {rank} on this machine {how} while being measured")


@pytest.mark.parametrize("rank", [1, 0])
@pytest.mark.parametrize("status", ["oom", "nan"])
def test_the_status_is_that_of_the_rank_that_failed(crew: Begin, status: str, rank: int) -> None:
    one = crew("clockwork", f"step=0.01;clock=real;fail={status};at=3;rank={rank}")
    failure = measure_until_lost(one)
    assert failure.status == status
    assert str(failure).startswith(f"rank {rank} on this machine: ")


@pytest.mark.parametrize("rank", [1, 0])
def test_a_rank_that_crashed_is_named_though_the_others_fail_too(crew: Begin, rank: int) -> None:
    one = crew("clockwork", f"step=0.01;clock=real;fail=crash;at=3;rank={rank}")
    assert str(measure_until_lost(one)).startswith(f"rank {rank} on this machine died (SIGSEGV)")


@pytest.mark.parametrize("rank", [1, 0])
def test_a_rank_that_hangs_but_lives_is_named_by_its_silence(crew: Begin, rank: int) -> None:
    one = crew("clockwork", f"step=0.01;clock=real;fail=hang;at=3;rank={rank}")
    failure = measure_until_lost(one, silence=5)
    assert failure.status == "timeout"
    assert str(failure).startswith(f"rank {rank} on this machine: no answer for 5 s")


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPU cores")
def test_ctrl_c_leaves_nobody(tmp_path: Path) -> None:
    command: list[Any] = [
        sys.executable, "-m", "convdyno", "bench", "deepmnist", "--engine", "clockwork",
        "--device", "step=0.01;clock=real", "--devices", "2", "--batch", "8", "--budget", "5m",
    ]  # fmt: skip
    parent = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL)
    try:
        workers = busy_workers(parent.pid)
        parent.send_signal(signal.SIGINT)
        assert parent.wait(240) != 0
    finally:
        parent.kill()
        parent.wait()
    assert not left_over(workers)
    (record,) = (tmp_path / "results").rglob("*.json")
    assert "stopped by Ctrl-C" in record.read_text()


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPU cores")
def test_a_parent_that_was_stopped_for_long_has_lost_nobody(tmp_path: Path) -> None:
    command: list[Any] = [
        sys.executable, "-m", "convdyno", "bench", "deepmnist", "--engine", "clockwork",
        "--device", "step=0.01;clock=real", "--devices", "2", "--batch", "8", "--budget", "12s",
        "--rank-timeout", "3s", "--rounds", "1",
    ]  # fmt: skip
    parent = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL)
    try:
        busy_workers(parent.pid)
        parent.send_signal(signal.SIGSTOP)
        time.sleep(5)
        parent.send_signal(signal.SIGCONT)
        assert parent.wait(240) == 0
    finally:
        parent.kill()
        parent.wait()


def test_pings_never_fill_the_line_to_a_worker_that_does_not_read() -> None:
    """Training for hours, a worker reads nothing; its parent must not wait for that."""
    link = PipeLink(["sleep", "60"])

    def ping() -> None:
        for _ in range(20_000):
            link.ping()

    pinging = threading.Thread(target=ping, daemon=True)
    pinging.start()
    pinging.join(20)
    stuck = pinging.is_alive()
    link.end()
    assert not stuck


def busy_workers(parent: int, seconds: float = 120) -> list[int]:
    """The ranks below a process, once there are two that have worked for a while."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = psutil.Process(parent).children(recursive=True)
        if len(found) == 2 and all(one.num_threads() > 1 for one in found):
            time.sleep(2)
            return [one.pid for one in found]
        time.sleep(0.1)
    raise AssertionError(f"no two workers within {seconds} s")


def test_a_rank_that_closes_long_before_another_has_not_died(crew: Begin) -> None:
    one = crew("clockwork", "step=0.002")
    one.ask("warm", silence=60, seconds=0.1)
    first, second = (rank.pid for rank in one.ranks)
    os.kill(first, signal.SIGSTOP)

    def go_on() -> None:
        psutil.Process(second).wait(240)
        os.kill(first, signal.SIGCONT)

    waiting = threading.Thread(target=go_on)
    waiting.start()
    assert one.ask("close", silence=60)["event"] == "closed"
    waiting.join()

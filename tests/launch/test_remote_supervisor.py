"""A tether: lines pass both ways, and nobody is left when the parent is gone."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from convdyno.launch.remote_supervisor import HERE

ECHO = """
import sys
print("ready", flush=True)
for line in sys.stdin:
    print("heard", line.strip(), flush=True)
"""
STUBBORN = """
import os, signal, subprocess, sys, time
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
children = [
    subprocess.Popen(["sleep", "300"]),
    subprocess.Popen(["sleep", "301"], start_new_session=True),
    subprocess.Popen(["sh", "-c", "setsid sleep 302 & exit 0"]),
]
children[2].wait()
print("ready", flush=True)
time.sleep(300)
"""
Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def tether() -> Iterator[Start]:
    started: list[subprocess.Popen[bytes]] = []

    def start(script: str, limit: float = 60, *options: str) -> subprocess.Popen[bytes]:
        command = [
            sys.executable,
            "-m",
            "convdyno.launch.remote_supervisor",
            "--limit",
            str(limit),
            *options,
        ]
        pipe = subprocess.PIPE
        process = subprocess.Popen(
            [*command, sys.executable, "-c", script], stdin=pipe, stdout=pipe, stderr=pipe
        )
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == HERE
        return process

    yield start
    for process in started:
        for one in family(process):
            one.kill()
        process.wait(240)


def family(process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    """A tether, and everything that was ever started below it."""
    try:
        top = psutil.Process(process.pid)
        return [top, *top.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def line(process: subprocess.Popen[bytes]) -> bytes:
    assert process.stdout is not None
    return process.stdout.readline()


def say(process: subprocess.Popen[bytes], **command: object) -> None:
    assert process.stdin is not None
    process.stdin.write(json.dumps(command).encode() + b"\n")
    process.stdin.flush()


def all_gone(processes: list[psutil.Process], seconds: float = 120) -> bool:
    end = time.monotonic() + seconds
    while any(p.is_running() and p.status() != psutil.STATUS_ZOMBIE for p in processes):
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def test_lines_pass_and_only_the_tethers_own_words_are_kept(tether: Start) -> None:
    process = tether(ECHO)
    assert line(process) == b"ready\n"
    say(process, do="ping")
    say(process, do="open", trial={"batch": 1})
    say(process, do="x" * 100)
    assert line(process) == b'heard {"do": "open", "trial": {"batch": 1}}\n'
    assert line(process) == b'heard {"do": "' + b"x" * 100 + b'"}\n'


def test_a_worker_that_ends_by_itself_ends_its_tether_with_its_code(tether: Start) -> None:
    process = tether("import sys; print('last'); sys.exit(3)")
    assert line(process) == b"last\n"
    assert json.loads(line(process)) == {
        "event": "ended", "status": "failed", "how": "died (exit code 3)",
    }  # fmt: skip
    assert process.wait(240) == 3


def test_a_killed_worker_is_told_even_if_its_child_holds_its_output_open(tether: Start) -> None:
    process = tether(
        "import os, subprocess; subprocess.Popen(['sleep', '300']); os.kill(os.getpid(), 9)"
    )
    assert json.loads(line(process))["how"] == "died (SIGKILL)"
    assert process.wait(240) == 128 + signal.SIGKILL


def test_everybody_ends_when_the_parents_pipe_closes(tether: Start) -> None:
    process = tether(STUBBORN)
    assert line(process) == b"ready\n"
    everybody = family(process)
    assert len(everybody) == 5  # The tether, the worker, three that sleep.
    assert process.stdin is not None
    process.stdin.close()
    assert all_gone(everybody)


def test_everybody_ends_when_the_parent_is_killed() -> None:
    parent = (
        "import subprocess, sys, time\n"
        "held = [sys.executable, '-m', 'convdyno.launch.remote_supervisor', '--limit', '60']\n"
        f"worker = [sys.executable, '-c', {STUBBORN!r}]\n"
        "p = subprocess.Popen([*held, *worker], stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n"
        "p.stdout.readline(), p.stdout.readline(), print(p.pid, flush=True), time.sleep(300)"
    )
    process = subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE)
    held = psutil.Process(int(line(process)))
    everybody = [held, *held.children(recursive=True)]
    assert len(everybody) == 5
    process.kill()
    process.communicate()
    assert all_gone(everybody)


def test_everybody_ends_when_a_parent_that_is_there_says_nothing(tether: Start) -> None:
    process = tether(STUBBORN, 1.5)
    assert line(process) == b"ready\n"
    everybody = family(process)
    for _ in range(5):
        time.sleep(0.5)
        say(process, do="ping")
    assert process.poll() is None  # Pings kept it for longer than the limit.
    assert process.wait(240) == 128 + signal.SIGKILL
    assert all_gone(everybody)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_everybody_ends_with_a_tether_that_is_asked_to(
    tether: Start, number: signal.Signals
) -> None:
    process = tether(STUBBORN)
    assert line(process) == b"ready\n"
    everybody = family(process)
    os.kill(process.pid, number)
    assert all_gone(everybody)


def test_end_ends_and_nudge_only_nudges(tether: Start) -> None:
    process = tether(
        "import signal, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: print('saved', flush=True))\n"
        "print('ready', flush=True)\n"
        "time.sleep(300)"
    )
    assert line(process) == b"ready\n"
    say(process, do="nudge")
    assert line(process) == b"saved\n"
    assert process.poll() is None
    say(process, do="end")
    assert process.wait(240) == 128 + signal.SIGKILL


def test_silence_ends_a_worker_whose_output_nobody_reads(tether: Start) -> None:
    process = tether("while True: print('x' * 1000)", 1.0)
    everybody = family(process)
    assert process.wait(240) == 128 + signal.SIGKILL
    assert all_gone(everybody)


def test_it_starts_in_the_first_folder_that_is_there(tether: Start, tmp_path: Path) -> None:
    folders = ["--in", str(tmp_path / "none"), "--in", str(tmp_path), "--in", "/"]
    process = tether("import os; print(os.getcwd())", 60, *folders)
    assert line(process).decode().strip() == str(tmp_path)


def test_a_tether_needs_nothing_but_python() -> None:
    """It runs before anything is installed on the far host."""
    command = [
        sys.executable,
        "-S",
        "-m",
        "convdyno.launch.remote_supervisor",
        "--limit",
        "9",
        "true",
    ]
    source = Path(__file__).parents[2] / "src"
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(command, env={"PYTHONPATH": str(source)}, **pipes) as held:
        assert held.stderr is not None
        said = held.stderr.read()  # Until it has ended by itself: hanging up would end it.
    assert held.returncode == 0, said

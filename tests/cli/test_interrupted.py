"""Ctrl-C and SIGTERM: one exit code and one sentence, whatever the command was doing."""

import os
import pty
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from convdyno.store.folder import Store

HANGS = ("--engine", "clockwork", "--device", "fail=hang;at=0")
"""A worker that is there and never ready."""
MEASURES = ("--engine", "clockwork", "--device", "clock=real;step=0.01", "--within", "0.01%")
BUSY = {
    "bench": (
        ("bench", "trivial", *HANGS),
        "nothing was measured yet; the same command begins anew",
    ),
    "gate": (
        ("gate", "trivial", *HANGS, "--batch", "8", "--base-set", "threads=1"),
        "there is no verdict; the records are in results/gate, and the same command begins anew",
    ),
    "tune": (
        ("tune", "trivial", *HANGS),
        "no preset was made; the records are in results/tune, and the same command begins anew",
    ),
    "certify": (
        ("certify", "vgg16", "--engine", "reference"),
        "0 of 1 certificates are made and kept in results; the same command makes all anew",
    ),
    "doctor": (("doctor",), "the same command begins anew"),
}


def start(folder: Path, *words: str, **more: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "convdyno", *words],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more,
    )  # fmt: skip


def await_worker(process: subprocess.Popen[str]) -> list[psutil.Process]:
    """Wait until a worker was started; all of them."""
    end = time.monotonic() + 240
    while time.monotonic() < end and process.poll() is None:
        found = psutil.Process(process.pid).children(recursive=True)
        # What asks about the machine is a process, too.
        with suppress(psutil.Error):
            if any("convdyno.run.worker" in one.cmdline() for one in found):
                return found
        time.sleep(0.02)
    raise AssertionError("no worker was started")


@pytest.mark.parametrize(("words", "kept"), BUSY.values(), ids=BUSY)
@pytest.mark.parametrize(
    ("number", "who"), [(signal.SIGINT, "Ctrl-C"), (signal.SIGTERM, "SIGTERM")]
)
def test_a_signal_has_one_exit_code_and_one_sentence_everywhere(
    tmp_path: Path, words: tuple[str, ...], kept: str, number: signal.Signals, who: str
) -> None:
    process = start(tmp_path, *words)
    left = await_worker(process)
    process.send_signal(number)
    _, err = process.communicate(timeout=240)
    assert process.returncode == 128 + number, err
    assert err.splitlines()[-1] == f"convdyno: stopped by {who}: {kept}"
    assert "Traceback" not in err
    assert psutil.wait_procs(left, timeout=240)[1] == []


@pytest.mark.parametrize(
    ("number", "who"), [(signal.SIGINT, "Ctrl-C"), (signal.SIGTERM, "SIGTERM")]
)
def test_what_a_benchmark_has_measured_is_shown_and_kept(
    tmp_path: Path, number: signal.Signals, who: str
) -> None:
    process = start(tmp_path, "bench", "trivial", *MEASURES)
    end = time.monotonic() + 240
    while time.monotonic() < end:
        records = (
            list(Store(tmp_path / "results").records()) if (tmp_path / "results").is_dir() else []
        )
        if records and records[0].measured:
            break
        time.sleep(0.02)
    process.send_signal(number)
    out, err = process.communicate(timeout=240)
    assert process.returncode == 128 + number, err
    assert err.splitlines()[-1] == (
        f"convdyno: stopped by {who}: what was measured of the cell is kept in results, with wider "
        "intervals; the same command begins anew"
    )
    assert "interrupted" in out
    (record,) = Store(tmp_path / "results").records()
    assert record.measured and record.reason == f"stopped by {who}"


def test_ctrl_c_in_a_terminal_reaches_all_and_is_one_sentence(tmp_path: Path) -> None:
    pid, terminal = pty.fork()
    if not pid:
        os.chdir(tmp_path)
        os.execv(sys.executable, [sys.executable, "-m", "convdyno", *BUSY["bench"][0]])
    said = b""
    while b"starting" not in said:
        said += os.read(terminal, 1000)
    os.write(terminal, b"\x03")
    try:
        while chunk := os.read(terminal, 1000):
            said += chunk
    except OSError:  # Nobody holds the other end any more.
        pass
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 130
    os.close(terminal)
    text = said.decode()
    assert "convdyno: stopped by Ctrl-C: nothing was measured yet" in text
    assert "Traceback" not in text and "budget ended" not in text


def test_whoever_is_told_to_ignore_a_hangup_does(tmp_path: Path) -> None:
    process = start(
        tmp_path, *BUSY["bench"][0],
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
    )  # fmt: skip
    await_worker(process)
    process.send_signal(signal.SIGHUP)
    time.sleep(0.5)
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=240)
    assert process.returncode == 143

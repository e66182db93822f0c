"""A cell is measured by one process at a time, and a dead one holds nothing."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from convdyno.errors import BadStore
from convdyno.store.cell_locks import FOLDER, Claim, Holder, claim, holders

HOLDING = """
import sys, time
from pathlib import Path
from convdyno.store.cell_locks import claim
kept = claim(Path(sys.argv[1]), "cell", 60)
print("held", flush=True)
time.sleep(60)
"""


def another(folder: Path) -> subprocess.Popen[str]:
    """A process that has claimed the cell."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDING, str(folder)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_a_claimed_cell_is_refused_with_who_has_it_until_it_is_released(tmp_path: Path) -> None:
    mine = claim(tmp_path, "cell", 60)
    assert isinstance(mine, Claim)
    holder = claim(tmp_path, "cell", 60)
    assert isinstance(holder, Holder)
    assert (holder.pid, holder.host) == (os.getpid(), socket.gethostname())
    assert isinstance(claim(tmp_path, "another", 60), Claim)
    mine.release()
    mine.release()
    assert isinstance(claim(tmp_path, "cell", 60), Claim)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_process_that_died_holds_nothing(tmp_path: Path, number: signal.Signals) -> None:
    process = another(tmp_path)
    holder = claim(tmp_path, "cell", 60)
    assert isinstance(holder, Holder)
    assert holder.pid == process.pid
    assert dict(holders(tmp_path)).keys() == {"cell"}
    process.send_signal(number)
    process.communicate()
    assert dict(holders(tmp_path)) == {}
    assert isinstance(claim(tmp_path, "cell", 60), Claim)


def left_behind(folder: Path, **facts: object) -> None:
    """A claim whose lock nobody holds, as on a file system or host that locks do not reach."""
    now = time.time()
    data = {"host": "far", "pid": 1, "started": 0.0, "since": now, "until": now + 60} | facts
    (folder / FOLDER).mkdir()
    (folder / FOLDER / "cell").write_text(json.dumps(data))


def test_another_host_has_it_until_its_time_is_over(tmp_path: Path) -> None:
    left_behind(tmp_path)
    assert isinstance(claim(tmp_path, "cell", 60), Holder)
    assert dict(holders(tmp_path)).keys() == {"cell"}


@pytest.mark.parametrize(
    "facts", [{"until": 1.0}, {"host": socket.gethostname()}, {"pid": "x", "more": 1}]
)
def test_a_stale_claim_is_taken_over(tmp_path: Path, facts: dict[str, object]) -> None:
    left_behind(tmp_path, **facts)
    assert dict(holders(tmp_path)) == {}
    assert isinstance(claim(tmp_path, "cell", 60), Claim)


def test_without_locks_the_process_itself_is_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = another(tmp_path)
    monkeypatch.setattr("convdyno.store.cell_locks.lock", lambda descriptor: None)
    assert isinstance(claim(tmp_path, "cell", 60), Holder)
    process.kill()
    process.communicate()
    assert isinstance(claim(tmp_path, "cell", 60), Claim)


def test_of_many_that_want_it_one_gets_it(tmp_path: Path) -> None:
    wanting = (
        "import sys\nfrom pathlib import Path\nfrom convdyno.store.cell_locks import claim, Claim\n"
        "sys.stdin.readline()\nkept = claim(Path(sys.argv[1]), 'cell', 60)\n"
        "print(isinstance(kept, Claim), flush=True)\nsys.stdin.readline()\n"
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", wanting, str(tmp_path)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for _ in range(6)
    ]  # fmt: skip
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    answers = [process.stdout.readline() for process in processes if process.stdout]
    for process in processes:
        process.communicate("end\n")
    assert sorted(answers) == ["False\n"] * 5 + ["True\n"]


def test_a_folder_that_cannot_be_written_is_said_so() -> None:
    with pytest.raises(BadStore, match="cannot be written"):
        claim(Path("/proc/none"), "cell", 60)

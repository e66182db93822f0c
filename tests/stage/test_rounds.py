"""Rounds of live workers: real processes, scripted times."""

import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from convdyno.store.folder import Store

CLOCKWORK = ("bench", "trivial", "--engine", "clockwork", "--out", "results")


def workers(parent: int) -> list[psutil.Process]:
    return psutil.Process(parent).children(recursive=True)


def test_three_rounds_of_fresh_processes_by_default(convdyno_process: Any, tmp_path: Path) -> None:
    assert convdyno_process(*CLOCKWORK, "--budget", "30s").code == 0
    (record,) = Store(tmp_path / "results").records()
    assert record.status == "ok"
    assert len(record.processes) >= 3
    assert len({process.pid for process in record.processes}) == len(record.processes)


@pytest.mark.parametrize("rounds", [1, 2])
def test_any_precision_is_had_after_the_rounds_that_are_wanted(
    rounds: int, convdyno: Any, tmp_path: Path
) -> None:
    assert convdyno(*CLOCKWORK, "--within", "any", "--rounds", str(rounds)).code == 0
    (record,) = Store(tmp_path / "results").records()
    assert record.status == "ok"
    assert [{block.turn for block in one.blocks} for one in record.processes] == [{0, 1}] * rounds


def test_cells_take_turns_and_each_turn_has_blocks_of_all(convdyno: Any, tmp_path: Path) -> None:
    convdyno(*CLOCKWORK, "--batch", "1,2,3", "--budget", "30s")
    turns = [
        {(p.round, block.turn) for p in record.processes for block in p.blocks}
        for record in Store(tmp_path / "results").records()
    ]
    assert len(turns) == 3
    assert turns[0] == turns[1] == turns[2]
    assert len(turns[0]) >= 6


@pytest.mark.slow
@pytest.mark.long  # It uses up its budget, which must suffice for rounds of five processes each.
def test_cells_that_have_sittings_of_their_own_share_the_budget(
    convdyno: Any, tmp_path: Path
) -> None:
    words = ("--devices", "1,2", "--exchange", "default,independent", "--within", "0.01%")
    convdyno(*CLOCKWORK, *words, "--device", "step=0.02;within=0.2", "--budget", "80s")
    turns = [
        {p.round: len({block.turn for block in p.blocks}) for p in record.measured}
        for record in Store(tmp_path / "results").records()
    ]
    assert len(turns) == 3
    common = set.intersection(*(set(rounds) for rounds in turns))
    assert len(common) >= 2
    for rounds in turns:
        assert len(rounds) <= len(common) + 1, "only the last round may be cut short"
        assert all(rounds[number] == turns[0][number] for number in common)


def test_a_real_difference_is_found_and_has_the_right_size(convdyno_process: Any) -> None:
    script = "step=0.002;within=0.01;between=0.002,step=0.003;within=0.01;between=0.002"
    document = convdyno_process(*CLOCKWORK, "--device", script, "--budget", "40s", "--json").json
    (found,) = document["comparisons"]
    assert found["verdict"] == "faster"
    assert found["interval"][0] < found["ratio"] < found["interval"][1]
    assert math.isclose(found["ratio"], 1.5, rel_tol=0.05)


@pytest.mark.parametrize(
    ("failure", "status", "said"),
    [
        ("crash", "failed", "SIGSEGV"),
        ("oom", "oom", "7 images per device"),
        ("nan", "nan", "learning rate"),
        ("hang", "timeout", "no sign of life"),
    ],
)
def test_a_failing_cell_becomes_a_record_and_the_others_go_on(
    convdyno_process: Any, failure: str, status: str, said: str
) -> None:
    outcome = convdyno_process(
        *CLOCKWORK, "--batch", "7", "--device", f"step=0.002,fail={failure};at=9",
        "--budget", "60s", "--watchdog", "8s", "--json",
    )  # fmt: skip
    good, bad = outcome.json["cells"]
    assert outcome.code == 5
    assert good["status"] == "ok"
    assert good["rounds"] >= 3
    assert bad["status"] == status
    assert said in bad["reason"]


def test_a_worker_killed_in_the_middle_is_a_failed_cell(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "convdyno", *CLOCKWORK, "--device", "clock=real", "--json"],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        await_blocks(tmp_path / "results", cells=1)
        workers(process.pid)[0].kill()
        out, _ = process.communicate(timeout=240)
    (cell,) = json.loads(out)["cells"]
    assert (process.returncode, cell["status"]) == (5, "failed")
    assert "SIGKILL" in cell["reason"]


def test_a_parent_killed_at_once_leaves_turns_and_no_processes(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "convdyno", *CLOCKWORK, "--batch", "1,2", "--device", "clock=real"],
        cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        await_blocks(tmp_path / "results", cells=2)
        left = workers(process.pid)
        assert len(left) == 2
        process.kill()
    gone, alive = psutil.wait_procs(left, timeout=240)
    assert (len(gone), alive) == (2, [])
    records = list(Store(tmp_path / "results").records())
    assert [record.status for record in records] == ["interrupted", "interrupted"]
    assert all(record.measured for record in records)


def test_ctrl_c_ends_the_workers_and_keeps_what_was_measured(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "convdyno", *CLOCKWORK, "--device", "clock=real", "--json"],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        await_blocks(tmp_path / "results", cells=1)
        left = workers(process.pid)
        os.kill(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=240)
    assert psutil.wait_procs(left, timeout=240)[1] == []
    (cell,) = json.loads(out)["cells"]
    assert cell["status"] == "interrupted"
    assert cell["images_per_second"] > 0
    assert b"Traceback" not in err


def test_whoever_has_no_turn_is_stopped(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "convdyno", *CLOCKWORK, "--batch", "1,2,3",
         "--device", "clock=real"],
        cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        await_blocks(tmp_path / "results", cells=3)
        seen = [
            [w.status() for w in workers(process.pid)] for _ in range(10) if not time.sleep(0.1)
        ]
        process.kill()
    # At the moment of a change of turns even the next one may still be stopped.
    stopped = [states.count(psutil.STATUS_STOPPED) for states in seen if len(states) == 3]
    assert stopped
    assert min(stopped) >= 2


def test_archive_leaves_what_is_being_measured(convdyno: Any, tmp_path: Path) -> None:
    convdyno(*CLOCKWORK, "--budget", "5s", "--batch", "7")
    with subprocess.Popen(
        [sys.executable, "-m", "convdyno", *CLOCKWORK, "--batch", "1,2", "--within", "0.01%"],
        cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        await_blocks(tmp_path / "results", cells=3)
        moved = convdyno("results", "archive", "--json").json
        process.send_signal(signal.SIGINT)
    assert (len(moved["records"]), len(moved["staying"])) == (1, 2)
    assert len(convdyno("results", "archive", "--json").json["records"]) == 2, "it has ended"


def test_a_budget_too_short_measures_nothing_and_says_so(convdyno_process: Any) -> None:
    outcome = convdyno_process(*CLOCKWORK, "--budget", "0.05s")
    assert outcome.code == 4
    assert "nothing was measured" in outcome.err


def await_blocks(folder: Path, cells: int) -> None:
    """Wait until so many cells have blocks on disk."""
    end = time.monotonic() + 240
    while time.monotonic() < end:
        if folder.is_dir() and sum(bool(r.measured) for r in Store(folder).records()) == cells:
            return
        time.sleep(0.05)
    raise AssertionError("no turns were measured within four minutes")

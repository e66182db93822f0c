"""`convdyno sweep`: real processes, scripted times, and kills at any instant."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import psutil
import pytest
from schemas import keeps_to

from convdyno.store.cell_locks import Claim, cell_name, claim
from convdyno.store.folder import Store

SWEEP = """
network = "trivial"
engine = "clockwork"
batch = [1, 2]
precision = ["fp32", "bf16"]
budget = "60s"
within = "20%"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "sweep.toml"
    path.write_text(SWEEP)
    return path


def start(folder: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "convdyno", "sweep", "sweep.toml", *words],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def blocks(folder: Path) -> dict[str, tuple[str, set[tuple[int, int, float]]]]:
    """The status and all blocks of each record, read without mercy: a broken file is an error."""
    found = {}
    for path in (folder / "results").glob("*.json"):
        data = json.loads(path.read_text())
        found[path.name] = (
            data["status"],
            {
                (p["round"], block["turn"], block["seconds"])
                for p in data["processes"]
                for block in p["blocks"]
            },
        )
    return found


def test_a_plan_is_shown_with_every_trial_and_nothing_is_written(
    convdyno: Any, file: Path, tmp_path: Path
) -> None:
    outcome = convdyno("sweep", "sweep.toml", "--dry-run")
    assert outcome.code == 0
    assert outcome.out.count("trivial --engine clockwork") == 4
    assert "4 cells: 4 to run" in outcome.out
    assert "at most 4 min" in outcome.out
    plan = keeps_to("sweep", convdyno("sweep", "sweep.toml", "--dry-run", "--json").json)
    assert len({trial["digest"] for trial in plan["trials"]}) == 4
    assert plan["seconds"] == {"expected": None, "most": 240.0}
    assert {trial["standing"] for trial in plan["trials"]} == {"new"}
    assert not (tmp_path / "results").exists()


def test_everything_is_measured_and_a_second_time_nothing(
    convdyno_process: Any, file: Path, tmp_path: Path
) -> None:
    outcome = convdyno_process("sweep", "sweep.toml", "--label", "gpu=<k80>", "--json")
    assert outcome.code == 0
    assert {cell["standing"] for cell in keeps_to("sweep", outcome.json)["cells"]} == {"done"}
    assert all(cell["images_per_second"] > 0 for cell in outcome.json["cells"])
    records = list(Store(tmp_path / "results").records())
    assert len(records) == 4
    assert all(record.labels == {"gpu": "<k80>"} for record in records)
    assert all(len(record.measured) >= 3 for record in records)
    before = blocks(tmp_path)
    again = convdyno_process("sweep", "sweep.toml")
    assert (again.code, blocks(tmp_path)) == (0, before)
    assert "4 cells: 4 done before" in again.err
    listed = convdyno_process("results", "list", "--where", "label.gpu=<k80>", "--where", "batch=2")
    assert listed.out.count("gpu=<k80>") == 2


def test_a_failure_is_kept_until_it_is_to_be_tried_again(
    convdyno: Any, file: Path, tmp_path: Path
) -> None:
    words = ("sweep", "sweep.toml", "--set", "precision=fp32")
    failing = ("--set", "device=fail=crash;at=9")
    file.write_text(SWEEP.replace("[1, 2]", "1"))
    assert convdyno(*words, *failing).code == 5
    again = convdyno(*words, *failing)
    assert (again.code, len(blocks(tmp_path))) == (5, 1)
    assert "1 failed before (--retry failed tries again)" in again.err
    assert "SIGSEGV" in again.out
    assert convdyno(*words, *failing, "--retry", "failed").code == 5
    assert len(blocks(tmp_path)) == 2


def test_out_of_memory_is_remembered(convdyno: Any, file: Path, tmp_path: Path) -> None:
    file.write_text(
        SWEEP.replace("[1, 2]", "[1, 2, 4, 8]").replace('["fp32", "bf16"]', '"fp32"')
        + 'together = 1\n[[when]]\nif = { batch = ">=2" }\nset = { device = "fail=oom;at=5" }\n'
    )
    outcome = convdyno("sweep", "sweep.toml", "--json")
    assert outcome.code == 5
    keeps_to("sweep", outcome.json)
    assert [cell["status"] for cell in outcome.json["cells"]] == ["ok", "oom", "skipped", "skipped"]
    assert "batch 2 ran out of memory" in outcome.json["cells"][3]["reason"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("none.toml",), "cannot be read"),
        (("sweep.toml", "--retry", "faild"), "Did you mean 'failed'"),
        (("sweep.toml", "--set", "bacth=3"), "Did you mean 'batch'"),
        (("sweep.toml", "--label", "k80"), "a label is NAME=VALUE"),
        (("sweep.toml", "--out", "/proc/none"), "results cannot be written to '/proc/none'"),
        (("sweep.toml", "--out", "sweep.toml"), "sweep.toml"),
        (("sweep.toml", "--set", "image-size=3", "--set", "network=inception3"), "smallest square"),
        (("sweep.toml", "--set", "stage-from=a=/tmp"), "stage-from copies real data"),
        (("sweep.toml", "--set", "nodes=none.txt"), "none.txt"),
    ],
)
def test_bad_input_is_one_sentence(
    convdyno: Any, file: Path, words: tuple[str, ...], said: str
) -> None:
    outcome = convdyno("sweep", *words)
    assert outcome.code == 2
    assert said in outcome.err
    assert "Traceback" not in outcome.err
    assert outcome.out == ""


def test_an_empty_plan_is_an_error(convdyno: Any, file: Path) -> None:
    file.write_text(SWEEP + "[[exclude]]\nbatch = [1, 2]\n")
    outcome = convdyno("sweep", "sweep.toml")
    assert outcome.code == 2
    assert "nothing is left to run: every combination is excluded" in outcome.err


def await_blocks(folder: Path, least: int) -> None:
    end = time.monotonic() + 240
    while time.monotonic() < end:
        if sum(len(found) for _, found in blocks(folder).values()) >= least:
            return
        time.sleep(0.02)
    raise AssertionError("no turns were measured within two minutes")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGTERM, 143), pytest.param(signal.SIGINT, 130, marks=pytest.mark.long)],
)
def test_a_signal_finishes_the_turn_and_the_exit_code_says_so(
    file: Path, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    slow = ("--set", "device=clock=real;step=0.01")
    with start(tmp_path, *slow) as process:
        await_blocks(tmp_path, 1)
        workers = psutil.Process(process.pid).children(recursive=True)
        os.kill(process.pid, number)
        out, err = process.communicate(timeout=240)
    assert process.returncode == code, err
    assert psutil.wait_procs(workers, timeout=240)[1] == []
    assert f"stopped by {number.name} with 4 cells left: the same command goes on" in out
    assert "Traceback" not in err
    found = blocks(tmp_path)
    # The turn that was being measured is whole: all turns of a process have as many blocks.
    for _, own in found.values():
        turns = Counter(block[:2] for block in own)
        for number_of_round in {turn[0] for turn in turns}:
            assert len({n for turn, n in turns.items() if turn[0] == number_of_round}) == 1


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long)])
def test_kills_at_any_instant_lose_at_most_the_turn_and_it_goes_on(
    file: Path, tmp_path: Path, seed: int
) -> None:
    chance, seen, kills, patience = random.Random(seed), blocks(tmp_path), 0, 4.0
    while True:
        with start(tmp_path) as process:
            try:
                process.communicate(timeout=chance.uniform(0.2, patience))
            except subprocess.TimeoutExpired:
                workers = psutil.Process(process.pid).children(recursive=True)
                process.kill()
                process.communicate()
                kills += 1
            else:
                break
        assert psutil.wait_procs(workers, timeout=240)[1] == []
        now = blocks(tmp_path)
        for name, (status, earlier) in seen.items():
            assert earlier <= now[name][1], "blocks that were on the disk are lost"
            assert status != "ok" or now[name] == (status, earlier)
        # On a busy machine a start takes longer than on an idle one.
        seen, patience = now, patience * 1.2
    assert process.returncode == 0
    assert kills > 0
    records = list(Store(tmp_path / "results").records())
    assert sorted((r.trial.batch, r.trial.precision) for r in records) == [
        (1, "bf16"), (1, "fp32"), (2, "bf16"), (2, "fp32"),
    ]  # fmt: skip
    assert all(record.status == "ok" and len(record.measured) >= 3 for record in records)


@pytest.mark.slow
def test_two_sweeps_on_one_store_measure_every_cell_once(file: Path, tmp_path: Path) -> None:
    with start(tmp_path) as one, start(tmp_path) as two:
        ends = [process.communicate(timeout=240) for process in (one, two)]
    assert {one.returncode, two.returncode} <= {0, 3}, ends
    assert 0 in (one.returncode, two.returncode)
    records = list(Store(tmp_path / "results").records())
    assert len(records) == 4
    assert all(record.status == "ok" and len(record.measured) >= 3 for record in records)
    for record in records:
        assert len({process.round for process in record.processes}) == len(record.processes)


def test_a_job_that_another_sweep_is_submitting_is_not_over(
    convdyno: Any, file: Path, tmp_path: Path
) -> None:
    words = ("sweep", "sweep.toml", "--set", "batch=1", "--set", "precision=fp32")
    words += ("--set", "slurm=partition=GPU,time=15")
    (trial,) = convdyno(*words, "--dry-run", "--json").json["trials"]
    name = cell_name(trial["digest"], trial["trial"]["slurm"])
    taken = claim(tmp_path / "results", name, 60)
    assert isinstance(taken, Claim)
    outcome = convdyno(*words)
    taken.release()
    assert outcome.code == 3
    assert f"is being submitted by process {os.getpid()}" in outcome.err
    assert "1 cell being measured by another process" in outcome.out


def test_a_cell_that_is_left_says_why(convdyno_process: Any, file: Path) -> None:
    outcome = convdyno_process("sweep", "sweep.toml", "--set", "batch=1", "--set", "budget=0.05s")
    assert outcome.code == 4
    assert "2 cells not measured to the end: the budget ended while" in outcome.err

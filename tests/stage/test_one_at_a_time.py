"""Two processes that would measure one cell on one machine do so one after the other."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from convdyno.store.cell_locks import Claim, Holder, claim, claim_in_turn, holders
from convdyno.store.folder import Store

BENCH = (
    "bench", "trivial", "--engine", "clockwork", "--device", "step=0.01;clock=real", "--batch", "2",
    "--rounds", "1", "--within", "any",
)  # fmt: skip


@contextmanager
def bench(folder: Path) -> Iterator[subprocess.Popen[str]]:
    words = [sys.executable, "-m", "convdyno", *BENCH, "--out", str(folder)]
    with subprocess.Popen(words, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as one:
        try:
            yield one
        finally:
            one.kill()


def measured(folder: Path) -> int:
    return sum(bool(record.measured) for record in Store(folder).records())


def test_the_second_says_whom_it_waits_for_and_measures_afterwards(tmp_path: Path) -> None:
    with bench(tmp_path) as first:
        while not list(holders(tmp_path)):
            assert first.poll() is None
            time.sleep(0.05)
        with bench(tmp_path) as second:
            assert second.stderr is not None
            said = ""
            while "is being measured by" not in said:
                said = second.stderr.readline()
                assert said, "it ended without a word"
            assert f"is being measured by process {first.pid} on" in said
            assert "waiting until it is done" in said
            while first.poll() is None:
                found = measured(tmp_path)
                assert found <= 1 or first.poll() is not None
                time.sleep(0.05)
            second.communicate()
            assert (first.returncode, second.returncode) == (0, 0)
    assert measured(tmp_path) == 2
    assert list(holders(tmp_path)) == []


def test_what_is_ours_already_is_not_waited_for(tmp_path: Path) -> None:
    mine = claim(tmp_path, "cell", 60)
    assert isinstance(mine, Claim)
    assert claim_in_turn(tmp_path, "cell", 60, pytest.fail) is None
    mine.release()


def test_who_measures_elsewhere_is_told_of_and_not_waited_for(tmp_path: Path) -> None:
    now = time.time()
    text = f'{{"host": "far", "pid": 1, "started": 0, "since": {now}, "until": {now + 600}}}'
    (tmp_path / ".claims").mkdir()
    (tmp_path / ".claims" / "cell").write_text(text)
    told: list[Holder] = []
    assert claim_in_turn(tmp_path, "cell", 60, told.append) is None
    assert [holder.host for holder in told] == ["far"]

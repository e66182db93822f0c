"""Cores are counted in one place, as this process may use them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from convdyno.machine import processor


def test_only_the_cores_that_this_process_may_use_are_counted() -> None:
    one = min(os.sched_getaffinity(0))
    code = (
        f"import os; os.sched_setaffinity(0, {{{one}}})\n"
        "from convdyno.machine.processor import *\n"
        "print(usable_cores(), core_count(), physical_cores(), logical_cores())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [f"[{one}]", "1", "1", str(os.cpu_count())]


@pytest.mark.parametrize(
    ("quota", "count"),
    [
        ("max 100000", 8), ("200000 100000", 2), ("50000 100000", 1), ("9900000 100000", 8),
        ("250000 100000", 2), ("", 8), ("nonsense", 8), ("1 0", 8),
    ],
)  # fmt: skip
def test_a_quota_limits_the_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quota: str, count: int
) -> None:
    (tmp_path / "cpu.max").write_text(f"{quota}\n")
    monkeypatch.setattr(processor, "QUOTA", str(tmp_path / "cpu.max"))
    monkeypatch.setattr(processor, "usable_cores", lambda: list(range(8)))
    assert processor.core_count() == count


def test_nobody_counts_cores_elsewhere() -> None:
    """Only what is sent to hosts that have no convdyno yet counts for itself."""
    source = Path(processor.__file__).parents[1]
    counting = {
        path.relative_to(source).as_posix()
        for path in source.rglob("*.py")
        if "sched_getaffinity" in path.read_text() or "os.cpu_count" in path.read_text()
    }
    assert counting == {"machine/processor.py", "launch/remote_bootstrap.py"}

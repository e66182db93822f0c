"""What `doctor` prints, and how soon."""

from typing import Any

import pytest

from convdyno.app import checkup
from convdyno.report.console import Screen


def test_a_peak_of_nothing_is_compared_with_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    none = {"engine": "torch", "precision": "fp32", "matmul": 0.0, "conv": 1e9, "copy": 1e9}
    some = none | {"precision": "bf16", "matmul": 2e9}
    Screen().peak(none, [])
    Screen().peak(some, [none])
    said = capsys.readouterr().out
    assert "2.00 GFLOP/s" in said
    assert all(len(line) <= 80 for line in said.splitlines())


def test_a_fast_precision_is_called_so(capsys: pytest.CaptureFixture[str]) -> None:
    plain = {"engine": "torch", "precision": "fp32", "matmul": 1e9, "conv": 1e9, "copy": 1e9}
    Screen().peak(plain | {"precision": "bf16", "matmul": 2e9}, [plain])
    assert capsys.readouterr().out.endswith("2 x: fast\n")


def test_a_minute_is_enough_unless_all_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every probe takes ten seconds of a clock of its own."""
    clock = [0.0]

    def probed(engine: str, precision: str) -> dict[str, Any]:
        clock[0] += 10
        return {"matmul": 1e9}

    monkeypatch.setattr(checkup.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(checkup, "_peaks", probed)
    rows = list(checkup.peaks())
    assert clock[0] <= 60
    assert not any("/" in row["engine"] for row in rows)
    assert all("matmul" in row or row["refused"] == checkup.NO_TIME for row in rows)
    everything = list(checkup.peaks(full=True))
    assert all("matmul" in row for row in everything)
    assert {row["engine"] for row in rows} < {row["engine"] for row in everything}

"""What `doctor` prints."""

import pytest

from convdyno.report.console import Screen


def test_a_peak_of_nothing_is_compared_with_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    peaks = [
        {"engine": "torch", "precision": "fp32", "matmul": 0.0, "conv": 1e9, "copy": 1e9},
        {"engine": "torch", "precision": "bf16", "matmul": 2e9, "conv": 1e9, "copy": 1e9},
    ]
    machine = dict.fromkeys(("cores_usable", "cores_logical", "memory_bytes"), 2) | {
        "host": "here", "cpu": "a processor", "system": "Linux", "cpu_flags": [], "gpus": [],
    }  # fmt: skip
    report = {
        "machine": machine,
        "engines": {},
        "missing": {},
        "decoder": {"name": "none", "reason": ""},
        "disturbances": [],
        "peaks": peaks,
    }
    Screen().doctor(report)
    assert "2.00 GFLOP/s" in capsys.readouterr().out

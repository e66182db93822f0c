"""What the older tools printed, by their own formulas, for those who read their logs."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from crews import FACTS
from small_photos import photos

from convdyno.report.cell import cell_of
from convdyno.report.legacy import STYLES
from convdyno.store.record import Block, Process, Record, new_record
from convdyno.trial.spec import make_trial

TIMES = (0.10, 0.12, 0.11, 0.10, 0.20, 0.13)
"""Of one step of 32 images each."""
SPEEDS = 32 / np.array(TIMES)
JITTER = 1.4826 * np.median(np.abs(SPEEDS - np.median(SPEEDS)))


def a_record(times: tuple[float, ...] = TIMES, **trial: Any) -> Record:
    values = {"network": "resnet50", "engine": "tensorflow", "batch": 32, "latency": True} | trial
    blocks = tuple(Block(seconds=t, steps=1, step_seconds=(t,)) for t in times)
    processes = (Process(round=0, blocks=blocks, last_loss=6.9078),) if times else ()
    made = new_record(
        make_trial(**values),
        network=FACTS,
        processes=processes,
        versions={"tensorflow": "2.21.0"},
        settings={"device": "cuda:0", "layout": "nchw"},
        command="convdyno bench resnet50 --batch 32",
    )
    return made.but(status="ok")


def lines(style: str, record: Record) -> list[str]:
    return list(STYLES[style](cell_of(record), record))


def test_nvcnn_ends_with_the_mean_of_speeds_between_rules() -> None:
    error = SPEEDS.std(ddof=1) / np.sqrt(6)
    told = f"Images/sec: {SPEEDS.mean():.1f} +/- {error:.1f} (jitter = {JITTER:.1f})"
    assert lines("nvcnn", a_record())[-3:] == ["-" * 64, told, "-" * 64]


def test_nvcnn_has_its_header_and_its_table() -> None:
    shown = lines("nvcnn", a_record())
    for line in (
        "TensorFlow:  2.21.0", "Cmd line args:", "  --batch", "Num images:  Synthetic",
        "Model:       resnet50", "Batch size:  32 global", "             32 per device",
        "Devices:     ['/gpu:0']", "Data format: NCHW", "Data type:   fp32", "Training",
        "  Step Epoch Img/sec   Loss   LR", "     6     1   246.2   6.908 0.00100",
    ):  # fmt: skip
        assert line in shown


def test_two_steps_have_no_uncertainty_in_nvcnn() -> None:
    assert " +/- nan " in lines("nvcnn", a_record((0.1, 0.2)))[-2]


def test_tf_cnn_has_its_header_its_cumulative_line_and_its_total() -> None:
    shown = lines("tf-cnn", a_record(devices=2, batch=16))
    for line in (
        "TensorFlow:  2.21.0", "Model:       resnet50", "Dataset:     imagenet (synthetic)",
        "Mode:        training", "Batch size:  32 global", "             16 per device",
        "Num batches: 6", "Devices:     ['/gpu:0', '/gpu:1']", "Optimizer:   momentum",
        "Variables:   replicated", "==========", "Running warm up", "Done warm up",
        "Step\tImg/sec\ttotal_loss",
    ):  # fmt: skip
        assert line in shown
    mean, error = 32 / np.mean(TIMES), SPEEDS.std() / np.sqrt(6)
    cumulative = f"6\timages/sec: {mean:.1f} +/- {error:.1f} (jitter = {JITTER:.1f})\t6.908"
    assert shown[-4:] == [cumulative, "-" * 64, f"total images/sec: {mean:.2f}", "-" * 64]


@pytest.mark.parametrize("style", STYLES)
def test_a_cell_that_failed_says_why_and_no_number(style: str) -> None:
    failed = a_record(()).but(status="oom", reason="out of memory")
    text = "\n".join(lines(style, failed))
    assert "No results, out of memory" in text
    assert not re.search(r"images/sec: [1-9]", text, re.IGNORECASE)


def test_another_framework_is_not_called_tensorflow() -> None:
    assert lines("tf-cnn", a_record(engine="torch"))[0] == "PyTorch:"


def test_bench_prints_in_a_style(convdyno: Any) -> None:
    words = ("--engine", "clockwork", "--rounds", "1", "--within", "any")
    done = convdyno("bench", "trivial", *words, "--style", "nvcnn")
    assert done.code == 0, done.err
    number = r"\d+\.\d"
    last = rf"Images/sec: {number} \+/- {number} \(jitter = {number}\)"
    assert re.fullmatch(last, done.out.splitlines()[-2])
    wrong = convdyno("bench", "trivial", *words, "--style", "nvcn")
    assert wrong.code == 2
    assert "Did you mean 'nvcnn'" in wrong.err


@pytest.mark.parametrize(
    ("style", "line"), [("nvcnn", "Num images:  6"), ("tf-cnn", "Dataset:     photos")]
)
def test_real_data_are_not_called_synthetic(
    style: str, line: str, convdyno: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    photos(tmp_path / "photos", ["cat", "dog"])
    words = ("--engine", "clockwork", "--data", "photos", "--batch", "2", "--image-size", "16")
    few = ("--rounds", "1", "--within", "any", "--style", style)
    done = convdyno("bench", "trivial", *words, *few)
    assert done.code == 0, done.err
    assert line in done.out.splitlines()
    assert "ynthetic" not in done.out

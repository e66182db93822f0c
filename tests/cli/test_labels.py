"""Labels describe: they are kept with what was measured or trained, and change nothing of it."""

from pathlib import Path
from typing import Any

import pytest
from runs import PLAIN, SIZE, finish, prepare

from convdyno.store.folder import Store
from convdyno.store.training_runs import read_run

QUICK = ("trivial", "--engine", "clockwork", "--budget", "60s", "--within", "20%")


def test_bench_keeps_labels_and_the_trial_stays_the_same(convdyno: Any, tmp_path: Path) -> None:
    assert convdyno("bench", *QUICK).code == 0
    words = ("--label", "gpu=k80", "--label", "note=<b>=1,2</b>")
    assert convdyno("bench", *QUICK, *words).code == 0
    records = Store(tmp_path / "results").records()
    plain, labelled = sorted(records, key=lambda record: record.created)
    assert (plain.labels, labelled.labels) == ({}, {"gpu": "k80", "note": "<b>=1,2</b>"})
    assert plain.trial_digest == labelled.trial_digest


def test_training_keeps_labels_over_its_attempts(tmp_path: Path) -> None:
    prepare(tmp_path)
    words = ("--engine", "clockwork", *SIZE, "--epochs", "1")
    finish(tmp_path, PLAIN, "run", *words, "--label", "gpu=k80")
    finish(tmp_path, PLAIN, "run", *words, "--label", "rack=3")
    assert read_run(tmp_path / "run").labels == {"gpu": "k80", "rack": "3"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--label", "k80"), "a label is NAME=VALUE, such as gpu=k80, not 'k80'"),
        (("--label", "=k80"), "a label is NAME=VALUE"),
        (("--label", "a b=k80"), "a label is NAME=VALUE"),
        (("--label", "gpu=k80", "--label", "gpu=p100"), "the label gpu is given twice"),
    ],
)
def test_what_is_no_label_is_refused(convdyno: Any, words: tuple[str, ...], said: str) -> None:
    outcome = convdyno("bench", *QUICK, *words)
    assert outcome.code == 2
    assert said in outcome.err

"""What runs leave to later ones of the same machine and versions."""

import datetime
from pathlib import Path
from typing import Any

import pytest

from convdyno.store.history import (
    MOST,
    History,
    PastCell,
    PastSpread,
    read_history,
    work_of,
    write_history,
)
from convdyno.store.record import Peak
from convdyno.trial.spec import Trial, make_trial

HERE: dict[str, Any] = {"host": "a", "cpu": "one", "cores_usable": 2}
TRIAL = make_trial(network="lenet", engine="torch", batch=4)


def a_cell(trial: Trial = TRIAL, versions: str = "torch 1", days: float = 0.0) -> PastCell:
    then = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=days)
    return PastCell(
        created=then.isoformat(), work=work_of(trial), versions=versions, seconds_per_image=0.1,
        start_seconds=2, peaks=(Peak(kind="matmul", per_second=1e9),),
    )  # fmt: skip


def a_spread() -> PastSpread:
    return PastSpread(what="rate", versions="x", rounds=3, variance=1e-4, expected=1e-5, turn=1e-3)


def test_what_was_written_is_read(tmp_path: Path) -> None:
    history = read_history(tmp_path, HERE)[0].with_run([a_cell()], [a_spread()])
    write_history(tmp_path, history, HERE)
    assert read_history(tmp_path, HERE) == (history, "")


def test_another_machine_has_a_history_of_its_own(tmp_path: Path) -> None:
    write_history(tmp_path, read_history(tmp_path, HERE)[0].with_run([a_cell()], []), HERE)
    assert read_history(tmp_path, HERE | {"cores_usable": 4})[0].cells == ()


def test_a_file_under_another_machines_name_is_not_used(tmp_path: Path) -> None:
    there = HERE | {"host": "b"}
    path = write_history(tmp_path, read_history(tmp_path, HERE)[0].with_run([a_cell()], []), HERE)
    path.replace(write_history(tmp_path, History(), there))
    assert read_history(tmp_path, there)[0].cells == ()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema_version": 9}', "\x00"])
def test_what_cannot_be_read_is_named_and_set_aside(tmp_path: Path, text: str) -> None:
    path = write_history(tmp_path, History(), HERE)
    path.write_text(text)
    found, problem = read_history(tmp_path, HERE)
    assert found.cells == ()
    assert path.name in problem
    assert "set aside" in problem
    assert path.with_suffix(".unreadable").read_text() == text
    assert read_history(tmp_path, HERE)[1] == ""


def test_peaks_are_those_of_the_same_versions_and_precision_and_not_too_old() -> None:
    history = History(cells=(a_cell(),))
    (peak,) = history.peaks(TRIAL.model_copy(update={"network": "vgg11"}), "torch 1")
    assert peak.per_second == 1e9
    assert peak.seen == history.cells[0].created
    assert history.peaks(TRIAL, "torch 2") == ()
    assert history.peaks(TRIAL.model_copy(update={"precision": "bf16"}), "torch 1") == ()
    assert History(cells=(a_cell(days=40),)).peaks(TRIAL, "torch 1") == ()


def test_it_does_not_grow_without_end() -> None:
    history = History()
    for _ in range(3):
        history = history.with_run([a_cell()] * MOST, [a_spread()] * MOST)
    assert (len(history.cells), len(history.spreads)) == (MOST, MOST)

"""What a run does with its time: who is opened when, what is taken over, what people are told."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from players import Troupe

from convdyno.launch.local import environment
from convdyno.machine.processor import logical_cores
from convdyno.stage.first_look import seconds_per_image, suits, surely_short
from convdyno.stage.progress import shortfall
from convdyno.stage.stopping import Reached, UntilPrecise
from convdyno.stats.plan import Goal, Variation
from convdyno.store.folder import Store
from convdyno.store.record import Record
from convdyno.trial.spec import make_trial

CLOCKWORK = ("bench", "trivial", "--engine", "clockwork", "--out", "results")
TRIAL = make_trial(network="trivial", engine="clockwork", batch=8)


def records(folder: Path) -> list[Record]:
    return list(Store(folder / "results").records())


def test_the_first_round_opens_one_by_one_and_later_ones_side_by_side(
    convdyno: Any, tmp_path: Path
) -> None:
    assert convdyno(*CLOCKWORK, "--batch", "1,2", "--within", "any", "--rounds", "2").code == 0
    beside = min(2, logical_cores()) - 1
    for record in records(tmp_path):
        assert [process.opened_beside for process in record.processes] == [0, beside]


def test_what_was_wanted_and_not_reached_has_a_price() -> None:
    known = Reached(precise=False, spreads=[Variation(0.02**2, 0.02**2)], level=0.95)
    pace = UntilPrecise(Goal(0.008), precision=lambda records, goal: known)
    for _ in range(3):
        pace.start_round()
        pace.open_first(2, 0, 1.0, 1.0)
        pace.count_turn(1.0, first_sitting=True)
        pace.end_round()
    outlook = pace.outlook([])
    assert outlook is not None
    assert "±0.8 % was not reached: --budget 2m should be" in shortfall(0.008, outlook, 4.0)


def test_what_cannot_be_reached_is_said_with_what_can(convdyno: Any) -> None:
    words = ("--batch", "1,2", "--within", "0.01%", "--budget", "4s")
    told = convdyno(*CLOCKWORK, *words, "--device", "step=0.01;between=0.05").out
    assert "±0.01 % is out of reach here: an hour gives about ±" in told


def test_who_watches_sees_rates_and_ratios(convdyno: Any) -> None:
    words = ("--batch", "1,2", "--within", "any", "--rounds", "3", "--watch")
    lines = [x for x in convdyno(*CLOCKWORK, *words).err.splitlines() if x.startswith("round ")]
    assert lines
    assert all("images/s; ratio" in line for line in lines)


def test_later_runs_borrow_from_earlier_ones_and_keep_what_they_borrowed(
    convdyno: Any, tmp_path: Path
) -> None:
    words = ("--batch", "1,2", "--within", "any", "--rounds", "3")
    for _ in range(6):
        assert convdyno(*CLOCKWORK, *words).code == 0
    borrowed = [record.borrowed.get("ratio") for record in records(tmp_path)]
    assert borrowed[0] is None
    last = max(records(tmp_path), key=lambda record: record.created)
    assert last.borrowed["ratio"].freedom > 0
    shown = json.loads(convdyno("compare", "results", "--by", "batch", "--json").out)
    assert shown["comparisons"]


@pytest.mark.parametrize(
    ("seconds", "most", "batch"), [(0.2, 32, 2), (0.08, 32, 8), (1e-4, 32, 32), (5.0, 32, 1)]
)
def test_a_step_is_nearest_to_half_a_second(seconds: float, most: int, batch: int) -> None:
    assert suits(seconds, most) == batch


def test_a_small_network_needs_no_look() -> None:
    assert surely_short(14_000_000, TRIAL, cores=2)
    assert not surely_short(4_000_000_000, TRIAL, cores=2)


def test_a_look_is_a_few_steps_of_a_few_images() -> None:
    troupe = Troupe()
    found = seconds_per_image(troupe.start, TRIAL, silence=10, until=1e18)
    assert found == pytest.approx(0.1 / 4)
    assert [trial.batch for trial in troupe.opened] == [4]
    assert troupe.alive == []


def test_compilers_share_a_folder_unless_the_user_has_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TORCHINDUCTOR_CACHE_DIR", "JAX_COMPILATION_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    told = environment(TRIAL, tmp_path)
    assert told["TORCHINDUCTOR_CACHE_DIR"].startswith(str(tmp_path))
    assert told["JAX_COMPILATION_CACHE_DIR"].startswith(str(tmp_path))
    monkeypatch.setitem(os.environ, "JAX_COMPILATION_CACHE_DIR", "/mine")
    assert environment(TRIAL, tmp_path) == {}


def test_a_terminal_without_the_sign_has_it_in_plain_letters(convdyno_process: Any) -> None:
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    words = (*CLOCKWORK, "--within", "any", "--rounds", "2")
    told = convdyno_process(*words, env=environment)
    assert told.code == 0, told.err
    assert " +-" in told.out

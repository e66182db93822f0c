"""The search for the fastest settings: what is tried, who stays, and what is said of the winner."""

import math
import time
from pathlib import Path
from typing import Any

import pytest

from convdyno.launch.local import Here
from convdyno.stage.experience import start_seconds
from convdyno.stage.halving import Halving, knock_out, speed
from convdyno.stage.progress import Narrator
from convdyno.stage.rounds import Limits, Stage, StagedCell
from convdyno.stage.tuning import alternatives, variants
from convdyno.stats.plan import Goal
from convdyno.store.folder import Store
from convdyno.store.record import new_record
from convdyno.trial.spec import Trial, make_trial

QUIET = "within=0.005;between=0.001"


def trial(**values: Any) -> Trial:
    return make_trial(**{"network": "trivial", "engine": "clockwork", "batch": 16} | values)


def cells(*scripts: str, **more: Any) -> list[StagedCell]:
    return [StagedCell(new_record(trial(device=script)), **more) for script in scripts]


def heat_in(folder: Path) -> Any:
    def heat_of(group: list[StagedCell], doubled: int, seconds: float) -> Stage:
        limits, pace = Limits(seconds, 60), Halving(doubled, seconds)
        start = lambda one: Here().start(one, 20)  # noqa: E731
        return Stage(group, Goal(), limits, Store(folder), Narrator(), start, pace=pace)

    return heat_of


@pytest.mark.parametrize(("doubled", "ends"), [(0, [1, 5, 13, 29]), (1, [3, 11, 27])])
def test_a_leg_is_twice_as_long_as_the_one_before(doubled: int, ends: list[int]) -> None:
    halving = Halving(doubled, 60)
    assert [turn for turn in range(32) if halving.sitting_is_over([], 0, turn, 1.0)] == ends


FREE = ("layout", "compile", "threads", "bucket_mb", "batch")
TORCH = {"layout": "nhwc", "compiled": False, "threads": 8}


def test_alternatives_are_other_than_what_auto_became() -> None:
    found = alternatives(trial(), TORCH, FREE)
    assert found["layout"] == ["nchw"]
    assert found["compile"] == ["on"]
    assert found["threads"] == [4, 2]
    assert found["batch"] == [4, 8, 32, 64, 128]
    assert "bucket_mb" not in found
    assert alternatives(trial(), {"compiled": True}, FREE)["compile"] == ["off"]


def test_buckets_are_for_several_devices_that_train() -> None:
    assert alternatives(trial(devices=2), TORCH, FREE)["bucket_mb"] == [5.0, 100.0]
    assert "bucket_mb" not in alternatives(trial(devices=2, mode="infer"), TORCH, FREE)


def test_what_was_given_is_held() -> None:
    assert alternatives(trial(), TORCH, ("layout",)).keys() == {"layout"}
    assert "threads" not in alternatives(trial(), TORCH | {"threads": 1}, FREE)
    assert alternatives(trial(batch=2), TORCH, FREE)["batch"] == [1, 4, 8, 16]
    small = trial(batch=6, accumulate=3)
    assert all(n % 3 == 0 for n in alternatives(small, TORCH, FREE)["batch"])


def test_variants_begin_with_the_default_and_those_that_change_least() -> None:
    made = variants(trial(), alternatives(trial(), TORCH, FREE))
    assert made[0] == trial()
    assert len(made) == len(set(made)) == 2 * 2 * 3
    changes = [len(one.differs_in(trial())) for one in made]
    assert changes == sorted(changes)
    assert {one.batch for one in made} == {16}


def test_the_fastest_stays_and_the_slowest_leave_first(tmp_path: Path) -> None:
    steps = (0.004, 0.002, 0.003, 0.0025, 0.005)
    contenders = cells(*(f"step={step};{QUIET}" for step in steps))
    best = knock_out(contenders, 8, time.monotonic() + 60, heat_in(tmp_path))
    assert best is contenders[1]
    turns = [len({block.turn for block in c.record.processes[0].blocks}) for c in contenders]
    assert turns[0] == turns[4] == 2
    assert turns[1] == max(turns)
    for cell, step in zip(contenders, steps, strict=True):
        assert math.isclose(speed(cell.record), 16 / step, rel_tol=0.05)
        assert start_seconds(cell.record.processes[0]) > 0


def test_more_than_fit_in_a_heat_meet_in_several(tmp_path: Path) -> None:
    contenders = cells(*(f"step=0.00{step};{QUIET}" for step in (3, 5, 4, 2, 6)))
    best = knock_out(contenders, 2, time.monotonic() + 120, heat_in(tmp_path))
    assert best is contenders[3]
    assert len(best.record.processes) > 1


def test_whoever_fails_or_has_no_room_is_out_with_its_reason(tmp_path: Path) -> None:
    scripts = ("step=0.003", "step=0.001;fail=crash;at=3", "step=0.001;most=8", "step=0.002")
    contenders = cells(*(f"{script};{QUIET}" for script in scripts))
    assert knock_out(contenders, 8, time.monotonic() + 60, heat_in(tmp_path)) is contenders[3]
    assert [cell.record.status for cell in contenders] == ["ok", "failed", "oom", "ok"]


def test_when_nobody_can_be_measured_there_is_no_winner(tmp_path: Path) -> None:
    contenders = cells("fail=nan;at=1", "most=1")
    assert knock_out(contenders, 8, time.monotonic() + 60, heat_in(tmp_path)) is None


def test_processes_that_cannot_be_stopped_have_sittings_of_their_own(tmp_path: Path) -> None:
    contenders = cells(*(f"step=0.00{step};{QUIET}" for step in (4, 2, 3)), alone=True)
    best = knock_out(contenders, 8, time.monotonic() + 120, heat_in(tmp_path))
    assert best is contenders[1]
    assert len(best.record.processes) == 2


def test_one_that_takes_too_long_to_start_is_left_behind(tmp_path: Path) -> None:
    contenders = cells(f"step=0.002;{QUIET}", "fail=hang;at=1", f"step=0.003;{QUIET}")
    best = knock_out(contenders, 8, time.monotonic() + 25, heat_in(tmp_path))
    assert best is contenders[0]
    assert contenders[1].record.status == "timeout"
    assert "was not ready within" in (contenders[1].record.reason or "")

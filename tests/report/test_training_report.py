"""Training as one sees it, from scripted events."""

import io
import math
from pathlib import Path
from typing import Any

import pytest

from convdyno.report.training import Watcher, costs, kept, summary
from convdyno.trial.spec import Trial
from convdyno.trial.training import Training

TRAINING = Training(
    trial=Trial(network="lenet", engine="torch", batch=10), epochs=2, recipe="mine", until=0.9
)
TRAINED = {
    "event": "trained", "step": 20, "steps": 20, "finished": True, "already": False,
    "reached": False, "seconds": 4.0, "images": 200, "macs": 10**9, "evaluation": None,
    "best": None, "saved": 20, "unsaved": "",
}  # fmt: skip


def step(number: int, speed: float) -> dict[str, Any]:
    return {
        "event": "step", "step": number, "epoch": number / 10, "loss": 2.0, "rate": 0.125,
        "images_per_second": speed, "seconds": 1.0, "wait_share": 0.0,
    }  # fmt: skip


def seen(*events: dict[str, Any], quiet: bool = False) -> str:
    out = io.StringIO()
    watcher = Watcher(Path("run"), quiet=quiet, out=out)
    watcher.start(TRAINING)
    for event in events:
        watcher.see(event)
    return out.getvalue()


def test_a_row_has_nvcnns_columns() -> None:
    assert "     7     0   123.4   2.000 0.12500\n" in seen(step(7, 123.4))


def test_the_last_line_leaves_the_first_row_out() -> None:
    """Mean 20, standard error 10 / sqrt(3), median deviation 10 times 1.4826."""
    said = seen(*[step(i, s) for i, s in enumerate([1e6, 10.0, 20.0, 30.0])], TRAINED)
    assert f"Images/sec: 20.0 +/- {10 / math.sqrt(3):.1f} (jitter = 14.8)" in said


def test_too_few_rows_are_no_result() -> None:
    assert "No results" in seen(step(1, 10.0), TRAINED)


def test_quiet_says_warnings_alone() -> None:
    said = seen(step(1, 5.0), {"event": "warning", "text": "the disk is full"}, quiet=True)
    assert said == "mind: the disk is full\n"


def test_a_stopped_run_says_whether_it_is_saved_and_how_to_go_on() -> None:
    stopped = TRAINED | {"finished": False, "step": 12, "folder": "run", "reason": "by somebody"}
    assert "stopped and saved at step 12 of 20" in seen(stopped)
    assert kept(stopped) == (
        "step 12 of 20 is saved in run, and the same command goes on from there"
    )
    full = stopped | {"unsaved": "disk full", "reason": "by somebody; step 12 is not saved"}
    assert "stopped at step 12 of 20" in seen(full) and "images/s, not saved" in seen(full)
    assert kept(full) == "step 12 is not saved"
    assert "nothing was trained in run" in kept({"folder": "run", "reason": "by somebody"})


def test_a_reached_target_tells_its_cost() -> None:
    said = seen(TRAINED | {"reached": True})
    assert "top-1 of 90 % reached after 4.0 s, 200 images and 1.00 GMAC of training" in said


def runs(*seconds: float) -> list[dict[str, Any]]:
    return [TRAINED | {"status": "finished", "reached": True, "seconds": one} for one in seconds]


def test_costs_have_a_geometric_mean_and_students_interval() -> None:
    found = costs(TRAINING, [*runs(1.0, 4.0), TRAINED | {"status": "finished"}])
    assert found is not None and found["runs"] == 2
    assert found["seconds"]["mean"] == pytest.approx(2)
    reach = 12.7062 * math.log(2)  # t of one degree of freedom; the error of two logs is log 2.
    low, high = found["seconds"]["interval"]
    assert (math.log(2) - reach, math.log(2) + reach) == pytest.approx(
        (math.log(low), math.log(high)), rel=1e-4
    )


def test_one_run_has_no_interval_and_none_no_cost() -> None:
    found = costs(TRAINING, runs(3.0))
    assert found is not None and found["seconds"] == {"mean": pytest.approx(3), "interval": None}
    assert costs(TRAINING, [TRAINED]) is None


def test_failed_seeds_are_counted() -> None:
    lines = summary(TRAINING, [*runs(1.0, 4.0), {"status": "nan", "reason": "lost"}])
    assert lines[0] == "3 runs, 2 finished"
    assert "2 of 3 reached top-1 90 %" in lines

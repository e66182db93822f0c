"""A run of training: what comes out does not depend on when it was stopped, killed or looked at."""

import random
import signal
import time
from pathlib import Path

import numpy as np
import pytest
import runs

from convdyno.store.training_runs import read_run

QUICK = ("--engine", "reference", *runs.SIZE)


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGUSR1, 138)]
)
def test_a_stopped_run_goes_on_to_the_same_end(tmp_path: Path, number, code) -> None:
    runs.prepare(tmp_path)
    more = (*QUICK, "--epochs", "30", "--display-every", "3", "--eval-every", "0.6")
    runs.finish(tmp_path, runs.PLAIN, "whole", *more)
    assert runs.stop_after(runs.start(tmp_path, runs.PLAIN, "cut", *more), 12, number) == code
    record = read_run(tmp_path / "cut")
    assert (record.status, record.attempts[0].reason) == ("stopped", f"stopped by {number.name}")
    assert 12 <= record.attempts[0].step < 150
    said = runs.finish(tmp_path, runs.PLAIN, "cut", *more, "--resume")
    assert f"going on from step {record.attempts[0].step} of 150" in said
    runs.assert_same(tmp_path / "cut", tmp_path / "whole")
    assert [one.status for one in read_run(tmp_path / "cut").attempts] == ["stopped", "finished"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "engine",
    ["torch", *(pytest.param(one, marks=pytest.mark.long) for one in ("jax", "tensorflow"))],
)
def test_dropout_bf16_and_averages_go_on_to_the_bit(tmp_path: Path, engine: str) -> None:
    runs.prepare(tmp_path, train=200)
    more = ("--engine", engine, *runs.EVERYTHING, "--epochs", "6", "--display-every", "7")
    more = (*more, "--eval-every", "2.2")
    runs.finish(tmp_path, runs.RICH, "whole", *more)
    process = runs.start(tmp_path, runs.RICH, "cut", *more)
    assert runs.stop_after(process, 40, signal.SIGTERM) == 143
    runs.finish(tmp_path, runs.RICH, "cut", *more)
    runs.assert_same(tmp_path / "cut", tmp_path / "whole")


@pytest.mark.slow
def test_each_engine_goes_on_where_another_stopped(tmp_path: Path) -> None:
    runs.prepare(tmp_path)
    more = (*runs.SIZE, "--optimiser", "sgd", "--epochs", "12", "--schedule", "poly:1")
    runs.finish(tmp_path, runs.PLAIN, "whole", "--engine", "reference", *more)
    process = runs.start(
        tmp_path, runs.PLAIN, "relay", "--engine", "torch", *more, "--display-every", "1"
    )
    assert runs.stop_after(process, 7, signal.SIGTERM) == 143
    runs.finish(tmp_path, runs.PLAIN, "relay", "--engine", "jax", *more)
    whole, relay = (runs.checkpoints(tmp_path / name)[-1] for name in ("whole", "relay"))
    assert whole.name == relay.name
    expected, found = runs.arrays(whole), runs.arrays(relay)
    for name in expected:
        if not name.startswith(("state/own", "state/random")):
            np.testing.assert_allclose(found[name], expected[name], rtol=1e-3, atol=1e-4)
    assert [one.engine for one in read_run(tmp_path / "relay").attempts] == ["torch", "jax"]


@pytest.mark.slow
@pytest.mark.parametrize("kills", [6, pytest.param(50, marks=pytest.mark.long)])
def test_killed_at_any_moment_it_comes_to_the_same_end(tmp_path: Path, kills: int) -> None:
    """At random instants, with a checkpoint every few steps."""
    runs.prepare(tmp_path)
    more = (*QUICK, "--epochs", str(8 * kills), "--save-interval", "0.001", "--keep", "2")
    more = (*more, "--eval-every", "0.4", "--display-every", "1")
    runs.finish(tmp_path, runs.PLAIN, "whole", *more)
    chance = random.Random(3)
    for _ in range(kills):
        process = runs.start(tmp_path, runs.PLAIN, "cut", *more)
        runs.wait_for_row(process, of=chance.randrange(35))
        time.sleep(chance.uniform(0, 0.02))
        process.kill()
        process.communicate()
        assert process.returncode == -signal.SIGKILL, "it was done before the last kill"
        for path in [*runs.checkpoints(tmp_path / "cut"), tmp_path / "cut/best.safetensors"]:
            assert not path.exists() or runs.arrays(path)
    assert runs.checkpoints(tmp_path / "cut")
    runs.finish(tmp_path, runs.PLAIN, "cut", *more)
    runs.assert_same(tmp_path / "cut", tmp_path / "whole")
    assert [one.status for one in read_run(tmp_path / "cut").attempts] == ["killed"] * kills + [
        "finished"
    ]

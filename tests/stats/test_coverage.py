"""The 95 % interval holds the true rate in 93 to 97 % of experiments.

Between-process standard deviation 1 %, within 3 %, correlation of successive blocks 0.5; a fixed
number of rounds, and rounds until precise enough. With 8000 experiments the percentage itself has a
standard error of 0.25.
"""

import numpy as np
import pytest
from noisy_machine import WITHIN, Cells, block_seconds, share_covered

from convdyno.stats import rounds as rounds_module
from convdyno.stats.rounds import Round
from convdyno.stats.series import mean_variance
from convdyno.stats.summary import interval, precise_enough

EXPERIMENTS = 8000
ROUNDS = (3, 5, 10)
BLOCKS = (10, 30, 60)


@pytest.fixture(scope="module", params=BLOCKS)
def cell(request: pytest.FixtureRequest) -> Cells:
    rng = np.random.default_rng(request.param)
    return Cells.measure(rng, (EXPERIMENTS, max(ROUNDS), request.param))


@pytest.mark.parametrize("rounds", ROUNDS)
def test_with_a_fixed_number_of_rounds(cell: Cells, rounds: int) -> None:
    assert 93 <= share_covered([cell], None, rounds) <= 97


@pytest.mark.parametrize("most", ROUNDS)
@pytest.mark.parametrize("target", [0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.05])
def test_with_rounds_until_precise_enough(cell: Cells, most: int, target: float) -> None:
    assert 93 <= share_covered([cell], target, most) <= 97


@pytest.mark.parametrize("target", [0.015, 0.02, 0.03, 0.045, 0.06])
def test_where_processes_differ_as_much_as_blocks(target: float) -> None:
    cell = Cells.measure(np.random.default_rng(4), (EXPERIMENTS, 10, 30), between=0.03)
    assert 93 <= share_covered([cell], target, 10) <= 97


@pytest.mark.parametrize("target", [0.01, 0.02, 0.03])
def test_cells_that_must_all_be_precise_are_on_the_safe_side(target: float) -> None:
    rng = np.random.default_rng(5)
    cells = [Cells.measure(rng, (EXPERIMENTS, 10, 30)) for _ in range(3)]
    assert 94 <= share_covered(cells, target, 10) <= 98


def test_stopping_needs_its_correction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("convdyno.stats.summary.PEEKING", 1.0)
    cell = Cells.measure(np.random.default_rng(6), (EXPERIMENTS, 10, 60))
    assert share_covered([cell], 0.01, 10) < 93


def test_the_whole_floor_would_be_too_wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds_module, "FLOOR", 1.0)
    cell = Cells.measure(np.random.default_rng(7), (EXPERIMENTS, 3, 10))
    assert share_covered([cell], None, 3) > 97


def test_rounds_of_unequal_length_are_covered_too() -> None:
    rng = np.random.default_rng(8)
    parts = [Cells.measure(rng, (EXPERIMENTS, 1, blocks)) for blocks in (10, 60, 60, 5)]
    cell = Cells(
        np.concatenate([part.logs for part in parts], axis=1),
        np.concatenate([part.variances for part in parts], axis=1),
    )
    assert 93 <= share_covered([cell], None, 4) <= 97


def test_steps_alone_would_promise_far_too_much() -> None:
    seconds = block_seconds(np.random.default_rng(9), (EXPERIMENTS, 60))
    error = seconds.std(axis=-1, ddof=1) / np.sqrt(60)
    assert np.mean(np.abs(seconds.mean(axis=-1) - 1) <= 2 * error) < 0.6


def test_one_process_covers_its_own_rate_but_not_that_of_the_next() -> None:
    rng = np.random.default_rng(10)
    own, next_process = 0, 0
    for _ in range(1000):
        process = float(np.exp(0.01 * rng.standard_normal()))
        seconds = process * block_seconds(rng, (60,), between=0.0)
        found = interval([Round.of(seconds, 1, 1)])
        assert found.low is not None
        assert found.high is not None
        own += found.low <= 1 / process <= found.high
        next_process += found.low <= 1 <= found.high
    assert 910 <= own <= 970
    assert next_process < 860


@pytest.mark.parametrize("rounds", [2, 3, 7])
def test_the_simulation_uses_the_interval_of_the_tool(rounds: int) -> None:
    seconds = block_seconds(np.random.default_rng(rounds), (1, rounds, 20), within=WITHIN)
    mean = seconds.mean(axis=-1, keepdims=True)
    cell = Cells(-np.log(mean[..., 0]), mean_variance(seconds / mean)[0])
    measured = [Round.of(times, 4, 8) for times in seconds[0]]
    for looks, alpha in ((1, 0.05), (2, 0.025)):
        half = float(np.expm1(cell.after(rounds).half_width(alpha))[0])
        assert interval(measured, looks=looks).half_width == pytest.approx(half)
    assert precise_enough(measured, half * 1.001) == (rounds >= 3)
    assert not precise_enough(measured, half * 0.999)

"""What others have cost a block is found, and nothing else is taken off."""

import numpy as np
import pytest

from convdyno.stats.delays import delays

BLOCKS = 40
RNG = np.random.default_rng(3)


def measured(slope: float, waits: np.ndarray, own: float = 0.0, noise: float = 0.003):
    """Blocks of a quarter of a second that wait, each for so long, for cores others use."""
    quiet = 0.25 * np.exp(noise * RNG.standard_normal(BLOCKS))
    return {
        "seconds": quiet + slope * waits,
        "steps": np.full(BLOCKS, 8.0),
        "queued": waits + own,
        "others": waits + 0.001,
        "process": np.repeat([0, 1], BLOCKS // 2),
    }


@pytest.mark.parametrize("slope", [0.5, 0.85, 1.0])
def test_what_is_left_is_the_time_of_an_undisturbed_block(slope: float) -> None:
    waits = np.where(RNG.random(BLOCKS) < 0.4, RNG.uniform(0.02, 0.25, BLOCKS), 0.0)
    blocks = measured(slope, waits)
    left = blocks["seconds"] - delays(**blocks)
    assert np.std(np.log(left)) < 0.02
    assert np.std(np.log(blocks["seconds"])) > 0.1
    assert np.median(left) == pytest.approx(0.25, rel=0.01)


def test_on_a_quiet_machine_nothing_is_taken_off() -> None:
    blocks = measured(1.0, np.zeros(BLOCKS))
    assert delays(**blocks).max() < 1e-3


def test_what_a_cell_makes_its_own_threads_wait_is_its_own() -> None:
    """More threads than cores: long waits, and nobody else on the machine."""
    blocks = measured(0.0, np.zeros(BLOCKS))
    blocks["queued"] = RNG.uniform(0.1, 0.4, BLOCKS)
    blocks["others"] = np.zeros(BLOCKS)
    assert delays(**blocks).max() == 0


def test_no_block_loses_more_than_most_of_its_time() -> None:
    waits = np.zeros(BLOCKS)
    waits[3] = 40.0
    blocks = measured(0.0, waits)
    assert (delays(**blocks) <= 0.8 * blocks["seconds"]).all()

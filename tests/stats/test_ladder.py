"""Where the time goes: what each rung adds, and what may be said of it."""

import numpy as np
import pytest

from convdyno.stats.ladder import climb
from convdyno.stats.rounds import Round


def rounds(*seconds_per_image: float) -> list[Round | None]:
    return [Round.of([10 * s, 10 * s], 1, 10) for s in seconds_per_image]


def test_a_part_is_what_its_rung_adds_as_a_share_of_the_whole_step() -> None:
    found = climb(
        rounds(6, 6, 6), [("transfer", rounds(7, 7, 7)), ("decoding", rounds(10, 10, 10))]
    )
    assert found.compute.share == pytest.approx(0.6)
    assert {name: share.share for name, share in found.parts} == pytest.approx(
        {"transfer": 0.1, "decoding": 0.3}
    )
    assert found.input.share == pytest.approx(0.4)
    assert found.limit == "input"
    assert found.largest == "decoding"


def test_an_input_that_costs_nothing_is_called_so() -> None:
    found = climb(rounds(10.0, 10.1, 9.9), [("transfer", rounds(10.1, 10.2, 10.0))])
    assert found.limit == "compute"


def test_noise_as_large_as_the_effect_is_undecided() -> None:
    found = climb(rounds(9.0, 10.5, 9.9), [("transfer", rounds(10.1, 10.2, 10.0))])
    assert found.limit == "undecided"


def test_one_round_decides_nothing() -> None:
    found = climb(rounds(1.0), [("decoding", rounds(10.0))])
    assert (found.input.low, found.limit) == (None, "undecided")


def test_rounds_that_lack_a_rung_do_not_count() -> None:
    found = climb([*rounds(6, 6), *rounds(1)], [("decoding", [*rounds(10, 10), None])])
    assert found.rounds == 2
    assert found.compute.share == pytest.approx(0.6)
    with pytest.raises(ValueError, match="no round"):
        climb(rounds(1.0), [("decoding", [None])])


def test_the_interval_of_a_share_covers() -> None:
    """Compute 0.7 of a step, with noise of a few percent between processes."""
    random, hits = np.random.default_rng(5), 0
    for _ in range(2000):
        bottom = rounds(*(0.7 * np.exp(0.02 * random.standard_normal(4))))
        top = rounds(*np.exp(0.02 * random.standard_normal(4)))
        share = climb(bottom, [("decoding", top)]).input
        hits += share.low <= 0.3 <= share.high
    assert 0.93 < hits / 2000 < 0.97

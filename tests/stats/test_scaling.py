"""What more devices bring, and whether the intervals of it hold what they promise."""

import numpy as np
import pytest
from noisy_machine import block_seconds

from convdyno.stats.compare import PairedRounds
from convdyno.stats.rounds import Round
from convdyno.stats.scaling import Speedup, at_the_pace_of, communication, gain, standings

BLOCKS = 6
Rounds = list[Round | None]


def rounds(*seconds_per_image: float) -> Rounds:
    return [Round.of([10 * s, 10 * s], 1, 10, turns=[0, 1]) for s in seconds_per_image]


def noisy(rng: np.random.Generator, count: int, rate: float = 1.0, **noise: float) -> Rounds:
    times = block_seconds(rng, (count, BLOCKS), **noise) / rate
    return [Round.of(one, 1, 1, turns=range(BLOCKS)) for one in times]


def test_efficiency_is_the_speed_up_over_the_number_of_devices() -> None:
    found = gain(4, PairedRounds(rounds(0.3125, 0.3125), rounds(1, 1)))
    assert found == Speedup(4, pytest.approx(3.2), pytest.approx(3.2), pytest.approx(3.2), 2)
    assert found is not None
    assert found.efficiency.share == pytest.approx(0.8)
    assert found.falls_short


def test_a_slow_hour_is_slow_for_one_device_and_for_many() -> None:
    found = gain(2, PairedRounds(rounds(0.5, 0.6, 0.55), rounds(1.0, 1.2, 1.1)))
    assert found is not None and found.low == pytest.approx(2) and not found.falls_short


def test_one_common_round_gives_a_speed_up_without_an_interval() -> None:
    found = gain(2, PairedRounds([*rounds(0.6), None], rounds(1, 1)))
    assert found is not None
    assert (found.speedup, found.low, found.rounds) == (pytest.approx(1 / 0.6), None, 1)
    assert found.efficiency.high is None and not found.falls_short
    assert gain(2, PairedRounds([None], rounds(1))) is None


@pytest.mark.parametrize("count", [3, 5])
def test_the_interval_of_efficiency_covers(count: int) -> None:
    rng, hits, times = np.random.default_rng(count), 0, 1500
    for _ in range(times):
        drift = np.exp(0.05 * rng.standard_normal(count))
        one, many = noisy(rng, count), noisy(rng, count, rate=3.4)
        slowed = [
            Round(r.seconds * slow, r.images, r.contaminated, r.turns)
            for side in (one, many)
            for r, slow in zip(side, drift, strict=True)
            if r is not None
        ]
        found = gain(4, PairedRounds(slowed[count:], slowed[:count]))
        assert found is not None
        share = found.efficiency
        assert share.low is not None and share.high is not None
        hits += share.low <= 0.85 <= share.high
    assert 0.93 < hits / times < 0.975


def test_the_exchange_costs_what_independent_devices_do_without() -> None:
    found = communication(rounds(10, 10, 10), rounds(6.2, 6.1, 6.3))
    assert found is not None
    assert found.share.share == pytest.approx(0.38)
    assert found.exchange == found.share and found.waiting is None
    assert found.limit == "communication"


def test_an_exchange_that_hides_behind_the_computation_is_called_so() -> None:
    found = communication(rounds(10.1, 10.2, 10.0), rounds(10.0, 10.1, 9.9))
    assert found is not None and found.limit == "compute"
    unsure = communication(rounds(10.1, 10.2, 10.0), rounds(9.0, 10.5, 9.9))
    assert unsure is not None and unsure.limit == "undecided"
    assert communication([None], rounds(1)) is None


def test_waiting_for_a_slow_rank_is_no_exchange() -> None:
    """Two ranks take 8 and 12 seconds an image; together they take 12.1."""
    ranks = [rounds(8, 8, 8), rounds(12, 12, 12)]
    independent = rounds(*[1 / (1 / 8 + 1 / 12)] * 3)
    together = rounds(*[12.1 / 2] * 3)
    found = communication(together, independent, at_the_pace_of(ranks[1], 2))
    assert found is not None and found.waiting is not None
    assert found.share.share == pytest.approx(1 - 4.8 / 6.05)
    assert found.waiting.share == pytest.approx(1.2 / 6.05)
    assert found.exchange.share == pytest.approx(0.05 / 6.05)
    assert found.limit == "compute"


def test_the_interval_of_the_communication_share_covers() -> None:
    rng, hits, times = np.random.default_rng(2), 0, 1500
    for _ in range(times):
        found = communication(noisy(rng, 4, rate=0.62), noisy(rng, 4))
        assert found is not None
        assert found.share.low is not None and found.share.high is not None
        hits += found.share.low <= 0.38 <= found.share.high
    assert 0.93 < hits / times < 0.97


@pytest.mark.parametrize("size", [2, 4, 8])
def test_a_planted_straggler_is_found_and_it_alone(size: int) -> None:
    rng, times, right = np.random.default_rng(size), 100, 0
    for _ in range(times):
        ranks = [noisy(rng, 4, rate=0.8 if rank == 1 else 1.0) for rank in range(size)]
        found = [rank for rank, one in enumerate(standings(ranks)) if one.straggles]
        right += found == [1]
    assert right >= 95


@pytest.mark.parametrize(("size", "between"), [(2, 0.01), (4, 0.01), (4, 0.08), (8, 0.08)])
def test_none_is_found_in_noise(size: int, between: float) -> None:
    """However much ranks vary from round to round, at most one experiment in twenty names one."""
    rng, times, wrong = np.random.default_rng(size), 300, 0
    for _ in range(times):
        ranks = [noisy(rng, 3, between=between) for _ in range(size)]
        wrong += any(one.straggles for one in standings(ranks))
    assert wrong / times <= 0.06


def test_occasional_hiccups_of_all_ranks_make_nobody_a_straggler() -> None:
    rng, wrong = np.random.default_rng(1), 0
    for _ in range(200):
        ranks: list[Rounds] = []
        for _ in range(4):
            times = np.where(rng.random((5, 20)) < 0.1, 3.0, 1.0)
            ranks.append([Round.of(one, 1, 1, turns=range(20)) for one in times])
        wrong += any(one.straggles for one in standings(ranks))
    assert wrong <= 12


def test_a_rank_that_is_a_little_slower_is_not_named() -> None:
    ranks = [rounds(1, 1, 1), rounds(1, 1, 1), rounds(1.04, 1.04, 1.04)]
    found = standings(ranks)
    assert found[2].high is not None and found[2].high < 1
    assert not found[2].straggles


def test_one_round_names_nobody() -> None:
    found = standings([rounds(1), rounds(2)])
    assert [one.straggles for one in found] == [False, False]
    assert found[1].ratio == pytest.approx(0.5)
    assert standings([rounds(1, 1)]) == []
    assert standings([[None], rounds(1)]) == []


def test_a_standing_is_against_the_median_of_the_others() -> None:
    ranks = [rounds(1, 1), rounds(2, 2), rounds(4, 4), rounds(8, 8)]
    assert [one.ratio for one in standings(ranks)] == pytest.approx([4 / 1, 4 / 2, 2 / 4, 2 / 8])

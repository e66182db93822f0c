"""Looks: all ranks look up at the same steps and do the same, whatever their clocks say."""

import itertools
import threading
from collections.abc import Callable

import pytest
import ranks_here

from convdyno.run import cadence
from convdyno.run.cadence import Cadence, DueNow
from convdyno.run.ranks import Ranks
from convdyno.trial.training import Watching

Seen = list[tuple[int, DueNow]]
Act = Callable[[Ranks], Seen]


class Clock(threading.local):
    """Each rank's own, moved by its steps."""

    now = 0.0

    def perf_counter(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(cadence, "time", clock)
    return clock


def watched(
    clock: Clock, watching: Watching, steps: int, at_most: int, seconds: Callable[[int], float],
    stop_at: dict[int, int],
) -> Act:  # fmt: skip
    """What a rank sees at which steps, while each step takes it so long."""

    def train(ranks: Ranks) -> Seen:
        looks, seen = Cadence(watching, ranks, 0), []
        for step in range(steps + 1):
            stopping = step >= stop_at.get(ranks.world.rank, steps + 1)
            if looks.due(step, stopping):
                look = looks.look(step, stopping)
                seen.append((step, look))
                for what in ("display", "save", "picture"):
                    if getattr(look, what):
                        looks.done(what)
                looks.go_on(step, at_most - step % at_most)
                if look.stop:
                    break
            clock.now += seconds(ranks.world.rank)
        return seen

    return train


@pytest.mark.parametrize("size", [2, 3])
def test_all_ranks_see_the_same_at_the_same_steps(clock: Clock, size: int) -> None:
    watching = Watching(display_seconds=1.0, save_seconds=3.0, summary_seconds=5.0)
    act = watched(clock, watching, 300, 50, lambda rank: 0.04 * (1 + rank), {size - 1: 170})
    first, *others = ranks_here.together(size, act)
    assert all(seen == first for seen in others)
    assert [look.stop for _, look in first] == [False] * (len(first) - 1) + [True]
    assert 170 <= first[-1][0] <= 170 + 0.5 / 0.04 + 1
    assert {0, 50, 100, 150} <= {step for step, _ in first}
    assert sum(look.display for _, look in first) >= 5
    assert sum(look.save for _, look in first) == 2


def test_looks_are_half_a_second_apart_by_rank_0s_speed(clock: Clock) -> None:
    act = watched(clock, Watching(), 3000, 10_000, lambda rank: 0.001 + rank, {})
    for seen in ranks_here.together(2, act):
        steps = [step for step, _ in seen]
        apart = [after - before for before, after in itertools.pairwise(steps)]
        assert apart[:9] == [1, 2, 4, 8, 16, 32, 64, 128, 256]
        assert apart[9:] == [500] * 4


def test_a_table_has_its_lines_at_its_steps(clock: Clock) -> None:
    act = watched(clock, Watching(display_every=7), 40, 10_000, lambda rank: 0.0, {})
    for seen in ranks_here.together(2, act):
        assert [step for step, look in seen if look.display] == list(range(0, 41, 7))


def test_one_alone_looks_up_only_when_something_is_due(clock: Clock) -> None:
    watching = Watching(display_seconds=1.0, save_seconds=60, summary_seconds=60)
    seen = watched(clock, watching, 60, 40, lambda rank: 0.0625, {0: 55})(Ranks())
    assert [step for step, _ in seen] == [0, 16, 32, 40, 48, 55]
    assert [step for step, look in seen if look.display] == [16, 32, 48]
    assert seen[0][1].picture and seen[-1][1].stop


def test_one_alone_shows_signs_of_life_where_nothing_is_due(clock: Clock) -> None:
    watching = Watching(display_every=1000)
    seen = watched(clock, watching, 30, 1000, lambda rank: 1.0, {})(Ranks())
    assert [step for step, _ in seen] == [0, 10, 20, 30]

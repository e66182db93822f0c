"""Blocks: as long as they must be, nothing but steps inside, disturbances seen."""

import gc
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import psutil
import pytest

from convdyno.run.measure import BLOCK_SECONDS, CHILDREN_LISTED, Meter, _cpu_clock
from convdyno.store.record import Block


class Clock:
    """A clock that only steps move; each step takes what `seconds` says."""

    def __init__(self, seconds: Any) -> None:
        self.now, self.steps, self.seconds = 0, 0, seconds
        self.gc_was_on = False
        self.waits = 0

    def __call__(self) -> int:
        return self.now

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.gc_was_on |= gc.isenabled()
            self.steps += 1
            self.now += round(1e9 * self.seconds(self.steps))

    def wait(self) -> None:
        self.waits += 1


def a_meter(seconds: Any, **more: Any) -> tuple[Meter, Clock]:
    clock = Clock(seconds)
    return Meter(clock.run, clock.wait, clock, **more), clock


def test_a_block_is_all_its_steps_and_one_wait() -> None:
    meter, clock = a_meter(lambda _: 0.01, steps_per_block=30)
    block = meter.block()
    assert (block.steps, clock.steps, clock.waits) == (30, 30, 1)
    assert block.seconds == pytest.approx(0.3)


def test_warming_up_sizes_blocks_to_last_long_enough() -> None:
    meter, _ = a_meter(lambda _: 0.002)
    blocks, steady = meter.warm_up(10.0)
    assert steady
    assert meter.block().seconds >= BLOCK_SECONDS
    assert blocks[0].steps == 1


def test_a_step_that_is_long_enough_is_a_block_of_its_own() -> None:
    meter, _ = a_meter(lambda _: 0.9)
    meter.warm_up(10.0)
    assert meter.steps_per_block == 1


def test_a_rate_that_keeps_rising_is_not_called_steady() -> None:
    meter, _ = a_meter(lambda step: 0.5 / step)
    blocks, steady = meter.warm_up(3.0)
    assert not steady
    assert sum(block.seconds for block in blocks) >= 3.0


def test_latency_keeps_each_step_and_waits_after_each() -> None:
    meter, clock = a_meter(lambda step: 0.01 * step, latency=True, steps_per_block=3)
    block = meter.block()
    assert block.step_seconds == pytest.approx((0.01, 0.02, 0.03))
    assert block.seconds == pytest.approx(0.06)
    assert clock.waits == 3


def test_the_collector_is_off_while_a_turn_is_measured_and_on_after() -> None:
    meter, clock = a_meter(lambda _: 0.01, steps_per_block=20)
    meter.turn(0, 3)
    assert not clock.gc_was_on
    assert gc.isenabled()


def test_a_contaminated_block_is_kept(monkeypatch: Any) -> None:
    meter, _ = a_meter(lambda _: 0.3)
    shares = iter([0.0, 0.5, 0.0])
    monkeypatch.setattr(
        Meter, "block", lambda _, turn: Block(seconds=0.3, steps=1, foreign_share=next(shares))
    )
    assert [b.contaminated for b in meter.turn(0, 3)] == [False, True, False]


BURN = "while True: pass"
BURN_BELOW = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {BURN!r}])"
BURN_ELSEWHERE = (
    "import subprocess, sys; "
    f"print(subprocess.Popen([sys.executable, '-c', {BURN!r}], stdout=2).pid)"
)
"""Ends at once, so that nobody here is the parent of what burns."""
BURNT_SECONDS = 0.4


@contextmanager
def strangers(count: int) -> Iterator[list[int]]:
    """Busy processes that were not started by this one, nor by any that it started."""
    start = [sys.executable, "-c", BURN_ELSEWHERE]
    pids = [int(subprocess.check_output(start)) for _ in range(count)]
    try:
        yield pids
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)


@contextmanager
def family(code: str) -> Iterator[psutil.Process]:
    """A child of this process, and whatever it starts."""
    child = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
    try:
        yield psutil.Process(child.pid)
    finally:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def foreign_seconds(
    monkeypatch: pytest.MonkeyPatch, burnt: Callable[[], float], run: Callable[[], Any], **more: Any
) -> float:
    """What a block takes for foreign on a machine where nothing but this burns CPU seconds."""
    times = psutil.cpu_times()
    idle = times._replace(**dict.fromkeys(times._fields, 0.0))
    monkeypatch.setattr(psutil, "cpu_times", lambda: idle._replace(user=burnt()))

    def until_burnt(_: int) -> None:
        began = burnt()
        while burnt() - began < BURNT_SECONDS:
            run()

    meter = Meter(until_burnt, lambda: None, time.perf_counter_ns, **more)
    block = meter.block()
    return block.foreign_share * block.seconds * (os.cpu_count() or 1)


def cpu_seconds(process: psutil.Process) -> float:
    used = process.cpu_times()
    return float(used.user + used.system)


def nap() -> None:
    time.sleep(0.02)


def test_work_of_another_process_is_seen_in_the_block() -> None:
    meter = Meter(lambda _: time.sleep(1.0), lambda: None, time.perf_counter_ns)
    with strangers(max(2, (os.cpu_count() or 1) // 4)):
        block = meter.block()
    assert block.contaminated
    assert block.foreign_share > 0.1


def test_own_work_is_not_foreign(monkeypatch: pytest.MonkeyPatch) -> None:
    foreign = foreign_seconds(monkeypatch, time.process_time, lambda: sum(range(10_000)))
    assert foreign < BURNT_SECONDS / 4


@pytest.mark.parametrize("listed", [CHILDREN_LISTED, False])
def test_work_of_a_live_child_is_not_foreign(monkeypatch: pytest.MonkeyPatch, listed: bool) -> None:
    monkeypatch.setattr("convdyno.run.measure.CHILDREN_LISTED", listed)
    with family(BURN) as child:
        foreign = foreign_seconds(monkeypatch, lambda: cpu_seconds(child), nap)
    assert foreign < BURNT_SECONDS / 4


def test_work_of_a_childs_child_is_not_foreign(monkeypatch: pytest.MonkeyPatch) -> None:
    with family(BURN_BELOW) as child:
        while not (below := child.children()):
            nap()
        foreign = foreign_seconds(monkeypatch, lambda: cpu_seconds(below[0]), nap)
    assert foreign < BURNT_SECONDS / 4


def test_what_a_child_burnt_stays_counted_when_it_has_ended() -> None:
    with family(BURN) as child:
        while cpu_seconds(child) < BURNT_SECONDS:
            nap()
        before = _cpu_clock(()).own
    assert _cpu_clock(()).own > before - 1e-6  # A sum of floats in another order.


def test_a_rank_beside_this_one_is_not_foreign(monkeypatch: pytest.MonkeyPatch) -> None:
    with strangers(1) as (rank,):
        seconds = partial(cpu_seconds, psutil.Process(rank))
        assert foreign_seconds(monkeypatch, seconds, nap) > BURNT_SECONDS / 2
        foreign = foreign_seconds(monkeypatch, seconds, nap, siblings=(rank,))
    assert foreign < BURNT_SECONDS / 4

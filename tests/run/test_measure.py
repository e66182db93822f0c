"""Blocks: as long as they must be, nothing but steps inside, disturbances seen."""

import gc
import multiprocessing
import time
from typing import Any

import pytest

from convdyno.results.record import Block
from convdyno.run.measure import BLOCK_SECONDS, Meter


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


def test_a_contaminated_block_is_kept_and_measured_again(monkeypatch: Any) -> None:
    meter, _ = a_meter(lambda _: 0.3)
    shares = iter([0.0, 0.5, 0.0, 0.0])
    monkeypatch.setattr(
        Meter, "block", lambda _, turn: Block(seconds=0.3, steps=1, foreign_share=next(shares))
    )
    assert [b.contaminated for b in meter.turn(0, 3)] == [False, True, False, False]


def burn(seconds: float) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def test_work_of_another_process_is_seen_in_the_block() -> None:
    meter = Meter(lambda _: time.sleep(1.0), lambda: None, time.perf_counter_ns)
    others = [multiprocessing.Process(target=burn, args=(3.0,)) for _ in range(2)]
    for other in others:
        other.start()
    time.sleep(0.5)
    block = meter.block()
    for other in others:
        other.kill()
        other.join()
    assert block.contaminated
    assert block.foreign_share > 0.1


def test_own_work_is_not_foreign() -> None:
    meter = Meter(lambda _: burn(1.0), lambda: None, time.perf_counter_ns)
    # The machine may be busy with something else; our own core must not be counted in.
    assert min(meter.block().foreign_share for _ in range(3)) < 0.9

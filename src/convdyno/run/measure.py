"""Timing: blocks of steps with one wait at the end, warm-up until steady, nothing else inside."""

from __future__ import annotations

import gc
import math
import os
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from convdyno.machine.processor import logical_cores
from convdyno.run.energy import Joules
from convdyno.stats.steady import Steady
from convdyno.store.record import Block, Peak

if TYPE_CHECKING:
    from convdyno.engines.contract import Session
    from convdyno.run.ranks import Ranks

BLOCK_SECONDS = 0.2
"""A block lasts at least this long, so that clock and counters resolve it."""
PROBE_SECONDS = 0.4
"""Each kind of pure work is repeated for this long."""
COUNTER_SECONDS = 0.02
"""The system's CPU counters tick in hundredths of a second and say nothing of shorter times."""
CHILDREN_LISTED = Path("/proc/thread-self/children").exists()
"""Whether Linux tells each thread's children; elsewhere all processes are looked through."""
UNCOUNTED = Joules(reason="nobody looked")


@dataclass
class Meter:
    """Times blocks of one kind of step."""

    run: Callable[[int], None]
    """Enqueue so many steps."""
    wait: Callable[[], None]
    clock: Callable[[], int]
    latency: bool = False
    waited: Callable[[], float] | None = None
    """The seconds so far in which steps waited for data, where they read any."""
    agree: Callable[[Any], Any] = lambda own: own
    """What rank 0 says: ranks that run together begin blocks together and decide alike."""
    siblings: tuple[int, ...] = ()
    """The processes of other ranks on the same machine: what they use is not used by strangers."""
    joules: Joules = UNCOUNTED
    steps_per_block: int = 1

    def block(self, turn: int = 0) -> Block:
        """Run and time one block."""
        steps, each = self.agree(self.steps_per_block), None
        waited = self.waited() if self.waited else 0.0
        energy = self.joules.read()
        before = _cpu_clock(self.siblings)
        queued = _queued_seconds()
        if self.latency:
            each = self._time_each(steps)
            seconds = sum(each)
        else:
            seconds = self._time_all(steps)
        queued = _since(queued, _queued_seconds())
        foreign, steal = _others(before, _cpu_clock(self.siblings))
        return Block(
            seconds=seconds,
            steps=steps,
            turn=turn,
            foreign_share=foreign,
            steal_share=steal,
            queued_seconds=queued,
            step_seconds=each,
            wait_seconds=self.waited() - waited if self.waited else None,
            joules=self.joules.since(energy),
        )

    def warm_up(self, seconds: float, brief: bool = False) -> tuple[list[Block], bool]:
        """Run blocks until steady, for `seconds` at the most; size the blocks on the way.

        Brief is for a process of which others have shown that it is soon warm.
        """
        least, window = (0.4, 1) if brief else (0.8, 2)
        steady = Steady(window, window_seconds=0.2, minimum_seconds=least, maximum_seconds=seconds)
        blocks = []
        while not self.agree(steady.over):
            block = self.block()
            blocks.append(block)
            steady.add(block.steps / block.seconds, block.seconds)
            if block.seconds < BLOCK_SECONDS:
                growth = min(10.0, 1.2 * BLOCK_SECONDS / block.seconds)
                self.steps_per_block = math.ceil(self.steps_per_block * growth)
        return blocks, steady.reached

    def turn(self, turn: int, blocks: int) -> list[Block]:
        """A group of blocks, in one go."""
        with gc_paused():
            if self.agree(self.steps_per_block) > 1:
                # A process that was stopped comes back to cold caches: one step that is not timed.
                self.run(1)
                self.wait()
            return [self.block(turn) for _ in range(blocks)]

    def _time_all(self, steps: int) -> float:
        start = self.clock()
        self.run(steps)
        self.wait()
        return (self.clock() - start) / 1e9

    def _time_each(self, steps: int) -> tuple[float, ...]:
        run, wait, clock = self.run, self.wait, self.clock
        ticks = [clock()]
        for _ in range(steps):
            run(1)
            wait()
            ticks.append(clock())
        return tuple((b - a) / 1e9 for a, b in pairwise(ticks))


@contextmanager
def gc_paused() -> Iterator[None]:
    """Python's cyclic collector collects now and then waits outside.

    What is there after a collection stays: the next one looks at what is new alone, which takes a
    tenth of a second less in a process that has imported a framework.
    """
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def probe(session: Session) -> list[Peak]:
    """The best rate of each kind of pure work; the best, because a peak is a limit."""
    peaks = []
    for work in session.probes():
        work.run()
        session.wait()
        best = math.inf
        with gc_paused():
            end = time.perf_counter() + PROBE_SECONDS
            while best == math.inf or time.perf_counter() < end:
                start = time.perf_counter_ns()
                work.run()
                session.wait()
                best = min(best, (time.perf_counter_ns() - start) / 1e9)
        peaks.append(Peak(kind=work.kind, per_second=work.work / best))
    return peaks


@dataclass(frozen=True, slots=True)
class _CpuClock:
    wall: float
    busy: float
    steal: float
    own: float


def siblings(ranks: Ranks) -> tuple[int, ...]:
    """The other ranks that run on this machine, as far as they can be seen."""
    machine = machine_id()
    everybody: list[tuple[str, int]] = ranks.gather((machine, os.getpid()))
    there = [pid for where, pid in everybody if where == machine and pid != os.getpid()]
    return tuple(pid for pid in there if psutil.pid_exists(pid))


def shared_joules(ranks: Ranks, found: Joules) -> Joules:
    """The counters that one rank reads, so that none of its machine is counted twice."""
    names = [counter.identity for counter in found.counters]
    return found.shared(ranks.gather((machine_id(), names)), ranks.world.rank)


def machine_id() -> str:
    """The same for all processes of a machine, as long as it runs."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    return boot.read_text().strip() if boot.exists() else socket.gethostname()


def _cpu_clock(siblings: Sequence[int]) -> _CpuClock:
    times = psutil.cpu_times()
    idle = times.idle + getattr(times, "iowait", 0.0)
    steal = getattr(times, "steal", 0.0)
    twice = getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0)
    return _CpuClock(
        wall=time.perf_counter(),
        busy=sum(times) - idle - steal - twice,
        steal=steal,
        own=sum(os.times()[:4]) + _tree_seconds(siblings),
    )


def _queued_seconds() -> float | None:
    """How long threads of this process were ready to run, and waited for a core; where told."""
    nanoseconds, tasks = 0, "/proc/self/task"
    try:
        for thread in os.listdir(tasks):  # noqa: PTH208, as in `_children`
            with suppress(FileNotFoundError), open(f"{tasks}/{thread}/schedstat", "rb", 0) as file:  # noqa: PTH123
                nanoseconds += int(file.read().split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return nanoseconds / 1e9


def _since(before: float | None, after: float | None) -> float | None:
    """By how much a counter has grown; threads that have ended take theirs with them."""
    return None if before is None or after is None else max(0.0, after - before)


def _tree_seconds(siblings: Sequence[int]) -> float:
    """CPU seconds of the siblings and of every process that they or this one have started.

    What a process has used counts for itself while it runs and for its parent once it has ended, so
    that the sum over all who run never falls.
    """
    seconds, counted = 0.0, {os.getpid()}
    waiting = [*siblings, *_children(os.getpid())]
    while waiting:
        if (pid := waiting.pop()) in counted:
            continue
        counted.add(pid)
        with suppress(psutil.Error):
            used = psutil.Process(pid).cpu_times()
            seconds += used.user + used.system + used.children_user + used.children_system
            waiting += _children(pid)
    return seconds


def _children(pid: int) -> list[int]:
    """The processes that one has started and that have not ended."""
    if not CHILDREN_LISTED:
        return [child.pid for child in psutil.Process(pid).children()]
    found, tasks = list[int](), f"/proc/{pid}/task"
    with suppress(OSError):  # Processes and threads may end at any moment.
        for thread in os.listdir(tasks):  # noqa: PTH208, twice as fast, and there may be hundreds
            with suppress(OSError), open(f"{tasks}/{thread}/children", "rb", 0) as file:  # noqa: PTH123
                found += map(int, file.read().split())
    return found


def _others(before: _CpuClock, after: _CpuClock) -> tuple[float, float]:
    """The share of all cores that other processes used, and that the hypervisor took."""
    wall = after.wall - before.wall
    if wall < COUNTER_SECONDS:
        return 0.0, 0.0
    capacity = wall * logical_cores()
    foreign = (after.busy - before.busy) - (after.own - before.own)
    steal = after.steal - before.steal
    return min(1.0, max(0.0, foreign / capacity)), min(1.0, max(0.0, steal / capacity))

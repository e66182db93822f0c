"""What the harness itself costs: on a 2 ms step, at start-up, and in the parent's memory.

python benchmarks/overhead.py
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

import psutil
from side_by_side import race

from convdyno.run.measure import Meter

STEP_SECONDS = 0.002
STEPS = 100


def spin() -> None:
    """Two milliseconds of work."""
    end = time.perf_counter_ns() + int(STEP_SECONDS * 1e9)
    while time.perf_counter_ns() < end:
        pass


def spins(steps: int) -> None:
    """So many steps."""
    for _ in range(steps):
        spin()


def best_of(times: int, run: Callable[[], object]) -> float:
    """The shortest of some runs, in seconds."""
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def bare() -> None:
    """The steps of a block without the block."""
    spins(STEPS)


def parent_memory(cells: int) -> int:
    """Peak memory of the parent that runs so many cells."""
    batches = ",".join(str(n + 1) for n in range(cells))
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            [sys.executable, "-m", "convdyno", "bench", "trivial", "--engine", "clockwork",
             "--batch", batches, "--budget", "20s", "--out", folder, "--json"],
            stdout=subprocess.DEVNULL,
        )  # fmt: skip
        peak = 0
        while process.poll() is None:
            peak = max(peak, psutil.Process(process.pid).memory_info().rss)
            time.sleep(0.05)
    return peak


def main() -> None:
    """Print each cost beside what it is measured against."""
    meter = Meter(spins, lambda: None, time.perf_counter_ns, steps_per_block=STEPS)
    ratio = race(meter.block, bare, seconds=20)
    print(f"2 ms steps in blocks, harness / bare loop: {ratio}")
    inside = [meter.block().seconds / STEPS for _ in range(20)]
    print(f"time that a block attributes to a 2 ms step: {1e3 * min(inside):.4f} ms")
    python = best_of(7, lambda: subprocess.run([sys.executable, "-c", "pass"], check=True))
    helping = [sys.executable, "-m", "convdyno", "--help"]
    start_up = best_of(7, lambda: subprocess.run(helping, check=True, capture_output=True))
    print(f"convdyno --help: {start_up:.3f} s (Python alone: {python:.3f} s)")
    print(f"parent of 40 cells: {parent_memory(40) / 1e6:.0f} MB at its peak")


if __name__ == "__main__":
    main()

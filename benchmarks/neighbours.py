"""Other programs on a machine that is being measured, as `benchmarks/precision.py` has them.

python benchmarks/neighbours.py bursts|programs SEED
"""

from __future__ import annotations

import ctypes
import os
import random
import signal
import sys
import time
from pathlib import Path

PROGRAMS = 3
FILE_BYTES = 1 << 20
PARENT_DEATH_SIGNAL = 1


def compute(seconds: float) -> None:
    """Use one core."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


def bursts() -> None:
    """0.2 to 1.5 s on one core, every 1 to 4 s."""
    while True:
        compute(random.uniform(0.2, 1.5))
        time.sleep(random.uniform(1, 4))


def programs() -> None:
    """Three programs that read files and compute now and then, as an editor and a browser do."""
    seed = random.random()
    for number in range(1, PROGRAMS):
        if os.fork() == 0:
            end_with_parent()
            random.seed(seed + number)
            break
    files = [path for path in Path(sys.prefix, "lib").rglob("*.py") if path.is_file()]
    while True:
        for path in random.sample(files, 40):
            path.read_bytes()[:FILE_BYTES].count(b"\n")
        compute(random.uniform(0.02, 0.6))
        time.sleep(random.uniform(0.5, 4))


def end_with_parent() -> None:
    """Die when the parent does."""
    ctypes.CDLL(None).prctl(PARENT_DEATH_SIGNAL, signal.SIGKILL)


if __name__ == "__main__":
    end_with_parent()
    random.seed(int(sys.argv[2]))
    {"bursts": bursts, "programs": programs}[sys.argv[1]]()

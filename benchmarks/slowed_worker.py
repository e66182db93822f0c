"""A worker whose timed blocks last longer by an exact share: it waits, busily, in proportion.

python benchmarks/slowed_worker.py 0.05
"""

from __future__ import annotations

import sys

from convdyno.run import worker
from convdyno.run.measure import Meter


def slow_down(share: float) -> None:
    """Let every block of this process take that share longer than it does."""

    def time_all(meter: Meter, steps: int) -> float:
        start = meter.clock()
        meter.run(steps)
        meter.wait()
        end = start + (meter.clock() - start) * (1 + share)
        while (now := meter.clock()) < end:
            pass
        return (now - start) / 1e9

    Meter._time_all = time_all  # type: ignore[method-assign]


if __name__ == "__main__":
    slow_down(float(sys.argv[1]))
    worker.main()

"""How fast the device can be: pure work, timed in the engine's own process."""

from __future__ import annotations

import time

from convdyno.engines.contract import Session
from convdyno.run.measure import gc_paused
from convdyno.store.record import Peak

PROBE_SECONDS = 0.4
"""Each kind of work is repeated for this long."""


def probe(session: Session) -> list[Peak]:
    """The best rate of each kind of work; the best, because a peak is a limit."""
    peaks = []
    for work in session.probes():
        work.run()
        session.wait()
        best = float("inf")
        with gc_paused():
            end = time.perf_counter() + PROBE_SECONDS
            while best == float("inf") or time.perf_counter() < end:
                start = time.perf_counter_ns()
                work.run()
                session.wait()
                best = min(best, (time.perf_counter_ns() - start) / 1e9)
        peaks.append(Peak(kind=work.kind, per_second=work.work / best))
    return peaks

"""What a probe owes: its result is there when the session has waited, and no peak is a dream."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from convdyno.engines.contract import Probe, Session

POSSIBLE = 100
"""How many times faster than NumPy's float32 half precision might be on the same processor."""


def check_probes(session: Session) -> None:
    """Each probe computes what it says, and `wait` waits for it."""
    found = session.probes()
    assert [probe.kind for probe in found] == ["matmul", "conv", "copy"]
    for probe in found:
        check_result(session, probe)
        rate = probe.work / fastest(lambda probe=probe: (probe.run(), session.wait()))
        assert rate < POSSIBLE * numpys()[probe.kind], f"{probe.kind}: {rate:.3g} a second"


def check_result(session: Session, probe: Probe) -> None:
    """What it returns is the result, and is there."""
    result: Any = probe.run()
    session.wait()
    assert getattr(result, "is_ready", lambda: True)(), f"{probe.kind} is still computed"
    array = np.asarray(result.float() if hasattr(result, "float") else result).astype(np.float32)
    if probe.kind == "copy":
        assert probe.work in (2 * array.nbytes, 3 * array.nbytes)
        return
    # A sum of products of numbers that are even between -0.5 and 0.5.
    terms = probe.work / 2 / array.size
    assert abs(array.std() / (terms**0.5 / 12) - 1) < 0.1


@cache
def numpys() -> dict[str, float]:
    """What NumPy reaches on this machine."""
    a, source = np.ones((1024, 1024), np.float32), np.ones(1 << 24, np.float32)
    target, product = source.copy(), a.copy()
    matmul = 2.0 * 1024**3 / fastest(lambda: np.matmul(a, a, out=product))
    copy = 2.0 * source.nbytes / fastest(lambda: np.copyto(target, source))
    return {"matmul": matmul, "conv": matmul, "copy": copy}


def fastest(work: Callable[[], object]) -> float:
    """The seconds of the best of a few."""
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return min(seconds)

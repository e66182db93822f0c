"""Signals that mean "stop soon", heard while something runs that has to be kept."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)


@contextmanager
def heeding(act: Callable[[int, object], None]) -> Iterator[None]:
    """Act on these signals meanwhile; in a thread they are somebody else's business.

    Those that somebody wants ignored (`nohup`) are.
    """
    ours = threading.current_thread() is threading.main_thread()
    heard = [n for n in STOPPING if ours and signal.getsignal(n) is not signal.SIG_IGN]
    before = {number: signal.signal(number, act) for number in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

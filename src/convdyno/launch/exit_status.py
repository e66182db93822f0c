"""How a process died, in words and as the status of a record."""

from __future__ import annotations

import contextlib
import signal
from pathlib import Path

Death = tuple[str, str]
"""The status of the record, and how the worker died."""


def obituary(code: int | None, oom_kills_before: int) -> Death:
    """By its exit code, which is negative for a signal and None if it will not end."""
    if code == -signal.SIGKILL and oom_kills() > oom_kills_before:
        return "oom", "the system ran out of memory and ended it: try a smaller --batch"
    how = f"exit code {code}" if code is None or code >= 0 else signal.Signals(-code).name
    return "failed", f"died ({how})"


def oom_kills() -> int:
    """How many processes the kernel has ended for memory so far."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/vmstat").read_text().splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return 0

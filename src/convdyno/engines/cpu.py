"""The processor that engines run on, as the system tells it."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path

NATIVE = {
    "bf16": {"avx512_bf16", "amx_bf16", "bf16"},
    "fp16": {"avx512_fp16", "amx_fp16", "asimdhp"},
}
"""Features, as Linux calls them, by which half precision is real arithmetic."""
SIBLINGS = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"


def cores() -> int:
    """The physical cores that this process may use."""
    if not hasattr(os, "sched_getaffinity"):
        return os.cpu_count() or 1
    return len({text_of(SIBLINGS.format(n)) or n for n in os.sched_getaffinity(0)})


def name() -> str:
    """What the processor is called."""
    found = re.search(r"^model name\s*:\s*(.*)$", text_of("/proc/cpuinfo"), re.MULTILINE)
    return found[1] if found else platform.processor() or platform.machine()


def features() -> set[str]:
    """Its instruction sets, as Linux calls them; none where that cannot be seen."""
    found = re.search(r"^(?:flags|Features)\s*:(.*)$", text_of("/proc/cpuinfo"), re.MULTILINE)
    return set(found[1].split()) if found else set()


def emulated(precision: str) -> bool:
    """Whether it only pretends to have a precision."""
    found = features()
    return precision in NATIVE and bool(found) and not found & NATIVE[precision]


def emulation(precision: str) -> list[str]:
    """A warning, if a precision is emulated."""
    if not emulated(precision):
        return []
    native = " nor ".join(sorted(n for n in NATIVE[precision] if "512" in n or "amx" in n))
    return [
        f"{precision} is emulated: this CPU has neither {native}; "
        "expect it to be slower than fp32, and measure fp32 beside it"
    ]


def crowded(threads: int) -> list[str]:
    """A warning, if there are more threads than cores."""
    if threads <= cores():
        return []
    return [f"{threads} threads share {cores()} cores; --threads {cores()} is usually faster"]


def text_of(file: str | Path) -> str:
    """What a file of the system's says; nothing if it is not there."""
    try:
        return Path(file).read_text()
    except OSError:
        return ""

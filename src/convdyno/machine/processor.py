"""The processor: its cores, its name and its instruction sets, as the system tells them."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path

SIBLINGS = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"
QUOTA = "/sys/fs/cgroup/cpu.max"


def usable_cores() -> list[int]:
    """The numbers of the cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(logical_cores()))


def core_count(cores: Collection[int] = ()) -> int:
    """How many of these cores, or of its own, a process may use: a container may have a quota."""
    here = len(cores or usable_cores())
    quota, _, period = text_of(QUOTA).strip().partition(" ")
    if quota.isdecimal() and period.isdecimal() and int(period):
        here = min(here, max(1, int(quota) // int(period)))
    return here


def physical_cores() -> int:
    """How many cores this process may run on, counting those as one that share their units."""
    return len({text_of(SIBLINGS.format(n)) or n for n in usable_cores()})


def logical_cores() -> int:
    """How many cores the machine has, as the system counts them."""
    return os.cpu_count() or 1


def name() -> str:
    """What the processor is called."""
    found = re.search(r"^model name\s*:\s*(.*)$", text_of("/proc/cpuinfo"), re.MULTILINE)
    if found:
        return found[1].strip()
    told = ""
    if sys.platform == "darwin":
        asked = ["sysctl", "-n", "machdep.cpu.brand_string"]
        told = subprocess.run(asked, capture_output=True, text=True, timeout=10).stdout.strip()
    return told or platform.processor() or platform.machine()


def features() -> frozenset[str]:
    """Its instruction sets, as Linux calls them; none where that cannot be seen."""
    found = re.search(r"^(?:flags|Features)\s*:(.*)$", text_of("/proc/cpuinfo"), re.MULTILINE)
    return frozenset(found[1].split()) if found else frozenset()


def text_of(file: str | Path) -> str:
    """What a file of the system's says; nothing if it is not there."""
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""

"""When two machines are alike: figures from unlike ones are never put together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any


def kind(machine: Mapping[str, Any]) -> str:
    """What a machine is, as far as that decides speed: processor, cores, GPUs."""
    cpu = str(machine.get("cpu") or "unknown processor")
    cores = machine.get("cores_usable")
    parts = [cpu, f"{cores} core{'s' * (cores != 1)}"] if cores else [cpu]
    gpus = Counter(str(gpu.get("name", "GPU")) for gpu in machine.get("gpus") or ())
    return ", ".join([*parts, *(f"{count} x {name}" for name, count in gpus.items())])


def make(machine: Mapping[str, Any]) -> str:
    """The same without how many cores and GPUs: a job has what it asked for."""
    gpus = sorted({str(gpu.get("name", "GPU")) for gpu in machine.get("gpus") or ()})
    return ", ".join([str(machine.get("cpu") or "unknown processor"), *gpus])


def same(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    """Whether it is one and the same machine, not only one of the same kind."""
    return a.get("host") == b.get("host") and kind(a) == kind(b)

"""The device of torch that a trial runs on: choice, arithmetic, waiting, memory."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable

import torch

from convdyno.engines.contract import Trial
from convdyno.engines.devices import check_tf32, pick
from convdyno.errors import Refused
from convdyno.machine import processor


def choose(wanted: str) -> torch.device:
    """The device of that name, or the best one for "auto"."""
    cuda = [f"cuda:{n}" for n in range(torch.cuda.device_count())]
    mps = ["mps"] if torch.backends.mps.is_available() else []
    return torch.device(pick("torch", wanted, [*cuda, *mps, "cpu"]))


def start(trial: Trial, device: torch.device) -> int:
    """Give the process its device, arithmetic and threads, and say how many of those."""
    check_tf32(trial.precision, device.type)
    if trial.compile == "on" and device.type == "cpu" and not _compiler():
        raise Refused("torch.compile needs a C++ compiler on a CPU: install g++, or --compile off")
    threads = trial.threads or processor.physical_cores()
    torch.set_num_threads(threads)
    # These two spellings are understood by every torch since 1.12 and do not conflict.
    torch.set_float32_matmul_precision("high" if trial.precision == "tf32" else "highest")
    torch.backends.cudnn.allow_tf32 = trial.precision == "tf32"
    torch.backends.cudnn.benchmark = True
    if device.type == "cuda":
        torch.cuda.set_device(device)
    return threads


def name(device: torch.device) -> str:
    """What the device is called."""
    on_gpu = device.type == "cuda"
    return torch.cuda.get_device_name(device) if on_gpu else processor.name()


def wait(device: torch.device) -> None:
    """Return when the device has finished everything enqueued."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()


def memory_bytes(device: torch.device) -> int | None:
    """The peak of GPU memory held."""
    return torch.cuda.max_memory_allocated(device) if device.type == "cuda" else None


def stream(on: torch.device, floats: int) -> tuple[Callable[[], object], float]:
    """Work that only moves memory, and how many bytes."""
    source = torch.zeros(floats, device=on)
    target = torch.empty_like(source)
    return lambda: target.copy_(source), 2.0 * source.nbytes


def graphs() -> int:
    """How many graphs torch.compile has made in this process."""
    from torch._dynamo.utils import counters

    return counters["stats"]["unique_graphs"]


def _compiler() -> bool:
    return any(shutil.which(name) for name in (os.environ.get("CXX", ""), "g++", "clang++"))

"""The device of JAX that a trial runs on: choice, threads, waiting, memory, compilations."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import jax
import numpy as np

from convdyno.engines.contract import Trial
from convdyno.engines.devices import check_tf32
from convdyno.errors import Refused
from convdyno.machine import processor

POOL_THREAD = "tf_XLAEigen"
"""What Linux shows as the name of each thread that XLA computes with on a CPU."""
COMPILED = "/jax/core/compile/backend_compile_duration"
GPUS = ("cuda", "rocm")
ALIGNMENT = 64
"""Bytes; XLA takes the memory of arrays at such addresses as it is."""


def start(trial: Trial, devices: int = 1) -> tuple[jax.Device, int]:
    """Give the process its device and threads; on a CPU there is one for each device at least."""
    compilations()
    wanted = max(trial.threads or processor.physical_cores(), devices)
    # XLA reads this once, when JAX first asks for a device; imports alone do not.
    os.environ["NPROC"] = str(wanted)
    if trial.device == "cpu":
        # So that the CPU's user does not reserve the memory of a GPU.
        jax.config.update("jax_platforms", "cpu")
    device = _choose(trial.device)
    check_tf32(trial.precision, kind(device))
    threads = _pool_threads() or wanted
    if device.platform == "cpu" and trial.threads and threads != wanted:
        raise Refused(
            f"JAX already runs with {threads} CPU threads in this process and cannot change to "
            f"{wanted}: start a new process"
        )
    return device, threads


def kind(device: jax.Device) -> str:
    """ "cpu", "cuda", "rocm", "tpu"..."""
    version = device.client.platform_version.lower()
    kinds = [gpu for gpu in GPUS if gpu in version] if device.platform == "gpu" else []
    return kinds[0] if kinds else device.platform


def label(device: jax.Device) -> str:
    """How a trial names the device: all devices of a CPU have one name."""
    what = kind(device)
    return what if what == "cpu" else f"{what}:{device.local_hardware_id or 0}"


def name(device: jax.Device) -> str:
    """What the device is called."""
    return processor.name() if device.platform == "cpu" else device.device_kind


def memory_bytes(device: jax.Device) -> int | None:
    """The peak of device memory held, where the device has memory of its own."""
    stats = None if device.platform == "cpu" else device.memory_stats()
    return (stats or {}).get("peak_bytes_in_use")


def private_copy(array: np.ndarray) -> np.ndarray:
    """A copy at an address that XLA takes as it is, so that it is the only one."""
    raw = np.empty(array.nbytes + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    copy = raw[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def compilations() -> int:
    """How many programs XLA has compiled in this process since the first session was opened."""
    return len(_compiled())


@cache
def _compiled() -> list[float]:
    """The seconds that each compilation took, from now on."""
    seconds: list[float] = []

    def listen(event: str, duration_secs: float, **kwargs: str | int) -> None:
        if event == COMPILED:
            seconds.append(duration_secs)

    jax.monitoring.register_event_duration_secs_listener(listen)
    return seconds


def _choose(wanted: str) -> jax.Device:
    """The device of that name, or the best one for "auto"."""
    present: dict[str, jax.Device] = {}
    for device in _devices():
        present.setdefault(label(device), device)
    if wanted == "auto":
        return next(iter(present.values()))
    what, _, number = wanted.partition(":")
    for known, device in present.items():
        if what in (device.platform, kind(device)) and number in ("", known.partition(":")[2]):
            return device
    raise Refused(f"JAX has no device {wanted!r} here; it has {', '.join(present)}")


def _devices() -> list[jax.Device]:
    """The devices of this process, the best one first."""
    best = jax.local_devices()
    return best if best[0].platform == "cpu" else [*best, *jax.local_devices(backend="cpu")]


def _pool_threads() -> int:
    """The threads that XLA's pool for CPUs really has; 0 where that cannot be seen."""
    names = (task / "comm" for task in Path("/proc/self/task").glob("*"))
    return sum(processor.text_of(name).strip() == POOL_THREAD for name in names)

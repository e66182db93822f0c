"""Where a trial runs and under which switches: device, threads, precision."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import jax
import numpy as np
from jax import numpy as jnp

from convdyno.engines import processor
from convdyno.engines.contract import Settings, Trial
from convdyno.errors import Refused

HALF = {"bf16": jnp.bfloat16, "fp16": jnp.float16}
POOL_THREAD = "tf_XLAEigen"
"""What Linux shows as the name of each thread that XLA computes with on a CPU."""
COMPILED = "/jax/core/compile/backend_compile_duration"
GPUS = ("cuda", "rocm")
ALIGNMENT = 64
"""Bytes; XLA takes the memory of arrays at such addresses as it is."""
BF16_UNITS = {"avx512_bf16", "amx_bf16", "bf16"}
"""Processor features, as Linux calls them, by which products of bf16 are real arithmetic."""


def open_device(trial: Trial, devices: int = 1) -> tuple[jax.Device, Settings]:
    """Set the process up for a trial: the device, and under which conditions it runs.

    With several devices in the process it is the first; a CPU has a thread for each at least.
    """
    _possible(trial)
    compilations()
    wanted = max(trial.threads or processor.cores(), devices)
    # XLA reads this once, when JAX first asks for a device; imports alone do not.
    os.environ["NPROC"] = str(wanted)
    if trial.device == "cpu":
        # So that the CPU's user does not reserve the memory of a GPU.
        jax.config.update("jax_platforms", "cpu")
    device = _choose(trial.device)
    kind = device.platform
    if trial.precision == "tf32" and kind != "gpu":
        raise Refused(
            f"tf32 is arithmetic of NVIDIA GPUs, and this trial runs on {kind}: "
            "use fp32 or bf16, or a CUDA device"
        )
    if trial.kernels == "tuned" and kind != "cpu":
        raise Refused(
            f"the tuned kernels of the JAX engine are for CPUs, and this trial runs on {kind}: "
            "use --kernels native"
        )
    if trial.kernels == "tuned" and trial.precision == "fp16":
        raise Refused(
            "the tuned kernels of the JAX engine are for fp32 and bf16: "
            "use one of them, or --kernels native"
        )
    threads = _pool_threads() or wanted
    if kind == "cpu" and trial.threads and threads != wanted:
        raise Refused(
            f"JAX already runs with {threads} CPU threads in this process and cannot change to "
            f"{wanted}: start a new process"
        )
    half = HALF.get(trial.precision)
    return device, Settings(
        device=_name(device),
        device_name=processor.name() if kind == "cpu" else device.device_kind,
        layout="nhwc",
        compiled=True,
        threads=threads,
        flags={
            "half": jnp.dtype(half).name if half else None,
            "kernels": trial.kernels,
            "platform_version": device.client.platform_version.splitlines()[0],
            "xla_flags": os.environ.get("XLA_FLAGS", ""),
            "glibc_tunables": os.environ.get("GLIBC_TUNABLES", ""),
        },
        warnings=_warnings(trial, kind, threads),
    )


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


def _possible(trial: Trial) -> None:
    if trial.layout == "nchw":
        raise Refused(
            "the JAX engine writes networks in NHWC, and XLA lays memory out as the device likes: "
            "use --layout auto or nhwc"
        )
    if trial.compile == "off":
        raise Refused(
            "JAX without its compiler runs op by op, which nobody trains with: "
            "use --compile auto or on"
        )


def _choose(wanted: str) -> jax.Device:
    """The device of that name, or the best one for "auto"."""
    present: dict[str, jax.Device] = {}
    for device in _devices():
        present.setdefault(_name(device), device)  # A CPU's devices all have one name.
    if wanted == "auto":
        return next(iter(present.values()))
    kind, _, number = wanted.partition(":")
    for name, device in present.items():
        kinds = (device.platform, name.partition(":")[0])
        if kind in kinds and number in ("", name.partition(":")[2]):
            return device
    raise Refused(f"JAX has no device {wanted!r} here; it has {', '.join(present)}")


def _devices() -> list[jax.Device]:
    """The devices of this process, the best one first."""
    best = jax.local_devices()
    return best if best[0].platform == "cpu" else [*best, *jax.local_devices(backend="cpu")]


def _name(device: jax.Device) -> str:
    if device.platform == "cpu":
        return "cpu"
    version = device.client.platform_version.lower()
    kinds = [k for k in GPUS if k in version] if device.platform == "gpu" else []
    return f"{kinds[0] if kinds else device.platform}:{device.local_hardware_id or 0}"


def _warnings(trial: Trial, kind: str, threads: int) -> tuple[str, ...]:
    warnings = []
    if kind == "cpu" and trial.precision in HALF and trial.kernels == "native":
        warnings.append(
            f"on a CPU JAX converts {trial.precision} convolutions to float32 and back, which may "
            "be slower than fp32: measure fp32 beside it"
        )
    features = processor.features()
    tuned_bf16 = kind == "cpu" and trial.kernels == "tuned" and trial.precision == "bf16"
    if tuned_bf16 and features and not features & BF16_UNITS:
        warnings.append(
            f"bf16 is emulated: this CPU has none of {', '.join(sorted(BF16_UNITS))}; "
            "expect it to be slower than fp32, and measure fp32 beside it"
        )
    if kind == "cpu":
        warnings += processor.crowded(threads)
    return tuple(warnings)


def _pool_threads() -> int:
    """The threads that XLA's pool for CPUs really has; 0 where that cannot be seen."""
    names = (task / "comm" for task in Path("/proc/self/task").glob("*"))
    return sum(processor.text_of(name).strip() == POOL_THREAD for name in names)

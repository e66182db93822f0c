"""Under which switches a trial runs: threads, precision, kernels."""

from __future__ import annotations

import os

import jax
from jax import numpy as jnp

from convdyno.engines import cpu
from convdyno.engines.contract import SessionSettings, Trial
from convdyno.engines.frameworks.jax import device
from convdyno.errors import Refused

HALF = {"bf16": jnp.bfloat16, "fp16": jnp.float16}


def prepare(trial: Trial, devices: int = 1) -> tuple[jax.Device, SessionSettings]:
    """Set the process up for a trial: the device, and under which conditions it runs.

    With several devices in the process it is the first.
    """
    _check(trial)
    on, threads = device.start(trial, devices)
    if trial.kernels == "tuned" and on.platform != "cpu":
        raise Refused(
            f"the tuned kernels of the JAX engine are for CPUs, and this trial runs on "
            f"{on.platform}: use --kernels native"
        )
    half = HALF.get(trial.precision)
    return on, SessionSettings(
        device=device.label(on),
        device_name=device.name(on),
        layout="nhwc",
        compiled=True,
        threads=threads,
        flags={
            "half": jnp.dtype(half).name if half else None,
            "kernels": trial.kernels,
            "platform_version": on.client.platform_version.splitlines()[0],
            "xla_flags": os.environ.get("XLA_FLAGS", ""),
            "glibc_tunables": os.environ.get("GLIBC_TUNABLES", ""),
        },
        warnings=_warnings(trial, threads) if on.platform == "cpu" else (),
    )


def _check(trial: Trial) -> None:
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
    if trial.kernels == "tuned" and trial.precision == "fp16":
        raise Refused(
            "the tuned kernels of the JAX engine are for fp32 and bf16: "
            "use one of them, or --kernels native"
        )


def _warnings(trial: Trial, threads: int) -> tuple[str, ...]:
    """What the user of a CPU should know."""
    warnings = []
    if trial.kernels == "tuned":
        warnings += cpu.emulation(trial.precision)
    elif trial.precision in HALF:
        warnings.append(
            f"on a CPU JAX converts {trial.precision} convolutions to float32 and back, which may "
            "be slower than fp32: measure fp32 beside it"
        )
    return (*warnings, *cpu.crowded(threads))

"""Under which switches a trial runs: threads, precision, layout."""

from __future__ import annotations

import os

import tensorflow as tf

from convdyno.engines import cpu
from convdyno.engines.contract import SessionSettings, Trial
from convdyno.engines.frameworks.tensorflow import device

HALF = {"bf16": tf.bfloat16, "fp16": tf.float16}


def prepare(trial: Trial, on: str) -> SessionSettings:
    """Set the process up for a trial, and say how."""
    threads = device.start(trial, on)
    tf.random.set_seed(trial.seed)
    half = HALF.get(trial.precision)
    flags: dict[str, object] = {"half": half.name if half else None, "xla": trial.compile == "on"}
    if on == "cpu":
        flags["onednn"] = device.onednn()
        flags["onednn_max_isa"] = os.environ.get("ONEDNN_MAX_CPU_ISA", "default")
        flags["inter_op_threads"] = threads
    else:
        flags["tf32"] = trial.precision == "tf32"
    return SessionSettings(
        device=on,
        device_name=device.name(on),
        # Where a GPU prefers nchw, TensorFlow's own optimiser of layouts puts it there.
        layout="nhwc" if trial.layout == "auto" else trial.layout,
        compiled=trial.compile == "on",
        threads=threads,
        flags=flags,
        warnings=_warnings(trial, threads) if on == "cpu" else (),
    )


def where(device: str) -> str:
    """TensorFlow's name for the device, of which it sees no other of its kind."""
    return "/CPU:0" if device == "cpu" else "/GPU:0"


def grouped(on: str, half: tf.DType | None, compiled: bool) -> bool:
    """Whether there are gradients of grouped convolutions; TensorFlow's own CPU kernels have none.

    oneDNN's have, but those are not for fp16, and for bf16 only where the CPU has AVX-512.
    """
    if on != "cpu" or compiled:
        return True
    able = half is None or (half == tf.bfloat16 and cpu.has("avx512f"))
    return able and device.onednn()


def _warnings(trial: Trial, threads: int) -> tuple[str, ...]:
    """What the user of a CPU should know."""
    warnings = cpu.emulation(trial.precision) + cpu.crowded(threads)
    if not device.onednn():
        off = os.environ.get("TF_ENABLE_ONEDNN_OPTS") == "0"
        warnings.append(
            "oneDNN is switched off by TF_ENABLE_ONEDNN_OPTS; unset it, convolutions are slow so"
            if off
            else "TensorFlow does not use oneDNN on this CPU, and convolutions may be slow: "
            "TF_ENABLE_ONEDNN_OPTS=1 switches it on"
        )
    return tuple(warnings)

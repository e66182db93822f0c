"""Where a trial runs and under which switches: device, threads, precision, layout."""

from __future__ import annotations

import os
from typing import Any

import tensorflow as tf

from convdyno.engines import processor
from convdyno.engines.contract import Settings, Trial
from convdyno.errors import Refused

HALF = {"bf16": tf.bfloat16, "fp16": tf.float16}
NATIVE = {
    "bf16": {"avx512_bf16", "amx_bf16", "bf16"},
    "fp16": {"avx512_fp16", "amx_fp16", "asimdhp"},
}
"""Processor features, as Linux calls them, by which half precision is real arithmetic."""


def choose(wanted: str) -> str:
    """The device of that name, or the best one for "auto"."""
    present = [*(f"cuda:{n}" for n in range(len(_gpus()))), "cpu"]
    name = {"auto": present[0], "cuda": "cuda:0"}.get(wanted, wanted)
    if name not in present:
        raise Refused(f"TensorFlow has no device {wanted!r} here; it has {', '.join(present)}")
    return name


def prepare(trial: Trial, device: str) -> Settings:
    """Set the process up for a trial, and say how."""
    on_cpu = device == "cpu"
    if trial.precision == "tf32" and on_cpu:
        raise Refused(
            "tf32 is arithmetic of NVIDIA GPUs, and this trial runs on cpu: "
            "use fp32, bf16 or fp16, or a CUDA device"
        )
    if trial.layout == "nchw" and on_cpu:
        raise Refused(
            "TensorFlow promises nchw on GPUs only, and this trial runs on cpu: use --layout nhwc"
        )
    workers = threads(trial)
    start_runtime(workers, device)
    tf.config.experimental.enable_tensor_float_32_execution(trial.precision == "tf32")
    tf.random.set_seed(trial.seed)
    half = HALF.get(trial.precision)
    flags: dict[str, object] = {"half": half.name if half else None, "xla": trial.compile == "on"}
    if on_cpu:
        flags["onednn"] = onednn()
        flags["onednn_max_isa"] = os.environ.get("ONEDNN_MAX_CPU_ISA", "default")
        flags["inter_op_threads"] = workers
    else:
        flags["tf32"] = trial.precision == "tf32"
    return Settings(
        device=device,
        device_name=processor.name() if on_cpu else _gpu_name(device),
        # Where a GPU prefers nchw, TensorFlow's own optimiser of layouts puts it there.
        layout="nhwc" if trial.layout == "auto" else trial.layout,
        compiled=trial.compile == "on",
        threads=workers,
        flags=flags,
        warnings=_warnings(trial, on_cpu, workers),
    )


def threads(trial: Trial) -> int:
    """How many a trial computes with."""
    return trial.threads or processor.cores()


def start_runtime(threads: int, device: str) -> None:
    """Give TensorFlow its threads and its device, which it takes once in a process."""
    try:
        tf.config.threading.set_intra_op_parallelism_threads(threads)
        tf.config.threading.set_inter_op_parallelism_threads(threads)
        gpus = [] if device == "cpu" else [_gpus()[_number(device)]]
        tf.config.set_visible_devices(gpus, "GPU")
        for gpu in gpus:
            tf.config.experimental.set_memory_growth(gpu, True)
    except RuntimeError:
        raise Refused(
            "TensorFlow already runs in this process with other threads or on another device, "
            "and cannot change: open this trial in a process of its own"
        ) from None


def where(device: str) -> str:
    """TensorFlow's name for the device, of which it sees no other of its kind."""
    return "/CPU:0" if device == "cpu" else "/GPU:0"


def onednn() -> bool:
    """Whether TensorFlow uses oneDNN's kernels."""
    from tensorflow.python.util import _pywrap_util_port

    return bool(_pywrap_util_port.IsMklEnabled())


def grouped(device: str, half: tf.DType | None, compiled: bool) -> bool:
    """Whether there are gradients of grouped convolutions; TensorFlow's own CPU kernels have none.

    oneDNN's have, but those are not for fp16.
    """
    return device != "cpu" or compiled or (onednn() and half != tf.float16)


def emulated(precision: str, device: str) -> bool:
    """Whether a CPU only pretends to have a precision."""
    features = processor.features()
    return (
        device == "cpu"
        and precision in NATIVE
        and bool(features)
        and not features & NATIVE[precision]
    )


def _gpus() -> list[Any]:
    return tf.config.list_physical_devices("GPU")


def _number(device: str) -> int:
    return int(device.removeprefix("cuda:"))


def _gpu_name(device: str) -> str:
    details = tf.config.experimental.get_device_details(_gpus()[_number(device)])
    return str(details.get("device_name", "GPU"))


def _warnings(trial: Trial, on_cpu: bool, threads: int) -> tuple[str, ...]:
    warnings = []
    if emulated(trial.precision, "cpu" if on_cpu else "cuda"):
        native = " nor ".join(
            sorted(n for n in NATIVE[trial.precision] if "512" in n or "amx" in n)
        )
        warnings.append(
            f"{trial.precision} is emulated: this CPU has neither {native}; "
            "expect it to be slower than fp32, and measure fp32 beside it"
        )
    if on_cpu:
        warnings += processor.crowded(threads)
    if on_cpu and not onednn():
        warnings.append(
            "oneDNN is switched off by TF_ENABLE_ONEDNN_OPTS; unset it, convolutions are slow so"
        )
    return tuple(warnings)

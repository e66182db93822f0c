"""The device of TensorFlow that a trial runs on: choice, threads, waiting, memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from convdyno.engines.contract import Trial
from convdyno.engines.devices import check_tf32, pick
from convdyno.errors import Refused
from convdyno.machine import processor


def choose(wanted: str) -> str:
    """The device of that name, or the best one for "auto"."""
    return pick("TensorFlow", wanted, [*_gpus(), "cpu"])


def start(trial: Trial, device: str) -> int:
    """Give the process its device, arithmetic and threads, and say how many of those."""
    check_tf32(trial.precision, device)
    if trial.layout == "nchw" and device == "cpu":
        raise Refused(
            "TensorFlow promises nchw on GPUs only, and this trial runs on cpu: use --layout nhwc"
        )
    threads = trial.threads or processor.physical_cores()
    start_runtime(threads, device)
    tf.config.experimental.enable_tensor_float_32_execution(trial.precision == "tf32")
    return threads


def start_runtime(threads: int, device: str) -> None:
    """Give TensorFlow its threads and its device, which it takes once in a process."""
    try:
        tf.config.threading.set_intra_op_parallelism_threads(threads)
        tf.config.threading.set_inter_op_parallelism_threads(threads)
        gpus = [] if device == "cpu" else [_gpus()[device]]
        tf.config.set_visible_devices(gpus, "GPU")
        for gpu in gpus:
            tf.config.experimental.set_memory_growth(gpu, True)
    except RuntimeError:
        raise Refused(
            "TensorFlow already runs in this process with other threads or on another device, "
            "and cannot change: open this trial in a process of its own"
        ) from None


def name(device: str) -> str:
    """What the device is called."""
    if device == "cpu":
        return processor.name()
    details = tf.config.experimental.get_device_details(_gpus()[device])
    return str(details.get("device_name", "GPU"))


def wait(device: str) -> None:
    """Return when the device has finished everything enqueued."""
    # On a CPU a function returns when it is done.
    if device != "cpu":
        tf.test.experimental.sync_devices()


def memory_bytes(device: str) -> int | None:
    """The peak of GPU memory held."""
    if device == "cpu":
        return None
    return int(tf.config.experimental.get_memory_info("GPU:0")["peak"])


def stream(floats: int) -> tuple[Callable[[], object], float]:
    """Work that only moves memory, and how many bytes."""
    source, total = tf.zeros(floats), tf.Variable(tf.ones(floats))
    # TensorFlow's own copies take fresh memory each time, or copy nothing.
    return lambda: total.assign_add(source), 3.0 * 4 * floats


def onednn() -> bool:
    """Whether TensorFlow uses oneDNN's kernels."""
    from tensorflow.python.util import _pywrap_util_port

    return bool(_pywrap_util_port.IsMklEnabled())


def _gpus() -> dict[str, Any]:
    return {f"cuda:{n}": gpu for n, gpu in enumerate(tf.config.list_physical_devices("GPU"))}

"""Keras on TensorFlow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import tensorflow as tf

from convdyno.engines import processor
from convdyno.engines.contract import Trial, World
from convdyno.engines.keras.backend import Follow, Gradients, Place, Step, pick
from convdyno.engines.keras.tensorflow_ranks import Ranks, check
from convdyno.errors import Refused

NO_MEMORY = ("OOM when allocating", "RESOURCE_EXHAUSTED", "bad_alloc", "exception:Status: 1,")
"""The last one is oneDNN's `dnnl_out_of_memory`."""


class Backend:
    """TensorFlow's graphs, compiled by XLA where Keras or the trial says so."""

    name = "tensorflow"
    labels = "int64"
    nchw_on_cpu = False
    rank = 0

    def __init__(self) -> None:
        self._on_gpu = False
        self._ranks: Ranks | None = None

    @contextmanager
    def op_by_op(self) -> Iterator[None]:
        tf.config.run_functions_eagerly(True)
        try:
            yield
        finally:
            tf.config.run_functions_eagerly(False)

    def versions(self) -> dict[str, str]:
        versions = {"tensorflow": str(tf.__version__)}
        if tf.config.list_physical_devices("GPU"):
            built_with = tf.sysconfig.get_build_info()
            versions["cuda"] = str(built_with["cuda_version"])
            versions["cudnn"] = str(built_with["cudnn_version"])
        return versions

    def join(self, world: World, trial: Trial) -> None:
        self._on_gpu = _choose(trial) != "cpu"
        check(trial, spread=True, on_gpu=self._on_gpu)
        _start_runtime(trial)
        self._ranks, self.rank = Ranks(world, self._on_gpu), world.rank

    def leave(self) -> None:
        """TensorFlow parts from the others when the process ends."""

    def start(self, trial: Trial) -> Place:
        name, threads = _choose(trial), _threads(trial)
        self._trial, self._on_gpu = trial, name != "cpu"
        check(trial, spread=self._ranks is not None, on_gpu=self._on_gpu)
        _start_runtime(trial)
        tf.config.experimental.enable_tensor_float_32_execution(trial.precision == "tf32")
        flags = self._ranks.flags(trial) if self._ranks else {}
        if self._on_gpu:
            details = tf.config.experimental.get_device_details(_gpus()[name])
            return Place(name, str(details.get("device_name", "GPU")), threads, flags)
        from tensorflow.python.util import _pywrap_util_port

        flags["onednn"] = bool(_pywrap_util_port.IsMklEnabled())
        return Place(name, processor.name(), threads, flags)

    def batches(self, *batch: Any) -> Any:
        return tf.data.Dataset.from_tensors(batch).repeat()

    def step(self, model: Any) -> Step | None:
        return self._ranks.step(model, self._trial) if self._ranks else None

    def gradients(self, model: Any) -> Gradients:
        weights = [variable.value for variable in model.trainable_variables]

        def find(images: Any, labels: Any, scale: float) -> list[Any]:
            with tf.GradientTape() as tape:
                loss = model.data_loss(labels, model(images, training=True)) * scale
            return tape.gradient(loss, weights, unconnected_gradients=tf.UnconnectedGradients.ZERO)

        return find

    def average(self, averages: list[Any], variables: list[Any], decay: float) -> Follow:
        def follow() -> None:
            for held, now in zip(averages, variables, strict=True):
                held.value.assign_sub((1 - decay) * (held.value - now.value))

        return tf.function(follow, autograph=False)

    def wait(self, *results: Any) -> None:
        # On a CPU a function returns when it is done.
        if self._on_gpu:
            tf.test.experimental.sync_devices()

    def compilations(self, traces: int) -> int:
        return traces

    def memory_bytes(self) -> int | None:
        if not self._on_gpu:
            return None
        return int(tf.config.experimental.get_memory_info("GPU:0")["peak"])

    def stream(self, floats: int) -> tuple[Callable[[], object], float]:
        source, total = tf.zeros(floats), tf.Variable(tf.ones(floats))
        # TensorFlow's own copies take fresh memory each time, or copy nothing.
        return lambda: total.assign_add(source), 3.0 * 4 * floats

    def out_of_memory(self, error: BaseException) -> bool:
        return isinstance(error, tf.errors.ResourceExhaustedError) or (
            isinstance(error, tf.errors.OpError) and any(text in str(error) for text in NO_MEMORY)
        )


def _choose(trial: Trial) -> str:
    return pick("TensorFlow", trial.device, [*_gpus(), "cpu"])


def _gpus() -> dict[str, Any]:
    return {f"cuda:{n}": gpu for n, gpu in enumerate(tf.config.list_physical_devices("GPU"))}


def _threads(trial: Trial) -> int:
    return trial.threads or processor.cores()


def _start_runtime(trial: Trial) -> None:
    """Give TensorFlow its device and threads, which it takes once in a process."""
    name, threads = _choose(trial), _threads(trial)
    chosen = [] if name == "cpu" else [_gpus()[name]]
    try:
        tf.config.threading.set_intra_op_parallelism_threads(threads)
        tf.config.threading.set_inter_op_parallelism_threads(threads)
        tf.config.set_visible_devices(chosen, "GPU")
        for gpu in chosen:
            tf.config.experimental.set_memory_growth(gpu, True)
    except RuntimeError:
        raise Refused(
            "TensorFlow already runs in this process with other threads or on another device, "
            "and cannot change: open this trial in a process of its own"
        ) from None

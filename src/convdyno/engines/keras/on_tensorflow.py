"""TensorFlow as what Keras runs on."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import tensorflow as tf

from convdyno.engines.contract import Trial, World
from convdyno.engines.frameworks.tensorflow import device, ranks
from convdyno.engines.frameworks.tensorflow.ranks import WorkerStrategy
from convdyno.engines.keras.backend import DeviceFacts, Follow, Gradients, Step, check_whole
from convdyno.engines.keras.tensorflow_data_parallel import step
from convdyno.errors import Refused


class TensorflowBackend:
    """TensorFlow's graphs, compiled by XLA where Keras or the trial says so."""

    name = "tensorflow"
    labels = "int64"
    rank = 0

    def __init__(self) -> None:
        self._device = "cpu"
        self._ranks: WorkerStrategy | None = None

    def op_by_op(self) -> AbstractContextManager[object]:
        return device.op_by_op()

    def versions(self) -> dict[str, str]:
        return device.versions()

    def join(self, world: World, trial: Trial) -> None:
        on = device.choose(trial.device)
        if trial.feed == "fit":
            raise Refused(
                "Keras 3 has no `fit` on several processes of TensorFlow: its loop ends in a "
                "ValueError about PerReplica values; use --feed batch, which has a loop of its own"
            )
        _check(trial, on)
        device.start(trial, on)
        self._ranks, self.rank = WorkerStrategy(world, on_gpu=on != "cpu"), world.rank

    def leave(self) -> None:
        """TensorFlow parts from the others when the process ends."""

    def start(self, trial: Trial) -> DeviceFacts:
        self._trial, self._device = trial, device.choose(trial.device)
        _check(trial, self._device)
        threads = device.start(trial, self._device)
        flags: dict[str, object] = {}
        if self._ranks:
            flags = {"loop": "custom", **self._ranks.flags(trial)}
        if self._device == "cpu":
            flags["onednn"] = device.onednn()
        return DeviceFacts(self._device, device.name(self._device), threads, flags)

    def batches(self, *batch: Any) -> Any:
        return tf.data.Dataset.from_tensors(batch).repeat()

    def step(self, model: Any) -> Step | None:
        return step(model, self._ranks.averaging(self._trial)) if self._ranks else None

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
        device.wait(self._device)

    def compilations(self, traces: int) -> int:
        return traces

    def memory_bytes(self) -> int | None:
        return device.memory_bytes(self._device)

    def stream(self, floats: int) -> tuple[Callable[[], object], float]:
        source, total = tf.zeros(floats), tf.Variable(tf.ones(floats))
        # TensorFlow's own copies take fresh memory each time, or copy nothing.
        return lambda: total.assign_add(source), 3.0 * 4 * floats

    def out_of_memory(self, error: BaseException) -> bool:
        return device.out_of_memory(error)


def _check(trial: Trial, on: str) -> None:
    ranks.check(trial, on_gpu=on != "cpu")
    check_whole(trial)

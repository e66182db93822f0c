"""TensorFlow as what Keras runs on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from convdyno.engines.contract import Trial, World
from convdyno.engines.frameworks.tensorflow import OnTensorflow, device, ranks
from convdyno.engines.keras.backend import Backend, DeviceFacts, Follow, Gradients, Step, no_parts
from convdyno.errors import Refused

ZERO = tf.UnconnectedGradients.ZERO


class TensorflowBackend(OnTensorflow, Backend):
    """TensorFlow's graphs, compiled by XLA where Keras or the trial says so."""

    name = "tensorflow"
    labels = "int64"
    rank = 0

    def __init__(self) -> None:
        self._device = "cpu"
        self._ranks: ranks.WorkerStrategy | None = None

    def versions(self) -> dict[str, str]:
        return {"keras": keras.__version__, **super().versions()}

    def join(self, world: World, trial: Trial) -> None:
        on = device.choose(trial.device)
        if trial.feed == "fit":
            raise Refused(
                "Keras 3 has no `fit` on several processes of TensorFlow: its loop ends in a "
                "ValueError about PerReplica values; use --feed batch, which has a loop of its own"
            )
        _check(trial, on)
        device.start(trial, on)
        self._ranks, self.rank = ranks.WorkerStrategy(world, on_gpu=on != "cpu"), world.rank

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

    def repeated(self, *batch: Any) -> Any:
        return tf.data.Dataset.from_tensors(batch).repeat()

    def step(self, model: Any) -> Step | None:
        return _step(model, self._ranks.averaging(self._trial)) if self._ranks else None

    def gradients(self, model: Any) -> Gradients:
        weights = [variable.value for variable in model.trainable_variables]

        def find(images: Any, labels: Any, scale: float) -> list[Any]:
            with tf.GradientTape() as tape:
                loss = model.data_loss(labels, model(images, training=True)) * scale
            return tape.gradient(loss, weights, unconnected_gradients=ZERO)

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
        return device.stream(floats)


def _step(model: Any, average: Callable[[list[Any]], list[Any]]) -> Step:
    """One update of a model's weights by the mean of all ranks' gradients.

    It is Keras's `train_step` but for that mean. Keras's own loop cannot be used: under
    TensorFlow's strategy for several processes it ends in a ValueError about PerReplica values.
    """
    optimiser, weights = model.optimizer, model.trainable_variables
    optimiser.build(weights)

    def learn(images: Any, labels: Any) -> list[Any]:
        with tf.GradientTape() as tape:
            scores = model(images, training=True)
            loss = optimiser.scale_loss(model.compute_loss(y=labels, y_pred=scores))
        values = [weight.value for weight in weights]
        return tape.gradient(loss, values, unconnected_gradients=ZERO)

    def apply(gradients: list[Any]) -> None:
        optimiser.apply(gradients, weights)

    if model.jit_compile:
        # XLA has no collectives between processes; what is before and after them it compiles.
        learn, apply = (
            tf.function(part, jit_compile=True, autograph=False) for part in (learn, apply)
        )
    return tf.function(
        lambda images, labels: apply(average(learn(images, labels))), autograph=False
    )


def _check(trial: Trial, on: str) -> None:
    ranks.check(trial, on_gpu=on != "cpu")
    no_parts(trial)

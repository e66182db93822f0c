"""JAX as what Keras runs on."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jax
import keras

from convdyno.engines.contract import Trial, World
from convdyno.engines.frameworks.jax import OnJax, device, ranks
from convdyno.engines.keras.backend import Backend, DeviceFacts, Follow, Gradients, Step, no_parts
from convdyno.engines.keras.jax_data_parallel import JaxMesh
from convdyno.errors import Refused


class JaxBackend(OnJax, Backend):
    """JAX with its compiler."""

    name = "jax"
    labels = "int32"
    rank = 0

    def __init__(self) -> None:
        self._device: jax.Device | None = None
        self._ranks: JaxMesh | None = None
        self._joined = False

    def versions(self) -> dict[str, str]:
        return {"keras": keras.__version__, **super().versions()}

    def join(self, world: World, trial: Trial) -> None:
        _check(trial)
        if trial.feed == "fit":
            raise Refused(
                "Keras's own way to `fit` on several devices of JAX normalises over the batch of "
                "all: use --feed batch, which has a step in which each device has its own"
            )
        ranks.join(world)
        self._joined, self.rank = True, world.rank

    def start(self, trial: Trial) -> DeviceFacts:
        _check(trial)
        self._device, threads = device.start(trial)
        jax.config.update("jax_default_device", self._device)
        if self._device.platform != "cpu":
            precision = "tensorfloat32" if trial.precision == "tf32" else "highest"
            jax.config.update("jax_default_matmul_precision", precision)
        flags: dict[str, object] = {"xla_flags": os.environ.get("XLA_FLAGS", "")}
        if self._joined:
            self._ranks = JaxMesh(self._device, trial.compress)
            flags |= self._ranks.flags
        return DeviceFacts(device.label(self._device), device.name(self._device), threads, flags)

    def repeated(self, *batch: Any) -> Iterator[Any]:
        while True:
            yield batch

    def step(self, model: Any) -> Step | None:
        return self._ranks.step(model) if self._ranks else None

    def gradients(self, model: Any) -> Gradients:
        @jax.jit
        @jax.grad
        def gradient(weights: Any, state: Any, images: Any, labels: Any, scale: float) -> Any:
            scores, _ = model.stateless_call(weights, state, images, training=True)
            return model.data_loss(labels, scores) * scale

        def find(images: Any, labels: Any, scale: float) -> list[Any]:
            weights, state = model.trainable_variables, model.non_trainable_variables
            values = [[variable.value for variable in some] for some in (weights, state)]
            found: list[Any] = gradient(*values, images, labels, scale)
            return found

        return find

    def average(self, averages: list[Any], variables: list[Any], decay: float) -> Follow:
        @partial(jax.jit, donate_argnums=0)
        def moved(held: Any, now: Any) -> Any:
            return [decay * a + (1 - decay) * w for a, w in zip(held, now, strict=True)]

        def follow() -> None:
            held, now = ([variable.value for variable in some] for some in (averages, variables))
            for variable, value in zip(averages, moved(held, now), strict=True):
                variable.assign(value)

        return follow

    def wait(self, *results: Any) -> None:
        # All that a program computes is ready at once.
        jax.block_until_ready(results)

    def compilations(self, traces: int) -> int:
        return device.compilations()

    def memory_bytes(self) -> int | None:
        assert self._device
        return device.memory_bytes(self._device)

    def stream(self, floats: int) -> tuple[Callable[[], object], float]:
        held = [jax.numpy.zeros(floats)]
        increment = jax.jit(lambda x: x + 1, donate_argnums=0)

        def run() -> jax.Array:
            held[0] = increment(held[0])
            return held[0]

        return run, 2.0 * 4 * floats


def _check(trial: Trial) -> None:
    if trial.processes == "host":
        raise Refused(
            "Keras on JAX has one process for each device here: leave --processes at device, "
            "or use --engine jax"
        )
    no_parts(trial)
    ranks.check(trial)
    if trial.compile == "off" and trial.devices > 1 and trial.exchange != "independent":
        raise Refused("devices of JAX exchange gradients in compiled steps: use --compile auto")

"""Keras on JAX."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from importlib import metadata
from pathlib import Path
from typing import Any

import jax

from convdyno.engines import processor
from convdyno.engines.contract import Trial, World
from convdyno.engines.keras import jax_ranks
from convdyno.engines.keras.backend import Follow, Gradients, Place, Step, pick
from convdyno.engines.keras.jax_ranks import Ranks
from convdyno.errors import Refused

NO_MEMORY = ("RESOURCE_EXHAUSTED", "Out of memory")
COMPILED = "/jax/core/compile/backend_compile_duration"
POOL_THREAD = "tf_XLAEigen"
"""What Linux shows as the name of each thread that XLA computes with on a CPU."""

FORGET_EVERY = 20
"""Networks run op by op after which compiled ops are forgotten, because each adds hundreds."""


class Backend:
    """JAX with its compiler."""

    name = "jax"
    labels = "int32"
    nchw_on_cpu = True
    rank = 0

    def __init__(self) -> None:
        self._asked = 0
        self._device: jax.Device | None = None
        self._ranks: Ranks | None = None
        self._joined = False

    @contextmanager
    def op_by_op(self) -> Iterator[None]:
        with jax.disable_jit():
            yield
        self._asked += 1
        if self._asked % FORGET_EVERY == 0:
            jax.clear_caches()

    def versions(self) -> dict[str, str]:
        return {name: metadata.version(name) for name in ("jax", "jaxlib")}

    def join(self, world: World, trial: Trial) -> None:
        _check(trial)
        if trial.feed == "fit":
            raise Refused(
                "Keras's own way to `fit` on several devices of JAX normalises over the batch of "
                "all: use --feed batch, which has a step in which each device has its own"
            )
        jax_ranks.join(world)
        self._joined, self.rank = True, world.rank

    def leave(self) -> None:
        jax_ranks.leave()

    def start(self, trial: Trial) -> Place:
        _check(trial)
        wanted = trial.threads or processor.cores()
        # XLA reads this once, when JAX first asks for a device; imports alone do not.
        os.environ["NPROC"] = str(wanted)
        if trial.device == "cpu":
            jax.config.update("jax_platforms", "cpu")
        found = {_name(device): device for device in jax.local_devices()}
        if "cpu" not in found:
            found["cpu"] = jax.local_devices(backend="cpu")[0]
        name = pick("JAX", trial.device, list(found))
        self._device = found[name]
        jax.config.update("jax_default_device", self._device)
        _compiled()
        threads = _pool_threads() or wanted
        if name == "cpu" and trial.threads and threads != trial.threads:
            raise Refused(
                f"JAX already runs with {threads} CPU threads in this process and cannot change to "
                f"{trial.threads}: open this trial in a process of its own"
            )
        if name != "cpu":
            precision = "tensorfloat32" if trial.precision == "tf32" else "highest"
            jax.config.update("jax_default_matmul_precision", precision)
        flags: dict[str, object] = {"xla_flags": os.environ.get("XLA_FLAGS", "")}
        if self._joined:
            self._ranks = Ranks(self._device, trial.compress)
            flags |= self._ranks.flags
        return Place(
            name, processor.name() if name == "cpu" else self._device.device_kind, threads, flags
        )

    def batches(self, *batch: Any) -> Iterator[Any]:
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
        return len(_compiled())

    def memory_bytes(self) -> int | None:
        assert self._device
        stats = None if self._device.platform == "cpu" else self._device.memory_stats()
        return stats["peak_bytes_in_use"] if stats else None

    def stream(self, floats: int) -> tuple[Callable[[], object], float]:
        held = [jax.numpy.zeros(floats)]
        increment = jax.jit(lambda x: x + 1, donate_argnums=0)

        def run() -> jax.Array:
            held[0] = increment(held[0])
            return held[0]

        return run, 2.0 * 4 * floats

    def out_of_memory(self, error: BaseException) -> bool:
        return isinstance(error, jax.errors.JaxRuntimeError) and any(
            text in str(error) for text in NO_MEMORY
        )


def _check(trial: Trial) -> None:
    if trial.processes == "host":
        raise Refused(
            "Keras on JAX has one process for each device here: leave --processes at device, "
            "or use --engine jax"
        )
    if trial.accumulate > 1:
        raise Refused("Keras computes a batch as a whole here: leave --accumulate at 1")
    if trial.bucket_mb is not None:
        raise Refused("XLA decides what JAX exchanges at a time: leave --bucket-mb out")
    if trial.exchange == "horovod" and trial.devices > 1:
        raise Refused("Horovod exchanges torch's gradients: use --exchange default")
    if trial.compile == "off" and trial.devices > 1 and trial.exchange != "independent":
        raise Refused("devices of JAX exchange gradients in compiled steps: use --compile auto")


@cache
def _compiled() -> list[float]:
    """The seconds that each compilation took, from now on."""
    seconds: list[float] = []

    def listen(event: str, duration_secs: float, **_: str | int) -> None:
        if event == COMPILED:
            seconds.append(duration_secs)

    jax.monitoring.register_event_duration_secs_listener(listen)
    return seconds


def _name(device: jax.Device) -> str:
    kinds = {"gpu": "cuda"}
    if device.platform == "cpu":
        return "cpu"
    return f"{kinds.get(device.platform, device.platform)}:{device.local_hardware_id or 0}"


def _pool_threads() -> int:
    """The threads that XLA's pool for CPUs really has; 0 where that cannot be seen."""
    names = [task / "comm" for task in Path("/proc/self/task").glob("*")]
    return sum(name.exists() and name.read_text().strip() == POOL_THREAD for name in names)

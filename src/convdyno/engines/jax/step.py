"""A network on a device, ready to step: the session of JAX."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax import Array, lax
from jax import numpy as jnp
from numpy.typing import NDArray

from convdyno.blueprint.graph import Blueprint, is_state
from convdyno.blueprint.weights import Weights, check_weights
from convdyno.engines import contract
from convdyno.engines.contract import Probe, Session, State, Trial, memories
from convdyno.engines.frameworks.jax import device
from convdyno.engines.jax import compiled, data_parallel, lower, optimiser, probes, settings, tuned
from convdyno.engines.jax.lower import Arrays, Policy
from convdyno.errors import Refused

PRODUCTS = {"fp32": lax.Precision.HIGHEST, "tf32": lax.Precision.HIGH}
"""How float32 numbers are multiplied; left to the device, GPUs would take tf32 for fp32."""
RANDOM = "random/jax/key"


@dataclass(frozen=True, slots=True)
class JaxBatch:
    """A batch on the device."""

    images: Array
    labels: Array


class JaxSession(Session):
    """One set of weights and compiled programs on it; a step is one call of one program.

    In half precision the training step casts the float32 kernels as it goes; the forward pass has
    half copies of them, made when they are stale and not in every step. A head's matrix product is
    half like every other; its scores are float32 from there on.
    """

    def __init__(self, blueprint: Blueprint, trial: Trial, weights: Weights) -> None:
        data_parallel.check(trial)
        self._device, self.settings = settings.prepare(trial, data_parallel.host_devices(trial))
        self._placing = data_parallel.over(trial, self._device)
        self._put = self._placing.share
        self.settings.flags.update(self._placing.facts)
        self.clock = time.perf_counter_ns
        self._trial, self._blueprint = trial, blueprint
        self._answer = blueprint.for_inference()
        self._policy = policy = _policy(trial)

        static = trial.loss_scale if isinstance(trial.loss_scale, float) else None
        self._static_scale = static or 1.0
        step = compiled.train(blueprint, policy, trial, self._static_scale, self._placing.exchange)
        self._step = self._placing.compiled(step)
        self._gradients = jax.jit(
            compiled.gradients(blueprint, policy, trial.optimiser.label_smoothing)
        )
        self._infer = jax.jit(compiled.infer(self._answer, policy))
        self._in_use = jax.jit(compiled.in_use(policy))
        self._normalise = jax.jit(compiled.normalise(policy))

        training = trial.mode == "train"
        remembered = memories(trial.optimiser) if training else ()
        zeros = {name: np.zeros(shape, np.float32) for name, shape in blueprint.trainable.items()}
        scaled = training and trial.precision == "fp16"
        if scaled:
            self.settings.flags["loss_scale"] = static or "dynamic"
        self._state = compiled.State(
            weights={},
            statistics={},
            memory=tuple(self._put(zeros) for _ in remembered),
            updates=self._put(np.int32(0)),
            key=self._put(_key(trial.seed)),
            scale=self._put(optimiser.at_first()) if scaled and not static else None,
            average={} if training and trial.optimiser.ema is not None else None,
        )
        self._ready: list[Arrays] | None = None
        self._loss: Array | None = None
        self._latest: Any = None
        self._placed: Any = None
        self.set_rate(trial.optimiser.rate)
        self.load(weights)

    def place(self, images: NDArray[np.uint8], labels: NDArray[np.int64]) -> JaxBatch:
        self._placed = self._placing.place(images, self._normalise)
        return JaxBatch(self._placed, self._placing.place(labels.astype(np.int32), lambda on: on))

    def train_step(self, batch: JaxBatch) -> None:
        self._for_training()
        self._ready = None
        self._state, self._loss = self._step(self._state, batch.images, batch.labels, self._rate)
        self._latest = self._loss

    def infer_step(self, batch: JaxBatch) -> None:
        self._latest = self._scores(batch)

    def wait(self) -> None:
        """Return when the device has finished everything enqueued; it works in that order."""
        jax.block_until_ready((self._placed, self._latest))

    def loss(self) -> float:
        return math.nan if self._loss is None else self._placing.loss(self._loss)

    def logits(self, batch: JaxBatch) -> NDArray[np.float32]:
        return np.concatenate([np.array(part) for part in self._scores(batch)])

    def gradients(self, batch: JaxBatch) -> Weights:
        state = self._placing.first(self._state)
        own = state.weights, state.statistics, state.key
        parts = [
            jax.device_put(part, self._device)
            for part in zip(*map(self._placing.parts, (batch.images, batch.labels)), strict=True)
        ]

        def found(scale: float) -> Weights:
            given = [self._gradients(*own, *part, scale)[2] for part in parts]
            return {
                name: np.mean([np.array(gradients[name]) for gradients in given], axis=0)
                for name in self._blueprint.trainable
            }

        scale = float(state.scale.value) if state.scale else self._static_scale
        return contract.unscaled(scale, found)

    def weights(self) -> Weights:
        held = self._placing.first(self._state.weights | self._state.statistics)
        return {name: np.array(held[name]) for name in self._blueprint.weights}

    def load(self, weights: Weights) -> None:
        check_weights(self._blueprint, weights)
        wanted = {name: weights[name] for name in self._blueprint.weights}
        arrays = self._named(wanted)
        self._state = self._state._replace(
            weights={name: array for name, array in arrays.items() if not is_state(name)},
            statistics={name: array for name, array in arrays.items() if is_state(name)},
        )
        if self._state.average is not None and not int(self._state.updates):
            self._state = self._state._replace(average=self._named(wanted))
        self._ready = None

    def state(self) -> State:
        self._for_training()
        held = self._placing.first(self._state)
        arrays = {
            f"{kind}/{name}": array
            for kind, memory in zip(memories(self._trial.optimiser), held.memory, strict=True)
            for name, array in memory.items()
        }
        arrays |= {f"average/{name}": array for name, array in (held.average or {}).items()}
        state = {name: np.array(array) for name, array in arrays.items()}
        state["updates"] = np.array(held.updates, np.int64)
        state[RANDOM] = np.array(held.key)
        if held.scale:
            state["scale/value"] = np.array(held.scale.value)
            state["scale/good_steps"] = np.array(held.scale.good, np.int64)
        return state

    def restore(self, state: State) -> None:
        self._for_training()
        spec, held = self._trial.optimiser, self._state
        contract.check_state(self._blueprint, spec, state)

        def kind(word: str, shapes: Iterable[str]) -> Arrays:
            return self._named({n: state[f"{word}/{n}"].astype(np.float32) for n in shapes})

        updates, key = int(state["updates"]), state.get(RANDOM)
        if key is None or (key.shape, key.dtype) != (held.key.shape, held.key.dtype):
            key = _key(contract.seed_after(self._trial.seed, updates))
        scale = held.scale
        if scale and "scale/value" in state:
            value, good = np.float32(state["scale/value"]), np.int32(state["scale/good_steps"])
            scale = self._put(optimiser.LossScale(value, good))
        self._state = held._replace(
            memory=tuple(kind(word, self._blueprint.trainable) for word in memories(spec)),
            updates=self._put(np.int32(updates)),
            key=self._put(key),
            scale=scale,
            average=None if spec.ema is None else kind("average", self._blueprint.weights),
        )

    def set_rate(self, rate: float) -> None:
        self._rate = self._put(np.float32(rate))

    def compilations(self) -> int:
        return device.compilations()

    def memory_bytes(self) -> int | None:
        return device.memory_bytes(self._device)

    def probes(self) -> Sequence[Probe]:
        """A matrix product, a convolution and a copy at the trial's precision."""

        def enqueued(result: Array) -> Array:
            self._latest = result
            return result

        return probes.probes(self._device, self._policy, enqueued)

    def _for_training(self) -> None:
        if self._trial.mode != "train":
            raise Refused("this session was opened for inference: open one with --mode train")

    def _scores(self, batch: JaxBatch) -> list[Array]:
        """The class scores of the first head, of each part of a batch."""
        if self._ready is None:
            held = self._state.weights | self._state.statistics
            needed = self._placing.copies({name: held[name] for name in self._answer.weights})
            half = self._policy.dtype != jnp.float32
            self._ready = [self._in_use(copy) if half else copy for copy in needed]
        parts = self._placing.parts(batch.images)
        return [self._infer(copy, part) for copy, part in zip(self._ready, parts, strict=False)]

    def _named(self, arrays: Weights) -> Arrays:
        """Host arrays on the devices; of statistics each device has its own."""
        own = {name: array for name, array in arrays.items() if is_state(name)}
        same = {name: array for name, array in arrays.items() if not is_state(name)}
        return self._put(same) | self._placing.keep(own)


def _key(seed: int) -> NDArray[np.uint32]:
    return np.asarray(jax.random.key_data(jax.random.key(seed)))


def _policy(trial: Trial) -> Policy:
    dtype = settings.HALF.get(trial.precision, jnp.float32)
    tune = trial.kernels == "tuned"
    return Policy(
        dtype=dtype,
        between=jnp.float32 if tune else dtype,
        precision=PRODUCTS.get(trial.precision, lax.Precision.DEFAULT),
        conv=tuned.conv if tune else lower.native_conv,
        norm=tuned.norm if tune else lower.native_norm,
        max_pool=tuned.max_pool if tune else lower.native_max_pool,
    )

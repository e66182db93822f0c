"""A network in Keras, run as Keras's users run it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
from keras import ops
from numpy.typing import NDArray

from convdyno.blueprint.graph import Blueprint
from convdyno.blueprint.weights import Weights, check_weights
from convdyno.engines import contract, cpu
from convdyno.engines.contract import Probe, Session, SessionSettings, State, Trial
from convdyno.engines.keras import probes
from convdyno.engines.keras.lower import KerasWalk
from convdyno.engines.keras.model import KerasNetwork
from convdyno.engines.keras.update import KerasUpdate
from convdyno.errors import Refused

if TYPE_CHECKING:
    from convdyno.engines.keras.backend import Backend, DeviceFacts

HALF = {"bf16": "bfloat16", "fp16": "float16"}
JIT = {"auto": "auto", "on": True, "off": False}


@dataclass(frozen=True, slots=True)
class KerasBatch:
    """A batch on the device."""

    images: Any
    labels: Any


class KerasSession(Session):
    """A compiled model; `feed` says whether a step is a `train_on_batch` or part of a `fit`.

    `train_on_batch` returns the loss, and so waits for the device in every step: that is what one
    call a batch costs in Keras.
    """

    def __init__(
        self, backend: Backend, blueprint: Blueprint, trial: Trial, weights: Weights
    ) -> None:
        self._backend, self._trial, self._blueprint = backend, trial, blueprint
        self.clock = time.perf_counter_ns
        place = backend.start(trial)
        if trial.feed == "fit" and trial.optimiser.ema is not None:
            raise Refused(
                "within one call of `fit` no average of the weights is kept: use --feed batch, "
                "or leave the average out"
            )
        self._nchw = trial.layout == "nchw"
        half = HALF.get(trial.precision)
        keras.config.set_dtype_policy(f"mixed_{half}" if half else "float32")
        keras.config.set_image_data_format("channels_first" if self._nchw else "channels_last")

        walk = KerasWalk(blueprint, trial.optimiser, self._nchw, trial.seed + backend.rank)
        image, scores = walk.model_ends()
        self._variables, self._seeds = walk.variables, walk.seeds
        outputs = scores if len(scores) > 1 else scores[0]
        smoothing = trial.optimiser.label_smoothing
        self._model = KerasNetwork(image, outputs, blueprint.heads, smoothing)
        trainable = self._model.trainable_variables
        self._update = KerasUpdate(trial, blueprint, walk.variables, trainable)
        self._model.compile(
            self._update.optimiser, jit_compile=JIT[trial.compile], auto_scale_loss=False
        )
        self._answer = self._model
        if len(scores) > 1:
            self._answer = KerasNetwork(image, scores[0], blueprint.heads[:1])
            self._answer.jit_compile = self._model.jit_compile
        self._step = backend.step(self._model) or self._model.train_on_batch
        self._gradients = backend.gradients(self._model)
        self._averages: dict[str, Any] = {}
        if trial.optimiser.ema is not None:
            self._averages = {n: _variable(v.shape) for n, v in self._variables.items()}
            followed = [self._variables[name] for name in self._averages]
            averages = list(self._averages.values())
            self._follow = backend.average(averages, followed, trial.optimiser.ema)
        self._last = trainable[-1]
        self._enqueued: Any = None
        self._trained = False
        self.settings = self._settings(place)
        self.load(weights)

    def place(self, images: NDArray[np.uint8], labels: NDArray[np.int64]) -> KerasBatch:
        # A copy, because a backend may read the host's memory later than this call returns.
        pixels = ops.cast(ops.convert_to_tensor(images.copy()), "float32") / 127.5 - 1
        pixels = ops.transpose(pixels, (0, 3, 1, 2)) if self._nchw else pixels
        self._enqueued = pixels
        return KerasBatch(pixels, ops.convert_to_tensor(labels.astype(self._backend.labels)))

    def train_step(self, batch: KerasBatch) -> None:
        self._trained = True
        updates = self._update.updates() if self._averages else 0
        if self._trial.feed == "fit":
            self._fit(self._backend.repeated(batch.images, batch.labels), 1)
        else:
            self._update.follow_rate()
            self._step(batch.images, batch.labels)
        if self._averages and self._update.updates() > updates:
            self._follow()

    def infer_step(self, batch: KerasBatch) -> None:
        if self._trial.feed == "fit":
            self._predict(self._backend.repeated(batch.images), 1)
        else:
            self._answer.predict_on_batch(batch.images)

    def fit(self, batch: KerasBatch, steps: int) -> None:
        """So many steps of the trial's mode in one call of `fit` or `predict`."""
        if self._trial.mode == "train":
            self._fit(self._backend.repeated(batch.images, batch.labels), steps)
        else:
            self._predict(self._backend.repeated(batch.images), steps)

    def fit_from(self, batches: Iterator[KerasBatch], steps: int) -> None:
        """The same from a generator, which is how Keras's users feed what memory does not hold."""
        if self._trial.mode == "train":
            self._fit(((batch.images, batch.labels) for batch in batches), steps)
        else:
            self._predict(((batch.images,) for batch in batches), steps)

    def wait(self) -> None:
        self._backend.wait(self._last.value, self._enqueued)

    def loss(self) -> float:
        return float(_array(self._model.latest.result())) if self._trained else math.nan

    def logits(self, batch: KerasBatch) -> NDArray[np.float32]:
        return np.asarray(self._answer.predict_on_batch(batch.images), np.float32)

    def gradients(self, batch: KerasBatch) -> Weights:
        names = {id(variable): name for name, variable in self._variables.items()}
        shapes = self._blueprint.trainable

        def found(scale: float) -> Weights:
            with self._undisturbed():
                given = self._gradients(batch.images, batch.labels, scale)
            arrays = {
                names[id(variable)]: _array(gradient) / np.float32(scale)
                for variable, gradient in zip(self._model.trainable_variables, given, strict=True)
            }
            return {name: arrays[name].reshape(shape) for name, shape in shapes.items()}

        return contract.unscaled(self._update.scale(), found)

    def weights(self) -> Weights:
        return {
            name: _array(self._variables[name].value).reshape(shape).copy()
            for name, shape in self._blueprint.weights.items()
        }

    def load(self, weights: Weights) -> None:
        check_weights(self._blueprint, weights)
        _assign(self._variables, weights)
        if self._averages and not self._update.updates():
            _assign(self._averages, weights)

    def state(self) -> State:
        shapes = self._blueprint.weights
        state = self._update.state()
        for name, average in self._averages.items():
            state[f"average/{name}"] = _array(average.value).reshape(shapes[name]).copy()
        for name, stands in self._seeds.items():
            state[self._random(name)] = _moved(_array(stands.value), -self._backend.rank)
        return state

    def restore(self, state: State) -> None:
        contract.check_state(self._blueprint, self._trial.optimiser, state)
        self._update.restore(state)
        _assign(self._averages, state, "average/")
        seed = contract.seed_after(self._trial.seed, int(state["updates"]))
        for name, stands in self._seeds.items():
            now, found = _array(stands.value), state.get(self._random(name))
            if found is None or (found.shape, found.dtype) != (now.shape, now.dtype):
                found = np.array([seed, 0], now.dtype)
            stands.assign(_moved(found, self._backend.rank))

    def set_rate(self, rate: float) -> None:
        self._update.set_rate(rate)

    def compilations(self) -> int:
        """How many programs have been traced or compiled so far; 0 where steps are eager."""
        models = {id(model): model for model in (self._model, self._answer)}
        return self._backend.compilations(sum(model.traces for model in models.values()))

    def memory_bytes(self) -> int | None:
        return self._backend.memory_bytes()

    def probes(self) -> Sequence[Probe]:
        """A matrix product, a convolution and work that moves memory, at the trial's precision."""
        on_cpu = self.settings.device == "cpu"
        slow = on_cpu and cpu.emulated(self._trial.precision)
        dtype = HALF.get(self._trial.precision, "float32")
        found = probes.probes(self._backend, not on_cpu, dtype, self._nchw, slow)
        return [replace(probe, run=partial(self._enqueue, probe.run)) for probe in found]

    def _enqueue(self, work: Callable[[], object]) -> object:
        self._enqueued = work()
        return self._enqueued

    def _random(self, node: str) -> str:
        return f"random/keras/{self._backend.name}/{node}"

    def _fit(self, data: Any, steps: int) -> None:
        self._trained = True
        self._update.follow_rate()
        self._model.fit(data, steps_per_epoch=steps, shuffle=False, verbose=0)

    def _predict(self, data: Any, steps: int) -> None:
        self._answer.predict(data, steps=steps, verbose=0)

    def _settings(self, place: DeviceFacts) -> SessionSettings:
        trial, policy = self._trial, self._model.dtype_policy
        flags: dict[str, object] = {
            "backend": self._backend.name,
            "jit_compile": bool(self._model.jit_compile),
            "dtype_policy": policy.name,
            "feed": trial.feed,
            **place.flags,
        }
        if trial.precision == "fp16" and trial.mode == "train":
            flags["loss_scale"] = trial.loss_scale or "dynamic"
        return SessionSettings(
            device=place.device,
            device_name=place.device_name,
            layout="nchw" if self._nchw else "nhwc",
            compiled=bool(self._model.jit_compile),
            threads=place.threads,
            flags=flags,
            warnings=cpu.warnings(place.device, trial.precision, place.threads),
        )

    @contextmanager
    def _undisturbed(self) -> Iterator[None]:
        """Put running statistics and random numbers back as they were."""
        states = self._model.non_trainable_variables
        before, traces = [_array(state.value).copy() for state in states], self._model.traces
        try:
            yield
        finally:
            for state, was in zip(states, before, strict=True):
                state.assign(was)
            self._model.traces = traces


def _array(tensor: Any) -> Any:
    return ops.convert_to_numpy(tensor)


def _assign(variables: dict[str, Any], arrays: Weights, prefix: str = "") -> None:
    """Give variables new values: copies, because JAX may take the host's memory as it is."""
    for name, variable in variables.items():
        variable.assign(arrays[prefix + name].reshape(variable.shape).copy())


def _moved(seed: NDArray[Any], ranks: int) -> NDArray[Any]:
    """Where random numbers stand so many ranks further; a state tells where rank 0's do."""
    return seed + np.array([ranks, 0]).astype(seed.dtype)


def _variable(shape: tuple[int, ...]) -> Any:
    return keras.Variable(np.zeros(shape, np.float32), trainable=False, dtype="float32")

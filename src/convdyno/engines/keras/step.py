"""A network in Keras, run as Keras's users run it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import keras
import numpy as np
from keras import ops
from numpy.typing import NDArray

from convdyno.blueprint.graph import Blueprint
from convdyno.blueprint.weights import Weights, check_weights
from convdyno.engines import cpu
from convdyno.engines.contract import (
    Probe,
    SessionSettings,
    State,
    Trial,
    check_state,
    seed_after,
)
from convdyno.engines.keras import probes
from convdyno.engines.keras.backend import HALF, Backend, DeviceFacts
from convdyno.engines.keras.lower import KerasWalk
from convdyno.engines.keras.model import KerasNetwork
from convdyno.engines.keras.update import KerasUpdate
from convdyno.errors import Refused

JIT = {"auto": "auto", "on": True, "off": False}


@dataclass(frozen=True, slots=True)
class KerasBatch:
    """A batch on the device."""

    images: Any
    labels: Any


class KerasSession:
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
        """Bring a host batch to the device; normalise to [-1, 1] and lay out there."""
        # A copy, because a backend may read the host's memory later than this call returns.
        pixels = ops.cast(ops.convert_to_tensor(images.copy()), "float32") / 127.5 - 1
        pixels = ops.transpose(pixels, (0, 3, 1, 2)) if self._nchw else pixels
        self._enqueued = pixels
        return KerasBatch(pixels, ops.convert_to_tensor(labels.astype(self._backend.labels)))

    def train_step(self, batch: KerasBatch) -> None:
        """One update of the weights."""
        self._trained = True
        updates = self._update.updates() if self._averages else 0
        if self._trial.feed == "fit":
            self._fit(batch, 1)
        else:
            self._update.follow_rate()
            self._step(batch.images, batch.labels)
        if self._averages and self._update.updates() > updates:
            self._follow()

    def infer_step(self, batch: KerasBatch) -> None:
        """One forward pass as in use."""
        if self._trial.feed == "fit":
            self._predict(batch, 1)
        else:
            self._answer.predict_on_batch(batch.images)

    def fit(self, batch: KerasBatch, steps: int) -> None:
        """So many steps of the trial's mode in one call of `fit` or `predict`."""
        if self._trial.mode == "train":
            self._trained = True
            self._fit(batch, steps)
        else:
            self._predict(batch, steps)

    def fit_from(self, batches: Iterator[KerasBatch], steps: int) -> None:
        """The same from a generator, which is how Keras's users feed what memory does not hold."""
        if self._trial.mode == "train":
            self._trained = True
            self._update.follow_rate()
            data = ((batch.images, batch.labels) for batch in batches)
            self._model.fit(data, steps_per_epoch=steps, shuffle=False, verbose=0)
        else:
            self._answer.predict(((batch.images,) for batch in batches), steps=steps, verbose=0)

    def wait(self) -> None:
        """Return when the device has finished everything enqueued."""
        self._backend.wait(self._last.value, self._enqueued)

    def loss(self) -> float:
        """The loss of the latest training step, before its update; NaN before the first."""
        return float(_array(self._model.latest.result())) if self._trained else math.nan

    def logits(self, batch: KerasBatch) -> NDArray[np.float32]:
        """The class scores of the first head as in use, one row an image."""
        return np.asarray(self._answer.predict_on_batch(batch.images), np.float32)

    def gradients(self, batch: KerasBatch) -> Weights:
        """The training loss's gradient (without L2) by each trainable weight; changes nothing."""
        names = {id(variable): name for name, variable in self._variables.items()}
        scale = self._update.scale()
        while True:
            with self._undisturbed():
                found = self._gradients(batch.images, batch.labels, scale)
            arrays = {
                names[id(variable)]: _array(gradient) / np.float32(scale)
                for variable, gradient in zip(self._model.trainable_variables, found, strict=True)
            }
            # As in training with a dynamic loss scale, until nothing overflows.
            if scale <= 1 or all(np.isfinite(array).all() for array in arrays.values()):
                shapes = self._blueprint.trainable
                return {name: arrays[name].reshape(shape) for name, shape in shapes.items()}
            scale /= 2

    def weights(self) -> Weights:
        """All weights in canonical names and layouts, float32."""
        return {
            name: _array(self._variables[name].value).reshape(shape).copy()
            for name, shape in self._blueprint.weights.items()
        }

    def load(self, weights: Weights) -> None:
        """Replace all weights."""
        check_weights(self._blueprint, weights)
        for name, variable in self._variables.items():
            # A copy, because JAX may take the host's memory as it is.
            variable.assign(weights[name].reshape(variable.shape).copy())
        if self._averages and not self._update.updates():
            for name, average in self._averages.items():
                average.assign(weights[name].reshape(average.shape).copy())

    def state(self) -> State:
        """Everything else that training remembers."""
        shapes = self._blueprint.weights
        state = self._update.state()
        for name, average in self._averages.items():
            state[f"average/{name}"] = _array(average.value).reshape(shapes[name]).copy()
        for name, stands in self._seeds.items():
            state[self._random(name)] = _moved(_array(stands.value), -self._backend.rank)
        return state

    def restore(self, state: State) -> None:
        """Go on from a state, once its weights are loaded."""
        check_state(self._blueprint, self._trial.optimiser, state)
        self._update.restore(state)
        for name, average in self._averages.items():
            average.assign(state[f"average/{name}"].reshape(average.shape).copy())
        seed = seed_after(self._trial.seed, int(state["updates"]))
        for name, stands in self._seeds.items():
            now, found = _array(stands.value), state.get(self._random(name))
            if found is None or (found.shape, found.dtype) != (now.shape, now.dtype):
                found = np.array([seed, 0], now.dtype)
            stands.assign(_moved(found, self._backend.rank))

    def set_rate(self, rate: float) -> None:
        """The learning rate from the next step on."""
        self._update.set_rate(rate)

    def compilations(self) -> int:
        """How many programs have been traced or compiled so far; 0 where steps are eager."""
        models = {id(model): model for model in (self._model, self._answer)}
        return self._backend.compilations(sum(model.traces for model in models.values()))

    def memory_bytes(self) -> int | None:
        """The peak of GPU memory held."""
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

    def _fit(self, batch: KerasBatch, steps: int) -> None:
        self._update.follow_rate()
        data = self._backend.batches(batch.images, batch.labels)
        self._model.fit(data, steps_per_epoch=steps, shuffle=False, verbose=0)

    def _predict(self, batch: KerasBatch, steps: int) -> None:
        data = self._backend.batches(batch.images)
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
            warnings=_warnings(trial, place),
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


def _moved(seed: NDArray[Any], ranks: int) -> NDArray[Any]:
    """Where random numbers stand so many ranks further; a state tells where rank 0's do."""
    return seed + np.array([ranks, 0]).astype(seed.dtype)


def _variable(shape: tuple[int, ...]) -> Any:
    return keras.Variable(np.zeros(shape, np.float32), trainable=False, dtype="float32")


def _warnings(trial: Trial, place: DeviceFacts) -> tuple[str, ...]:
    if place.device != "cpu":
        return ()
    return (*cpu.emulation(trial.precision), *cpu.crowded(place.threads))

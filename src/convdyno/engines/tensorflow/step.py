"""A network on a device of TensorFlow's, and its steps."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from convdyno.blueprint.graph import Blueprint, is_state
from convdyno.blueprint.weights import Weights, check_weights
from convdyno.engines import contract, cpu
from convdyno.engines.contract import Probe, Session, State, Trial, check_state, seed_after
from convdyno.engines.frameworks.tensorflow import device, ranks
from convdyno.engines.tensorflow import probes, settings
from convdyno.engines.tensorflow.lower import Tensor, TensorflowWalk
from convdyno.engines.tensorflow.update import Gradients, LossScaler, TensorflowUpdate
from convdyno.errors import Refused

RANDOM = "random/tensorflow/philox"


@dataclass(frozen=True, slots=True)
class TensorflowBatch:
    """A batch on the device."""

    images: Tensor
    labels: Tensor


class TensorflowSession(Session):
    """One set of variables and three functions on it: one trains, one is in use, one only looks.

    In half precision the variables are cast where the training function reads them, as in Keras's
    mixed policies; the function in use has half copies of its own, made when they are stale and
    not in every step. A head's matrix product is half like every other; its scores are float32.
    """

    def __init__(
        self,
        blueprint: Blueprint,
        trial: Trial,
        weights: Weights,
        among: ranks.WorkerStrategy | None = None,
    ) -> None:
        name = device.choose(trial.device)
        check(trial, name)
        self.settings = settings.prepare(trial, name)
        self.clock = time.perf_counter_ns
        self._device = settings.where(name)
        self._trial, self._blueprint, self._answer = trial, blueprint, blueprint.for_inference()
        self._half = settings.HALF.get(trial.precision)
        self._nchw = self.settings.layout == "nchw"
        native_groups = settings.grouped(name, self._half, self.settings.compiled)
        with tf.device(self._device):
            self._random = tf.random.Generator.from_seed(trial.seed, alg="philox")
            self._variables = {
                name: tf.Variable(tf.zeros(shape), trainable=not is_state(name))
                for name, shape in blueprint.weights.items()
            }
            self._copies = {
                name: tf.Variable(tf.zeros(shape, self._half), trainable=False)
                for name, shape in self._answer.weights.items()
                if self._half and name.endswith(("/kernel", "/bias"))
            }
            self._trainable = {n: v for n, v in self._variables.items() if not is_state(n)}
            self._update = TensorflowUpdate(trial.optimiser, self._variables)
            self._scale = LossScaler(trial)
        self._walk = partial(
            TensorflowWalk,
            nchw=self._nchw,
            half=self._half,
            native_groups=native_groups,
            smoothing=trial.optimiser.label_smoothing,
            random=self._random,
        )
        self._stale = True
        self._traces = 0
        compile_ = partial(tf.function, jit_compile=self.settings.compiled, autograph=False)
        self._train, self._infer = compile_(self._traced_train), compile_(self._traced_infer)
        self._look = compile_(self._traced_look)
        self._learn, self._apply = self._traced_learn, self._traced_apply
        self._rank, self._average = 0, lambda gradients: gradients
        if among and trial.mode == "train":
            self._take_part(among, compile_)
        if trial.precision == "fp16" and trial.mode == "train":
            self.settings.flags["loss_scale"] = trial.loss_scale or "dynamic"
        self._loss: Tensor = math.nan
        self.load(weights)

    def place(self, images: NDArray[np.uint8], labels: NDArray[np.int64]) -> TensorflowBatch:
        with tf.device(self._device):
            pixels = tf.cast(tf.constant(images), tf.float32) / 127.5 - 1
            pixels = tf.transpose(pixels, (0, 3, 1, 2)) if self._nchw else pixels
            return TensorflowBatch(tf.cast(pixels, self._half or tf.float32), tf.constant(labels))

    def train_step(self, batch: TensorflowBatch) -> None:
        self._stale = True
        self._loss = self._train(batch.images, batch.labels)

    def infer_step(self, batch: TensorflowBatch) -> None:
        self._scores(batch)

    def wait(self) -> None:
        device.wait(self.settings.device)

    def loss(self) -> float:
        return float(self._loss)

    def logits(self, batch: TensorflowBatch) -> NDArray[np.float32]:
        return self._scores(batch).numpy()

    def gradients(self, batch: TensorflowBatch) -> Weights:
        def found(scale: float) -> Weights:
            with tf.device(self._device):
                given = tf.constant(scale)
            stood = self._random.state.numpy()
            slopes = self._look(batch.images, batch.labels, given)
            self._random.state.assign(stood)
            return {name: slope.numpy() / np.float32(scale) for name, slope in slopes.items()}

        return contract.unscaled(self._scale.value(), found)

    def weights(self) -> Weights:
        return {name: variable.numpy().copy() for name, variable in self._variables.items()}

    def load(self, weights: Weights) -> None:
        check_weights(self._blueprint, weights)
        for name, variable in self._variables.items():
            variable.assign(weights[name])
        self._update.loaded()
        self._stale = True

    def state(self) -> State:
        state = self._update.state() | self._scale.state()
        return state | {RANDOM: _moved(self._random.state.numpy(), -self._rank)}

    def restore(self, state: State) -> None:
        check_state(self._blueprint, self._trial.optimiser, state)
        self._update.restore(state)
        self._scale.restore(state)
        stood, now = state.get(RANDOM), self._random.state.numpy()
        if stood is None or (stood.shape, stood.dtype) != (now.shape, now.dtype):
            self._random.reset_from_seed(seed_after(self._trial.seed, int(state["updates"])))
            stood = self._random.state.numpy()
        self._random.state.assign(_moved(stood, self._rank))

    def set_rate(self, rate: float) -> None:
        self._update.rate.assign(rate)

    def compilations(self) -> int:
        """How many times a function has been traced, and compiled by XLA if that is on."""
        return self._traces

    def memory_bytes(self) -> int | None:
        return device.memory_bytes(self.settings.device)

    def probes(self) -> Sequence[Probe]:
        slow = self.settings.device == "cpu" and cpu.emulated(self._trial.precision)
        return probes.probes(self._device, self._half or tf.float32, self._nchw, slow)

    def _take_part(self, among: ranks.WorkerStrategy, compile_: Any) -> None:
        """Average gradients over all ranks between the backward pass and the update."""
        self._rank, self._average = among.rank, among.averaging(self._trial)
        self._random.state.assign(_moved(self._random.state.numpy(), self._rank))
        self.settings.flags.update(among.flags(self._trial))
        if self.settings.compiled:
            # XLA has no collectives between processes; what is before and after them it compiles.
            self._learn, self._apply = compile_(self._traced_learn), compile_(self._traced_apply)
            self._train = tf.function(self._traced_train, autograph=False)

    def _scores(self, batch: TensorflowBatch) -> Tensor:
        if self._stale:
            for name, copy in self._copies.items():
                copy.assign(tf.cast(self._variables[name], copy.dtype))
            self._stale = False
        return self._infer(batch.images)

    def _traced_train(self, images: Tensor, labels: Tensor) -> Tensor:
        self._traces += 1
        with tf.device(self._device):
            loss, gradients = self._learn(images, labels)
            self._apply(self._average(gradients))
            return loss

    def _traced_learn(self, images: Tensor, labels: Tensor) -> tuple[Tensor, Gradients]:
        walk = self._walk(self._blueprint, self._variables, images, training=True)
        loss, gradients = self._differentiate(walk, labels, self._scale.up)
        for name, statistic in walk.statistics.items():
            self._variables[name].assign(statistic)
        return loss, gradients

    def _traced_apply(self, gradients: Gradients) -> None:
        self._scale.update(self._update.apply, self._scale.down(gradients))

    def _traced_infer(self, images: Tensor) -> Tensor:
        self._traces += 1
        with tf.device(self._device):
            variables = self._variables | self._copies
            return self._walk(self._answer, variables, images, training=False).scores()[0]

    def _traced_look(self, images: Tensor, labels: Tensor, scale: Tensor) -> Gradients:
        with tf.device(self._device):
            walk = self._walk(self._blueprint, self._variables, images, training=True)
            return self._differentiate(walk, labels, lambda loss: loss * scale)[1]

    def _differentiate(
        self, walk: TensorflowWalk, labels: Tensor, scaled: Any
    ) -> tuple[Tensor, Gradients]:
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(list(self._trainable.values()))
            loss = walk.loss(labels)
            target = scaled(loss)
        found = tape.gradient(
            target, self._trainable, unconnected_gradients=tf.UnconnectedGradients.ZERO
        )
        return loss, found


def check(trial: Trial, on: str) -> None:
    """Refuse what is not for TensorFlow."""
    ranks.check(trial, on_gpu=on != "cpu")
    if trial.accumulate > 1:
        raise Refused("TensorFlow computes a batch as a whole here: leave --accumulate at 1")


def _moved(random: NDArray[np.int64], ranks: int) -> NDArray[np.int64]:
    """Random numbers of so many ranks further; a state tells where rank 0's stand."""
    return random + np.array([0, 0, ranks])  # A counter of two numbers, and the key.

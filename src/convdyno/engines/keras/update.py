"""Keras's optimisers as the rules have them, and what they remember."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from convdyno.blueprint.graph import Blueprint
from convdyno.engines.contract import Optimiser, State, Trial, memories

BETA1, BETA2 = 0.9, 0.999
SMALLEST_RATE = 1e-20
"""Stands for 0: Keras keeps velocities times the rate, and could not go back from there."""
MEMORIES = {"velocity": "momentums", "first": "_momentums", "second": "_velocities"}
"""What Keras calls what an update rule remembers."""
RATE, OWN = "own/keras/rate", "own/keras/velocity/"
"""In a state: the rate that Keras's velocities contain, and those velocities."""


class KerasUpdate:
    """Keras's optimiser, following the rules."""

    def __init__(
        self,
        trial: Trial,
        blueprint: Blueprint,
        variables: Mapping[str, Any],
        trainable: Sequence[Any],
    ) -> None:
        self._spec = spec = trial.optimiser
        self._shapes, self._variables, self._trainable = blueprint.trainable, variables, trainable
        self._rule = _adam(spec) if spec.kind == "adam" else _sgd(spec)
        self._wanted = self._held = spec.rate
        self.optimiser = self._rule
        if trial.precision == "fp16" and isinstance(trial.loss_scale, float):
            self._rule.loss_scale_factor = trial.loss_scale
        elif trial.precision == "fp16":
            self.optimiser = keras.optimizers.LossScaleOptimizer(self._rule)

    def set_rate(self, rate: float) -> None:
        """The learning rate from the next step on."""
        self._wanted = max(rate, SMALLEST_RATE)

    def follow_rate(self) -> None:
        """Bring what Keras keeps to the learning rate that is wanted."""
        if self._wanted != self._held:
            # Keras's velocity is ours times the rate; there is none before the first step.
            for velocity in getattr(self._rule, "momentums", ()):
                velocity.assign(velocity * (self._wanted / self._held))
            self._rule.learning_rate = self._held = self._wanted

    def scale(self) -> float:
        """What the loss is multiplied by at present."""
        if self.optimiser is self._rule:
            return self._rule.loss_scale_factor or 1.0
        if not self.optimiser.built:
            return float(self.optimiser.initial_scale)
        return float(self.optimiser.dynamic_scale.numpy())

    def updates(self) -> int:
        """How many there have been."""
        return int(self._rule.iterations.numpy())

    def state(self) -> State:
        """Everything that is remembered, by canonical name."""
        state: State = {"updates": np.array(self.updates(), np.int64)}
        for kind, held in self._memory().items():
            for name, variable in held.items():
                array = _array(variable).reshape(self._shapes[name])
                if kind == "velocity":
                    state[f"{OWN}{name}"] = array
                    array = _without_rate(array, self._held)
                state[f"{kind}/{name}"] = array
        if "velocity" in self._memory():
            state[RATE] = np.array(self._held)
        if self.optimiser is not self._rule:
            good_steps = self.optimiser.step_counter.numpy()
            state["scale/value"] = np.array(self.scale(), np.float32)
            state["scale/good_steps"] = np.array(good_steps, np.int64)
        return state

    def restore(self, state: State) -> None:
        """Go on from a state."""
        for kind, held in self._memory().items():
            for name, variable in held.items():
                array = state[f"{kind}/{name}"]
                if kind == "velocity":
                    array = (array * -self._held).astype(np.float32)
                variable.assign(array.reshape(variable.shape).copy())
        self._take_own_velocities(state)
        self._rule.iterations.assign(int(state["updates"]))
        if self.optimiser is not self._rule and "scale/value" in state:
            self.optimiser.dynamic_scale.assign(float(state["scale/value"]))
            self.optimiser.step_counter.assign(int(state["scale/good_steps"]))

    def _take_own_velocities(self, state: State) -> None:
        """Keras's own, to the last bit, if they are those that the state tells."""
        names = {name: f"{OWN}{name}" for name in self._memory().get("velocity", ())}
        if not names or not state.keys() >= {RATE, *names.values()}:
            return
        rate = float(state[RATE])
        found = {name: state[own] for name, own in names.items()}
        for name, array in found.items():
            if not np.array_equal(_without_rate(array, rate), state[f"velocity/{name}"]):
                return
        for name, variable in self._memory()["velocity"].items():
            variable.assign(found[name].reshape(variable.shape).copy())
        self._rule.learning_rate = self._held = rate

    def _memory(self) -> dict[str, dict[str, Any]]:
        """The variables of what the rule remembers, by kind and canonical name."""
        if not self.optimiser.built:
            self.optimiser.build(self._trainable)
        places = {id(variable): n for n, variable in enumerate(self._trainable)}
        return {
            kind: {
                name: getattr(self._rule, MEMORIES[kind])[places[id(self._variables[name])]]
                for name in self._shapes
            }
            for kind in memories(self._spec)
        }


def _without_rate(array: np.ndarray, rate: float) -> np.ndarray:
    return (array / -rate).astype(np.float32)


def _array(variable: Any) -> np.ndarray:
    return ops.convert_to_numpy(variable.value).copy()


def _sgd(spec: Optimiser) -> keras.Optimizer:
    kind = _shaping(keras.optimizers.SGD, spec)
    return kind(spec.rate, spec.momentum, nesterov=spec.nesterov)


def _adam(spec: Optimiser) -> keras.Optimizer:
    base: Any = _shaping(keras.optimizers.Adam, spec)

    class Adam(base):  # type: ignore[misc]
        """Keras's, with epsilon added to the corrected root of the second moment."""

        @property
        def epsilon(self) -> Any:
            step = ops.cast(self.iterations + 1, "float32")
            return spec.epsilon * ops.sqrt(1 - ops.power(ops.cast(self.beta_2, "float32"), step))

        @epsilon.setter
        def epsilon(self, value: float) -> None:
            pass

    return Adam(spec.rate, BETA1, BETA2)


def _shaping(kind: Any, spec: Optimiser) -> Any:
    """A class of optimisers that clips gradients together and scales them one by one."""
    # On torch Keras has a class of its own for each optimiser.
    base: Any = type(kind())
    if spec.clip_norm is None and spec.larc_eta is None:
        return base

    class Shaping(base):  # type: ignore[misc]
        """Keras's, with gradients as the rule gets them."""

        def _backend_update_step(self, gradients: Any, variables: Any, rate: Any) -> None:
            # L2 is in the gradients: it is part of the loss here.
            if spec.clip_norm is not None:
                total = ops.sqrt(sum(ops.sum(ops.square(g)) for g in gradients))
                share = ops.minimum(spec.clip_norm / total, 1.0)
                gradients = [g * share for g in gradients]
            if spec.larc_eta is not None:
                pairs = zip(gradients, variables, strict=True)
                gradients = [_larc(spec, w, g, rate) for g, w in pairs]
            super()._backend_update_step(gradients, variables, rate)

    return Shaping


def _larc(spec: Optimiser, weight: Any, gradient: Any, rate: Any) -> Any:
    of_weight, of_gradient = (ops.sqrt(ops.sum(ops.square(x))) for x in (weight, gradient))
    both = ops.logical_and(of_weight > 0, of_gradient > 0)
    ratio = ops.where(both, spec.larc_eta * of_weight / of_gradient, 1.0)
    if spec.larc_mode == "clip":
        ratio = ops.minimum(ratio / ops.convert_to_tensor(rate), 1.0)
    return gradient * ratio

"""The update rules, by TensorFlow's fused kernels, and the loss scale that fp16 needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from convdyno.blueprint.graph import is_state
from convdyno.engines.contract import Optimiser, State, Trial, decays, memories

BETA1, BETA2 = float(np.float32(0.9)), float(np.float32(0.999))
"""As the kernel sees them, so that the corrections of the moments are those of its averages."""
INITIAL_SCALE, GROWTH_STEPS = 2.0**16, 2000

Gradients = Mapping[str, Any]


class TensorflowUpdate:
    """The optimiser's state and rule; `apply` is traced into the step."""

    def __init__(self, spec: Optimiser, variables: Mapping[str, tf.Variable]) -> None:
        self._spec, self._variables = spec, variables
        self._weights = {name: v for name, v in variables.items() if not is_state(name)}
        self.rate = tf.Variable(spec.rate, dtype=tf.float32)
        self._updates = tf.Variable(0, dtype=tf.int64)
        self._moments = {
            name: {kind: tf.Variable(tf.zeros_like(weight)) for kind in memories(spec)}
            for name, weight in self._weights.items()
        }
        self._averages = {
            name: tf.Variable(tf.zeros_like(variable), trainable=False)
            for name, variable in variables.items()
            if spec.ema is not None
        }

    def apply(self, gradients: Gradients) -> None:
        """One step of all weights."""
        step, rate = self._updates.assign_add(1), self.rate.read_value()
        rule = self._adam(step) if self._spec.kind == "adam" else self._sgd(rate)
        gradients = self._prepared(gradients, rate)
        for name, weight in self._weights.items():
            rule(weight, gradients[name], *self._moments[name].values())
        share = 1 - (self._spec.ema or 0)
        for name, average in self._averages.items():
            average.assign_sub(share * (average - self._variables[name]))

    def loaded(self) -> None:
        """Other weights have been loaded: before the first update they are the average too."""
        if not int(self._updates):
            for name, average in self._averages.items():
                average.assign(self._variables[name])

    def state(self) -> State:
        """Everything that is remembered, by canonical name."""
        return {name: variable.numpy().copy() for name, variable in self._remembered().items()}

    def restore(self, state: State) -> None:
        """Go on from a state."""
        for name, variable in self._remembered().items():
            variable.assign(state[name])

    def _remembered(self) -> dict[str, tf.Variable]:
        held = {
            f"{kind}/{name}": moment
            for name, moments in self._moments.items()
            for kind, moment in moments.items()
        }
        held |= {f"average/{name}": average for name, average in self._averages.items()}
        return held | {"updates": self._updates}

    def _prepared(self, gradients: Gradients, rate: Any) -> Gradients:
        """The gradients that a rule gets: with L2, clipped together, and scaled one by one."""
        spec, found = self._spec, dict(gradients)
        for name, weight in self._weights.items():
            if spec.weight_decay and decays(spec, name):
                found[name] += spec.weight_decay * weight
        if spec.clip_norm is not None:
            share = tf.minimum(spec.clip_norm / tf.linalg.global_norm(list(found.values())), 1)
            found = {name: gradient * share for name, gradient in found.items()}
        if spec.larc_eta is not None:
            found = {name: self._larc(self._weights[name], g, rate) for name, g in found.items()}
        return found

    def _larc(self, weight: tf.Variable, gradient: Any, rate: Any) -> Any:
        of_weight, of_gradient = tf.norm(weight), tf.norm(gradient)
        both = (of_weight > 0) & (of_gradient > 0)
        ratio = tf.where(both, self._spec.larc_eta * of_weight / of_gradient, 1.0)
        if self._spec.larc_mode == "clip":
            ratio = tf.minimum(ratio / rate, 1)
        return gradient * ratio

    def _sgd(self, rate: Any) -> Callable[..., None]:
        def rule(weight: tf.Variable, gradient: Any, *velocity: tf.Variable) -> None:
            if not velocity:
                tf.raw_ops.ResourceApplyGradientDescent(
                    var=weight.handle, alpha=rate, delta=gradient
                )
                return
            tf.raw_ops.ResourceApplyMomentum(
                var=weight.handle,
                accum=velocity[0].handle,
                lr=rate,
                grad=gradient,
                momentum=self._spec.momentum,
                use_nesterov=self._spec.nesterov,
            )

        return rule

    def _adam(self, step: Any) -> Callable[..., None]:
        step = tf.cast(step, tf.float64)
        mean, square = (1 - tf.constant(beta, tf.float64) ** step for beta in (BETA1, BETA2))
        # The kernel adds epsilon before its correction, the rule after it; and float32 powers
        # close to 1 would lose digits. So both corrections are made here, and none is left to it.
        rate = tf.cast(tf.cast(self.rate, tf.float64) * tf.sqrt(square) / mean, tf.float32)
        epsilon = tf.cast(self._spec.epsilon * tf.sqrt(square), tf.float32)

        def rule(weight: tf.Variable, gradient: Any, m: tf.Variable, v: tf.Variable) -> None:
            tf.raw_ops.ResourceApplyAdam(
                var=weight.handle,
                m=m.handle,
                v=v.handle,
                beta1_power=0.0,
                beta2_power=0.0,
                lr=rate,
                beta1=BETA1,
                beta2=BETA2,
                epsilon=epsilon,
                grad=gradient,
            )

        return rule


class LossScaler:
    """What the loss is multiplied by, so that small gradients survive in fp16.

    A dynamic scale starts high, halves and skips the update when a gradient is not finite, and
    doubles after many good steps.
    """

    def __init__(self, trial: Trial) -> None:
        self._needed = trial.precision == "fp16"
        self._dynamic = self._needed and not isinstance(trial.loss_scale, float)
        start = INITIAL_SCALE if self._dynamic else trial.loss_scale or 1.0
        self._scale = tf.Variable(start, dtype=tf.float32)
        self._good_steps = tf.Variable(0, dtype=tf.int64)

    def up(self, loss: Any) -> Any:
        """The scaled loss."""
        return loss * self._scale if self._needed else loss

    def down(self, gradients: Gradients) -> Gradients:
        """The gradients of the loss itself."""
        if not self._needed:
            return gradients
        share = 1 / self._scale
        return {name: gradient * share for name, gradient in gradients.items()}

    def update(self, apply: Callable[[Gradients], None], gradients: Gradients) -> None:
        """Apply gradients, if they are finite."""
        if not self._dynamic:
            apply(gradients)
            return
        finite = tf.reduce_all([tf.reduce_all(tf.math.is_finite(g)) for g in gradients.values()])
        scale, good_steps = tf.cond(
            finite,
            lambda: self._going(apply, gradients),
            lambda: (self._scale * 0.5, tf.zeros_like(self._good_steps)),
        )
        self._scale.assign(scale)
        self._good_steps.assign(good_steps)

    def value(self) -> float:
        """The scale at present."""
        return float(self._scale)

    def state(self) -> State:
        """The scale and its good steps, if it is dynamic."""
        if not self._dynamic:
            return {}
        good_steps = self._good_steps.numpy() % GROWTH_STEPS
        return {
            "scale/value": np.array(self.value(), np.float32),
            "scale/good_steps": np.array(good_steps, np.int64),
        }

    def restore(self, state: State) -> None:
        """Go on from a state, if it has a scale."""
        if self._dynamic and "scale/value" in state:
            self._scale.assign(state["scale/value"])
            self._good_steps.assign(state["scale/good_steps"])

    def _going(self, apply: Callable[[Gradients], None], gradients: Gradients) -> Any:
        apply(gradients)
        good = self._good_steps + 1
        grows = tf.equal(good % GROWTH_STEPS, 0)
        return tf.where(grows, self._scale * 2, self._scale), good

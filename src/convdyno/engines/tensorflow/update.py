"""The update rules, by TensorFlow's fused kernels, and the loss scale that fp16 needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from convdyno.engines.contract import Optimiser, Trial

BETA1, BETA2 = float(np.float32(0.9)), float(np.float32(0.999))
"""As the kernel sees them, so that the corrections of the moments are those of its averages."""
EPS = 1e-8
INITIAL_SCALE, GROWTH_STEPS = 2.0**16, 2000

Gradients = Mapping[str, Any]


class Update:
    """The optimiser's state and rule; `apply` is traced into the step."""

    def __init__(self, spec: Optimiser, weights: Mapping[str, tf.Variable]) -> None:
        self._spec, self._weights = spec, weights
        self.rate = tf.Variable(spec.rate, dtype=tf.float32)
        self._steps = tf.Variable(0, dtype=tf.int64)
        moments = 2 if spec.kind == "adam" else 1 if spec.momentum else 0
        self._moments = {
            name: [tf.Variable(tf.zeros_like(weight)) for _ in range(moments)]
            for name, weight in weights.items()
        }

    def apply(self, gradients: Gradients) -> None:
        """One step of all weights."""
        rule = self._adam() if self._spec.kind == "adam" else self._sgd()
        for name, weight in self._weights.items():
            gradient = gradients[name]
            if self._spec.weight_decay and self._decays(name):
                gradient += self._spec.weight_decay * weight
            rule(weight, gradient, *self._moments[name])

    def _decays(self, name: str) -> bool:
        return self._spec.decay_on == "all" or name.endswith("/kernel")

    def _sgd(self) -> Callable[..., None]:
        rate = self.rate.read_value()

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

    def _adam(self) -> Callable[..., None]:
        step = tf.cast(self._steps.assign_add(1), tf.float64)
        mean, square = (1 - tf.constant(beta, tf.float64) ** step for beta in (BETA1, BETA2))
        # The kernel adds epsilon before its correction, the rule after it; and float32 powers
        # close to 1 would lose digits. So both corrections are made here, and none is left to it.
        rate = tf.cast(tf.cast(self.rate, tf.float64) * tf.sqrt(square) / mean, tf.float32)
        epsilon = tf.cast(EPS * tf.sqrt(square), tf.float32)

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


class LossScale:
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

    def _going(self, apply: Callable[[Gradients], None], gradients: Gradients) -> Any:
        apply(gradients)
        good = self._good_steps + 1
        grows = tf.equal(good % GROWTH_STEPS, 0)
        return tf.where(grows, self._scale * 2, self._scale), good

"""A model that tells the loss of its latest batch, and its optimiser as the rules have it."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from convdyno.blueprint.graph import Head
from convdyno.engines.contract import Optimiser, Trial

BETA1, BETA2, EPS = 0.9, 0.999, 1e-8
SMALLEST_RATE = 1e-20
"""Stands for 0: Keras keeps velocities times the rate, and could not go back from there."""


class Latest(keras.metrics.Metric):  # type: ignore[misc]
    """The last value, not an average."""

    def __init__(self) -> None:
        super().__init__(name="latest")
        self._value = self.add_variable((), "zeros", name="value")

    def update_state(self, value: Any) -> None:
        self._value.assign(value)

    def result(self) -> Any:
        return ops.convert_to_tensor(self._value)


class Network(keras.Model):  # type: ignore[misc]
    """A functional model with the loss of all heads, known with and without the L2 terms."""

    def __init__(self, inputs: Any, outputs: Any, heads: tuple[Head, ...]) -> None:
        super().__init__(inputs, outputs)
        self._weights_of_heads = [head.weight for head in heads]
        self._cross_entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        self.latest = Latest()
        self.traces = 0
        """How many times the model was called; only once for each program that is compiled."""

    def call(self, inputs: Any, training: bool | None = None, mask: Any = None) -> Any:
        """All heads."""
        self.traces += 1
        return super().call(inputs, training=training, mask=mask)

    def data_loss(self, labels: Any, outputs: Any) -> Any:
        """The mean cross-entropy, summed over the heads by their weights."""
        scores = outputs if isinstance(outputs, list | tuple) else [outputs]
        losses = [
            self._cross_entropy(labels, x) * weight
            if weight != 1
            else self._cross_entropy(labels, x)
            for x, weight in zip(scores, self._weights_of_heads, strict=True)
        ]
        return losses[0] if len(losses) == 1 else ops.sum(losses)

    def compute_loss(
        self,
        x: Any = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: Any = None,
        training: bool = True,
    ) -> Any:
        """What is trained on: the data's loss and the L2 terms."""
        loss = self.data_loss(y, y_pred)
        self.latest.update_state(loss)
        terms = self.losses
        return ops.sum([loss, *terms]) if terms else loss


class Update:
    """Keras's optimiser, following the rules."""

    def __init__(self, trial: Trial) -> None:
        spec = trial.optimiser
        self._rule = _adam(spec) if spec.kind == "adam" else _sgd(spec)
        self._rate = spec.rate
        self.optimiser = self._rule
        if trial.precision == "fp16" and isinstance(trial.loss_scale, float):
            self._rule.loss_scale_factor = trial.loss_scale
        elif trial.precision == "fp16":
            self.optimiser = keras.optimizers.LossScaleOptimizer(self._rule)

    def set_rate(self, rate: float) -> None:
        """The learning rate from the next step on."""
        rate = max(rate, SMALLEST_RATE)
        if rate != self._rate:
            # Keras's velocity is ours times the rate; there is none before the first step.
            for velocity in getattr(self._rule, "momentums", ()):
                velocity.assign(velocity * (rate / self._rate))
            self._rule.learning_rate = self._rate = rate

    def scale(self) -> float:
        """What the loss is multiplied by at present."""
        if self.optimiser is self._rule:
            return self._rule.loss_scale_factor or 1.0
        built = self.optimiser.built
        return float(
            self.optimiser.dynamic_scale.numpy() if built else self.optimiser.initial_scale
        )


def _sgd(spec: Optimiser) -> keras.Optimizer:
    return keras.optimizers.SGD(spec.rate, spec.momentum, nesterov=spec.nesterov)


def _adam(spec: Optimiser) -> keras.Optimizer:
    # On torch Keras has a class of its own for each optimiser.
    base: Any = type(keras.optimizers.Adam())

    class Adam(base):  # type: ignore[misc]
        """Keras's, with epsilon added to the corrected root of the second moment."""

        @property
        def epsilon(self) -> Any:
            step = ops.cast(self.iterations + 1, "float32")
            return EPS * ops.sqrt(1 - ops.power(ops.cast(self.beta_2, "float32"), step))

        @epsilon.setter
        def epsilon(self, value: float) -> None:
            pass

    return Adam(spec.rate, BETA1, BETA2)

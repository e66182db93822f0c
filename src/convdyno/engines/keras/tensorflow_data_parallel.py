"""The step of Keras on several devices of TensorFlow, one a process.

Keras's own loop cannot be used: under TensorFlow's strategy for several processes it ends in a
ValueError about PerReplica values. The step here is that of Keras's `train_step`, with the mean of
the gradients before the update.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from convdyno.engines.keras.backend import Step

Gradients = list[Any]


def step(model: Any, average: Callable[[Gradients], Gradients]) -> Step:
    """One update of a model's weights by the mean of all ranks' gradients."""
    optimiser, weights = model.optimizer, model.trainable_variables
    optimiser.build(weights)

    def learn(images: Any, labels: Any) -> Gradients:
        with tf.GradientTape() as tape:
            scores = model(images, training=True)
            loss = optimiser.scale_loss(model.compute_loss(y=labels, y_pred=scores))
        values, zero = [weight.value for weight in weights], tf.UnconnectedGradients.ZERO
        found: Gradients = tape.gradient(loss, values, unconnected_gradients=zero)
        return found

    def apply(gradients: Gradients) -> None:
        optimiser.apply(gradients, weights)

    if model.jit_compile:
        # XLA has no collectives between processes; what is before and after them it compiles.
        learn, apply = (
            tf.function(part, jit_compile=True, autograph=False) for part in (learn, apply)
        )
    together: Step = tf.function(
        lambda images, labels: apply(average(learn(images, labels))), autograph=False
    )
    return together

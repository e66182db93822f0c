"""A model that tells the loss of its latest batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from convdyno.blueprint.graph import Head


class Latest(keras.metrics.Metric):  # type: ignore[misc]
    """The last value, not an average."""

    def __init__(self) -> None:
        super().__init__(name="latest")
        self._value = self.add_variable((), "zeros", name="value")

    def update_state(self, value: Any) -> None:
        self._value.assign(value)

    def result(self) -> Any:
        return ops.convert_to_tensor(self._value)


class KerasNetwork(keras.Model):  # type: ignore[misc]
    """A functional model with the loss of all heads, known with and without the L2 terms."""

    def __init__(
        self, inputs: Any, outputs: Any, heads: tuple[Head, ...], smoothing: float = 0.0
    ) -> None:
        super().__init__(inputs, outputs)
        self._weights_of_heads = [head.weight for head in heads]
        self._cross_entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        if smoothing:
            self._cross_entropy = _smoothed(smoothing)
        self.latest = Latest()
        self.traces = 0
        """How many times the model was called; only once for each program that is compiled."""

    def call(self, inputs: Any, training: bool | None = None, mask: Any = None) -> Any:
        """The scores of all heads."""
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


def _smoothed(share: float) -> Callable[[Any, Any], Any]:
    """The cross-entropy with targets of which all classes get a share alike."""
    of_targets = keras.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=share)
    return lambda labels, scores: of_targets(ops.one_hot(labels, scores.shape[-1]), scores)

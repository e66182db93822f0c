"""ResNet-50 v1.5 by hand on tf.nn, in one tf.function: the peer of our TensorFlow engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf


class ResNet50:
    """ResNet-50 v1.5; variables are made the first time it is called."""

    def __init__(self, half: Any) -> None:
        self.weights: list[Any] = []
        self.statistics: list[Any] = []
        self._half, self._made = half, False

    def __call__(self, x: Any) -> Any:
        self._weight, self._statistic = iter(list(self.weights)), iter(list(self.statistics))
        x = tf.nn.relu(self._norm(self._conv(x, 64, 7, 2)))
        x = tf.nn.max_pool2d(x, 3, 2, "SAME")
        for stage, (width, depth) in enumerate(zip((64, 128, 256, 512), (3, 4, 6, 3), strict=True)):
            for unit in range(depth):
                stride = 2 if stage and not unit else 1
                y = tf.nn.relu(self._norm(self._conv(x, width, 1)))
                y = tf.nn.relu(self._norm(self._conv(y, width, 3, stride)))
                y = self._norm(self._conv(y, 4 * width, 1))
                if not unit:
                    x = self._norm(self._conv(x, 4 * width, 1, stride))
                x = tf.nn.relu(x + y)
        kernel = self._variable((2048, 1000), 0.02)
        bias = self._variable((1000,), 0.0)
        scores = tf.matmul(tf.reduce_mean(x, (1, 2)), tf.cast(kernel, self._half))
        self._made = True
        return tf.cast(scores + tf.cast(bias, self._half), tf.float32)

    def _variable(self, shape: tuple[int, ...], spread: float, value: float = 0.0) -> Any:
        if self._made:
            return next(self._weight)
        self.weights.append(tf.Variable(value + tf.random.normal(shape, stddev=spread)))
        return self.weights[-1]

    def _conv(self, x: Any, out: int, size: int, stride: int = 1) -> Any:
        kernel = self._variable((size, size, x.shape[3], out), (2 / (size * size * out)) ** 0.5)
        return tf.nn.conv2d(x, tf.cast(kernel, self._half), stride, "SAME")

    def _norm(self, x: Any) -> Any:
        channels = (x.shape[3],)
        scale, offset = self._variable(channels, 0.0, 1.0), self._variable(channels, 0.0)
        y, mean, variance = tf.compat.v1.nn.fused_batch_norm(
            x, scale, offset, epsilon=1e-5, is_training=True
        )
        for seen, first in ((mean, 0.0), (variance, 1.0)):
            if not self._made:
                self.statistics.append(tf.Variable(tf.fill(channels, first), trainable=False))
            else:
                running = next(self._statistic)
                running.assign_sub((running - seen) * 0.1)
        return y


def bare_step(pixels: Any, labels: Any, precision: str) -> Callable[[], None]:
    """One training step, ready to call."""
    half = {"fp32": tf.float32, "bf16": tf.bfloat16}[precision]
    images, truth = tf.cast(tf.constant(pixels), half), tf.constant(labels)
    net = ResNet50(half)
    net(images)
    velocities = [tf.Variable(tf.zeros(weight.shape)) for weight in net.weights]

    @tf.function(autograph=False)
    def train(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(y, net(x))
            loss = tf.reduce_mean(losses)
        gradients = tape.gradient(loss, net.weights)
        for weight, gradient, velocity in zip(net.weights, gradients, velocities, strict=True):
            tf.raw_ops.ResourceApplyMomentum(
                var=weight.handle, accum=velocity.handle, lr=1e-3, grad=gradient + 1e-4 * weight,
                momentum=0.9, use_nesterov=True,
            )  # fmt: skip
        return loss

    return lambda: train(images, truth)

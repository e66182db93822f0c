"""How fast the device can be: a matrix product, a convolution and a copy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from convdyno.engines.contract import Probe
from convdyno.engines.frameworks.tensorflow import device


def probes(on: str, dtype: tf.DType, nchw: bool, slow: bool) -> Sequence[Probe]:
    """Work of some tens of milliseconds on an ordinary device; `slow` is for emulated precision."""
    big = on != "/CPU:0"
    side = 8192 if big else 256 if slow else 2048
    batch, channels = (128, 256) if big else (1, 64) if slow else (8, 256)

    def filled(*shape: int) -> Any:
        return tf.cast(tf.random.uniform(shape, -0.5, 0.5), dtype)

    with tf.device(on):
        a, b = filled(side, side), filled(side, side)
        image = (batch, channels, 28, 28) if nchw else (batch, 28, 28, channels)
        images, kernel = filled(*image), filled(3, 3, channels, channels)
        add, moved = device.stream((1 << 28) if big else (1 << 26))
    conv_macs = batch * 28 * 28 * channels * channels * 9

    def multiply() -> Any:
        with tf.device(on):
            return tf.matmul(a, b)

    def convolve() -> Any:
        with tf.device(on):
            return tf.nn.conv2d(images, kernel, 1, "SAME", "NCHW" if nchw else "NHWC")

    return (
        Probe("matmul", 2.0 * side**3, tf.function(multiply)),
        Probe("conv", 2.0 * conv_macs, tf.function(convolve)),
        Probe("copy", moved, add),
    )

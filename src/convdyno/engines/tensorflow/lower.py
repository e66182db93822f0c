"""A blueprint as TensorFlow ops: walked once while a step is traced, then only run."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

from convdyno.blueprint import padding as windows
from convdyno.blueprint.ops import (
    LRN,
    Act,
    Add,
    ChannelGate,
    ChannelNorm,
    ChannelScale,
    Concat,
    Conv,
    Dense,
    Dropout,
    Flatten,
    Input,
    Mean,
    Norm,
    Op,
    Pool,
    Scale,
    Shuffle,
    Slice,
    Widen,
)
from convdyno.engines.contract import Walk

Tensor = Any
Variables = Mapping[str, Any]
"""Variables by canonical name; TensorFlow's own layouts are the canonical ones."""


@dataclass
class TensorflowWalk(Walk):
    """A blueprint on its way into a graph."""

    variables: Variables
    images: Tensor
    training: bool
    nchw: bool = False
    half: tf.DType | None = None
    native_groups: bool = True
    """Whether the device has grouped convolutions with their gradients."""
    smoothing: float = 0.0
    random: tf.random.Generator | None = None
    """What dropout draws from."""
    statistics: dict[str, Tensor] = field(default_factory=dict)
    """In training form: what the running statistics become, by canonical name."""

    def scores(self) -> list[Tensor]:
        """Of each head, in float32."""
        values = self.values(LOWER)
        return [tf.cast(values[head.node], tf.float32) for head in self.blueprint.heads]

    def loss(self, labels: Tensor) -> Tensor:
        """The mean cross-entropy, summed over the heads by their weights."""
        losses = [
            head.weight * tf.reduce_mean(self._cross_entropy(labels, scores))
            for head, scores in zip(self.blueprint.heads, self.scores(), strict=True)
        ]
        return functools.reduce(operator.add, losses)

    def _cross_entropy(self, labels: Tensor, scores: Tensor) -> Tensor:
        if not self.smoothing:
            return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, scores)
        classes, share = scores.shape[1], self.smoothing / scores.shape[1]
        targets = tf.one_hot(labels, classes, 1 - self.smoothing + share, share)
        return tf.nn.softmax_cross_entropy_with_logits(targets, scores)

    @property
    def format(self) -> str:
        return "NCHW" if self.nchw else "NHWC"

    def variable(self, kind: str) -> Any:
        """A weight of the present node."""
        return self.variables[f"{self.node.name}/{kind}"]

    def weight(self, kind: str) -> Tensor:
        """A weight of the present node at the precision of the arithmetic."""
        return tf.cast(self.variable(kind), self.half or tf.float32)

    def biased(self, op: Conv | Dense, x: Tensor) -> Tensor:
        data_format = self.format if isinstance(op, Conv) else None
        return tf.nn.bias_add(x, self.weight("bias"), data_format) if op.bias else x

    def window(
        self, op: Conv | Pool, x: Tensor, value: float = 0.0, *, exact: bool = False
    ) -> tuple[Tensor, str]:
        """The image, padded if TensorFlow has no word for that, and its word for the rest.

        Explicit padding is not an option: it leaves oneDNN in the backward pass. With `exact`
        "SAME" is not either, because an average there does not count the padding.
        """
        top, bottom, left, right = reached = windows.reached(op, self.shape)
        if reached == (0, 0, 0, 0):
            return x, "VALID"
        if windows.is_same(op, self.shape) and not exact:
            return x, "SAME"
        sides = [(top, bottom), (left, right)]
        pads = [(0, 0), (0, 0), *sides] if self.nchw else [(0, 0), *sides, (0, 0)]
        return tf.pad(x, pads, constant_values=value), "VALID"

    def channels(self, x: Tensor) -> int:
        """The axis of the channels."""
        return 1 if self.nchw or len(x.shape) == 2 else 3

    def floating(self, function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        """What must not be summed in half precision."""
        return tf.cast(function(tf.cast(x, tf.float32)), x.dtype)


def _conv(walk: TensorflowWalk, op: Conv, x: Tensor) -> Tensor:
    x, padding = walk.window(op, x)
    kernel = walk.weight("kernel")
    convolve = functools.partial(
        tf.nn.conv2d, strides=op.stride, padding=padding, data_format=walk.format
    )
    if op.groups == walk.shape[2] > 1 and op.stride[0] == op.stride[1]:
        strides = [1, 1, *op.stride] if walk.nchw else [1, *op.stride, 1]
        kernel = tf.reshape(kernel, (*op.kernel, walk.shape[2], -1))
        y = tf.nn.depthwise_conv2d(x, kernel, strides, padding, data_format=walk.format)
    elif op.groups > 1 and not walk.native_groups:
        axis = walk.channels(x)
        parts = zip(tf.split(x, op.groups, axis), tf.split(kernel, op.groups, 3), strict=True)
        y = tf.concat([convolve(*part) for part in parts], axis)
    else:
        y = convolve(x, kernel)
    return walk.biased(op, y)


def _norm(walk: TensorflowWalk, op: Norm, x: Tensor) -> Tensor:
    if len(x.shape) == 2:
        image = (-1, walk.shape[0], 1, 1) if walk.nchw else (-1, 1, 1, walk.shape[0])
        return tf.reshape(_norm(walk, op, tf.reshape(x, image)), (-1, walk.shape[0]))
    mean, variance = walk.variable("mean"), walk.variable("variance")
    values = x.shape[0] * math.prod(walk.shape[:-1]) if walk.training else 1
    # TensorFlow averages unbiased variances. The average is linear, so this is exact.
    unbiased = values / (values - 1) if values > 1 else 1.0
    y, new_mean, new_variance, *_ = tf.raw_ops.FusedBatchNormV3(
        x=x,
        scale=walk.variable("scale") if op.scale else tf.ones(walk.shape[-1:]),
        offset=walk.variable("offset"),
        mean=mean,
        variance=variance * unbiased if walk.training else variance,
        epsilon=op.eps,
        exponential_avg_factor=1 - op.decay,
        data_format=walk.format,
        is_training=walk.training,
    )
    if walk.training:
        walk.statistics[f"{walk.node.name}/mean"] = new_mean
        walk.statistics[f"{walk.node.name}/variance"] = new_variance / unbiased
    return y


ACTS: dict[str, Callable[[Act, Tensor], Tensor]] = {
    "relu": lambda op, x: tf.nn.relu(x),
    "relu6": lambda op, x: tf.nn.relu6(x),
    "leaky": lambda op, x: tf.nn.leaky_relu(x, op.slope),
    "tanh": lambda op, x: tf.tanh(x),
    "sigmoid": lambda op, x: tf.sigmoid(x),
    "silu": lambda op, x: tf.nn.silu(x),
    "hardswish": lambda op, x: x * tf.nn.relu6(x + 3) * (1 / 6),
    "hardsigmoid": lambda op, x: tf.nn.relu6(x + 3) * (1 / 6),
    "gelu": lambda op, x: tf.nn.gelu(x, approximate=False),
    "gelu-tanh": lambda op, x: tf.nn.gelu(x, approximate=True),
}


def _pool(walk: TensorflowWalk, op: Pool, x: Tensor) -> Tensor:
    lowest = x.dtype.min if op.kind == "max" else 0.0
    x, padding = walk.window(op, x, lowest, exact=op.count_pad)
    if op.kind == "max":
        return tf.nn.max_pool2d(x, op.kernel, op.stride, padding, walk.format)
    y = tf.nn.avg_pool2d(x, op.kernel, op.stride, padding, walk.format)
    share = windows.padded_share(op, walk.shape)
    if padding == "VALID" and not op.count_pad and share.max() > 1:
        y *= tf.constant(share if walk.nchw else share[:, :, None], y.dtype)
    return y


def _mean(walk: TensorflowWalk, op: Mean, x: Tensor) -> Tensor:
    axes = (2, 3) if walk.nchw else (1, 2)
    # Eigen's sums of float16 are float16.
    return walk.floating(lambda x: tf.reduce_mean(x, axes), x)


def _flatten(walk: TensorflowWalk, op: Flatten, x: Tensor) -> Tensor:
    if walk.nchw and len(x.shape) == 4:
        x = tf.transpose(x, (0, 2, 3, 1))
    return tf.reshape(x, (-1, math.prod(walk.shape)))


def _dense(walk: TensorflowWalk, op: Dense, x: Tensor) -> Tensor:
    return walk.biased(op, tf.matmul(x, walk.weight("kernel")))


def _dropout(walk: TensorflowWalk, op: Dropout, x: Tensor) -> Tensor:
    if not walk.training or not op.rate:
        return x
    assert walk.random
    return tf.nn.experimental.general_dropout(x, op.rate, walk.random.uniform)


def _lrn(walk: TensorflowWalk, op: LRN, x: Tensor) -> Tensor:
    # There is only a kernel for channels that come last, and none for half precision everywhere.
    x = tf.transpose(x, (0, 2, 3, 1)) if walk.nchw else x
    x = walk.floating(
        lambda x: tf.nn.local_response_normalization(x, op.radius, op.bias, op.alpha, op.beta), x
    )
    return tf.transpose(x, (0, 3, 1, 2)) if walk.nchw else x


def _widen(walk: TensorflowWalk, op: Widen, x: Tensor) -> Tensor:
    pads = [(0, 0)] * 4
    pads[walk.channels(x)] = op.before, op.after
    return tf.pad(x, pads)


def _gate(walk: TensorflowWalk, op: ChannelGate, x: Tensor, gate: Tensor) -> Tensor:
    channels = walk.shape[2]
    return x * tf.reshape(gate, (-1, channels, 1, 1) if walk.nchw else (-1, 1, 1, channels))


def _per_channel(walk: TensorflowWalk, kind: str, x: Tensor) -> Tensor:
    """A weight of the present node, ready to meet an image or a vector."""
    weight = tf.cast(walk.variable(kind), x.dtype)
    return tf.reshape(weight, (-1, 1, 1)) if walk.nchw and len(x.shape) == 4 else weight


def _channel_norm(walk: TensorflowWalk, op: ChannelNorm, x: Tensor) -> Tensor:
    axis = walk.channels(x)

    def normal(x: Tensor) -> Tensor:
        mean, variance = tf.nn.moments(x, axis, keepdims=True)
        scale, offset = (_per_channel(walk, kind, x) for kind in ("scale", "offset"))
        return (x - mean) * tf.math.rsqrt(variance + op.eps) * scale + offset

    return walk.floating(normal, x)


def _slice(walk: TensorflowWalk, op: Slice, x: Tensor) -> Tensor:
    axis, count = walk.channels(x) % len(x.shape), len(x.shape)
    begin = [op.first if n == axis else 0 for n in range(count)]
    return tf.slice(x, begin, [op.count if n == axis else -1 for n in range(count)])


def _shuffle(walk: TensorflowWalk, op: Shuffle, x: Tensor) -> Tensor:
    height, width, channels = walk.shape
    groups = (op.groups, channels // op.groups)
    if walk.nchw:
        parts = tf.transpose(tf.reshape(x, (-1, *groups, height, width)), (0, 2, 1, 3, 4))
        return tf.reshape(parts, (-1, channels, height, width))
    parts = tf.transpose(tf.reshape(x, (-1, height, width, *groups)), (0, 1, 2, 4, 3))
    return tf.reshape(parts, (-1, height, width, channels))


LOWER: dict[type[Op], Callable[..., Tensor]] = {
    Input: lambda walk, op: walk.images,
    Conv: _conv,
    Norm: _norm,
    Act: lambda walk, op, x: ACTS[op.kind](op, x),
    Pool: _pool,
    Mean: _mean,
    Flatten: _flatten,
    Dense: _dense,
    Dropout: _dropout,
    Add: lambda walk, op, *xs: functools.reduce(operator.add, xs),
    Concat: lambda walk, op, *xs: tf.concat(xs, walk.channels(xs[0])),
    Scale: lambda walk, op, x: x * tf.constant(op.factor, x.dtype),
    LRN: _lrn,
    Widen: _widen,
    ChannelGate: _gate,
    ChannelNorm: _channel_norm,
    ChannelScale: lambda walk, op, x: x * _per_channel(walk, "gain", x),
    Slice: _slice,
    Shuffle: _shuffle,
}

"""A blueprint as a functional model of Keras layers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import keras
from keras import layers, ops

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
from convdyno.engines.contract import Optimiser, Walk

UNSET = "zeros"
"""Drawing kernels that are replaced at once would take seconds."""
Tensor = Any


@dataclass
class KerasWalk(Walk):
    """A blueprint on its way into a model."""

    optimiser: Optimiser
    nchw: bool
    seed: int
    variables: dict[str, Any] = field(default_factory=dict)
    """What holds each weight, by canonical name; depthwise kernels have a shape of their own."""
    seeds: dict[str, Any] = field(default_factory=dict)
    """What holds the place of each dropout's random numbers, by the name of its node."""

    def model_ends(self) -> tuple[Tensor, list[Tensor]]:
        """The input and the scores of each head, in float32."""
        values = self.values(LOWER)
        image = next(node.name for node in self.blueprint.nodes if isinstance(node.op, Input))
        scores = [values[head.node] for head in self.blueprint.heads]
        return values[image], [
            x if x.dtype == "float32" else layers.Activation("linear", dtype="float32")(x)
            for x in scores
        ]

    def decay(self, kind: str) -> keras.Regularizer | None:
        """The L2 term of a kind of weight: Keras's own `weight_decay` is not in the gradient."""
        spec = self.optimiser
        applies = spec.weight_decay and (spec.decay_on == "all" or kind == "kernel")
        return keras.regularizers.L2(spec.weight_decay / 2) if applies else None

    def own(self, layer: layers.Layer, x: Tensor, **attributes: str) -> Tensor:
        """The output of a layer, whose attributes hold weights of the present node."""
        y = layer(x)
        for kind in self.node.op.weights(self.shape):
            attribute = getattr(layer, attributes.get(kind, kind))
            self.variables[f"{self.node.name}/{kind}"] = attribute
        return y

    def channels(self, x: Tensor) -> int:
        """The axis of the channels."""
        return 1 if self.nchw and len(x.shape) == 4 else -1

    def window(
        self, op: Conv | Pool, x: Tensor, value: float = 0.0, *, exact: bool = False
    ) -> tuple[Tensor, str]:
        """The image, padded if Keras has no word for that, and its word for the rest.

        With `exact` "same" does not do: an average there does not count the padding.
        """
        top, bottom, left, right = reached = windows.reached(op, self.shape)
        if reached == (0, 0, 0, 0):
            return x, "valid"
        if windows.is_same(op, self.shape) and not exact:
            return x, "same"
        sides = ((top, bottom), (left, right))
        if value == 0:
            return layers.ZeroPadding2D(sides)(x), "valid"
        pads = [(0, 0), (0, 0), *sides] if self.nchw else [(0, 0), *sides, (0, 0)]
        return ops.pad(x, pads, constant_values=value), "valid"


class LocalResponseNorm(layers.Layer):  # type: ignore[misc]
    """Each value divided by a power of the squares of its neighbours across the channels."""

    def __init__(self, op: LRN, axis: int) -> None:
        # Sums of squares are statistics.
        super().__init__(dtype="float32")
        self._op, self._axis = op, axis

    def call(self, x: Tensor) -> Tensor:
        op, axis, count = self._op, self._axis % 4, x.shape[self._axis]
        pads = [(0, 0)] * 4
        pads[axis] = op.radius, op.radius
        squares = ops.pad(ops.square(x), pads)
        before = (slice(None),) * axis
        near = sum(squares[(*before, slice(n, n + count))] for n in range(2 * op.radius + 1))
        return x * ops.power(op.bias + op.alpha * near, -op.beta)


class ChannelGain(layers.Layer):  # type: ignore[misc]
    """A factor for each channel."""

    def __init__(self, axis: int, regularizer: keras.Regularizer | None) -> None:
        super().__init__()
        self._axis, self._regularizer = axis, regularizer

    def build(self, shape: tuple[int | None, ...]) -> None:
        self.gain = self.add_weight(
            shape=(shape[self._axis],), initializer=UNSET, regularizer=self._regularizer
        )

    def call(self, x: Tensor) -> Tensor:
        gain = ops.cast(self.gain, x.dtype)
        return x * (ops.reshape(gain, (-1, 1, 1)) if self._axis == 1 else gain)


def _input(walk: KerasWalk, op: Input) -> Tensor:
    image = (op.channels, op.height, op.width) if walk.nchw else (op.height, op.width, op.channels)
    return keras.Input(image, dtype="float32")


def _conv(walk: KerasWalk, op: Conv, x: Tensor) -> Tensor:
    x, padding = walk.window(op, x)
    common: dict[str, Any] = {
        "kernel_size": op.kernel,
        "strides": op.stride,
        "padding": padding,
        "use_bias": op.bias,
        "bias_regularizer": walk.decay("bias"),
    }
    channels = walk.shape[2]
    if op.groups == channels > 1 and op.stride[0] == op.stride[1]:
        layer = layers.DepthwiseConv2D(
            depth_multiplier=op.out // channels,
            depthwise_regularizer=walk.decay("kernel"),
            depthwise_initializer=UNSET,
            **common,
        )
    else:
        layer = layers.Conv2D(
            op.out,
            groups=op.groups,
            kernel_regularizer=walk.decay("kernel"),
            kernel_initializer=UNSET,
            **common,
        )
    return walk.own(layer, x)


def _norm(walk: KerasWalk, op: Norm, x: Tensor) -> Tensor:
    layer = layers.BatchNormalization(
        axis=walk.channels(x),
        momentum=op.decay,
        epsilon=op.eps,
        scale=op.scale,
        gamma_regularizer=walk.decay("scale"),
        beta_regularizer=walk.decay("offset"),
    )
    return walk.own(
        layer, x, scale="gamma", offset="beta", mean="moving_mean", variance="moving_variance"
    )


ACTS: dict[str, Callable[[Act], layers.Layer]] = {
    "relu": lambda op: layers.ReLU(),
    "relu6": lambda op: layers.ReLU(max_value=6),
    "leaky": lambda op: layers.LeakyReLU(negative_slope=op.slope),
    "tanh": lambda op: layers.Activation("tanh"),
    "sigmoid": lambda op: layers.Activation("sigmoid"),
    "silu": lambda op: layers.Activation("silu"),
    "hardswish": lambda op: layers.Activation("hard_silu"),
    "hardsigmoid": lambda op: layers.Activation("hard_sigmoid"),
    "gelu": lambda op: layers.Activation("gelu"),
    "gelu-tanh": lambda op: layers.Activation(partial(keras.activations.gelu, approximate=True)),
}


def _pool(walk: KerasWalk, op: Pool, x: Tensor) -> Tensor:
    lowest = -math.inf if op.kind == "max" else 0.0
    top, bottom, left, right = windows.reached(op, walk.shape)
    # On torch Keras 3.15 repeats the edge where an average's padding differs by side
    # (https://github.com/keras-team/keras/pull/23233).
    lopsided = op.kind == "average" and (top != bottom or left != right)
    x, padding = walk.window(op, x, lowest, exact=op.count_pad or lopsided)
    if op.kind == "max":
        return layers.MaxPooling2D(op.kernel, op.stride, padding)(x)
    y = layers.AveragePooling2D(op.kernel, op.stride, padding)(x)
    share = windows.padded_share(op, walk.shape)
    if padding == "valid" and not op.count_pad and share.max() > 1:
        share = share if walk.nchw else share[:, :, None]
        y = y * ops.convert_to_tensor(share, y.dtype)
    return y


def _dense(walk: KerasWalk, op: Dense, x: Tensor) -> Tensor:
    layer = layers.Dense(
        op.out,
        use_bias=op.bias,
        kernel_regularizer=walk.decay("kernel"),
        bias_regularizer=walk.decay("bias"),
        kernel_initializer=UNSET,
    )
    return walk.own(layer, x)


def _dropout(walk: KerasWalk, op: Dropout, x: Tensor) -> Tensor:
    if not op.rate:
        return x
    layer = layers.Dropout(op.rate, seed=walk.seed)
    walk.seeds[walk.node.name] = layer.seed_generator.state
    return layer(x)


def _widen(walk: KerasWalk, op: Widen, x: Tensor) -> Tensor:
    pads = [(0, 0)] * 4
    pads[walk.channels(x)] = op.before, op.after
    return ops.pad(x, pads)


def _gate(walk: KerasWalk, op: ChannelGate, x: Tensor, gate: Tensor) -> Tensor:
    channels = walk.shape[2]
    gate = layers.Reshape((channels, 1, 1) if walk.nchw else (1, 1, channels))(gate)
    return layers.Multiply()([x, gate])


def _channel_norm(walk: KerasWalk, op: ChannelNorm, x: Tensor) -> Tensor:
    layer = layers.LayerNormalization(
        epsilon=op.eps,
        gamma_regularizer=walk.decay("scale"),
        beta_regularizer=walk.decay("offset"),
    )
    # On torch Keras 3.15 has only norms over the last axis.
    first = walk.channels(x) == 1
    x = layers.Permute((2, 3, 1))(x) if first else x
    y = walk.own(layer, x, scale="gamma", offset="beta")
    return layers.Permute((3, 1, 2))(y) if first else y


def _slice(walk: KerasWalk, op: Slice, x: Tensor) -> Tensor:
    wanted = slice(op.first, op.first + op.count)
    return x[:, wanted] if walk.channels(x) == 1 else x[..., wanted]


def _shuffle(walk: KerasWalk, op: Shuffle, x: Tensor) -> Tensor:
    height, width, channels = walk.shape
    groups = (op.groups, channels // op.groups)
    if walk.nchw:
        parts = layers.Permute((2, 1, 3, 4))(layers.Reshape((*groups, height, width))(x))
        return layers.Reshape((channels, height, width))(parts)
    parts = layers.Permute((1, 2, 4, 3))(layers.Reshape((height, width, *groups))(x))
    return layers.Reshape((height, width, channels))(parts)


LOWER: dict[type[Op], Callable[..., Tensor]] = {
    Input: _input,
    Conv: _conv,
    Norm: _norm,
    Act: lambda walk, op, x: ACTS[op.kind](op)(x),
    Pool: _pool,
    Mean: lambda walk, op, x: layers.GlobalAveragePooling2D()(x),
    Flatten: lambda walk, op, x: layers.Flatten()(x),
    Dense: _dense,
    Dropout: _dropout,
    Add: lambda walk, op, *xs: layers.Add()(list(xs)),
    Concat: lambda walk, op, *xs: layers.Concatenate(axis=walk.channels(xs[0]))(list(xs)),
    Scale: lambda walk, op, x: x * op.factor,
    LRN: lambda walk, op, x: LocalResponseNorm(op, walk.channels(x))(x),
    Widen: _widen,
    ChannelGate: _gate,
    ChannelNorm: _channel_norm,
    ChannelScale: lambda walk, op, x: walk.own(
        ChannelGain(walk.channels(x), walk.decay("gain")), x
    ),
    Slice: _slice,
    Shuffle: _shuffle,
}

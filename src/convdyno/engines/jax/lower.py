"""A blueprint as a pure function of weights and images, walked only while JAX traces it."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import jax
import numpy as np
from jax import Array, lax
from jax import numpy as jnp

from convdyno.blueprint.graph import Blueprint
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

Arrays = dict[str, Array]
"""Arrays by canonical name: kernels are (height, width, in, out) here as they are there."""


@dataclass(frozen=True, slots=True)
class Policy:
    """What a network is computed in; statistics, scores and loss are float32 whatever it says."""

    dtype: Any
    """Of the operands of products."""
    between: Any
    """Of what is handed from op to op."""
    precision: lax.Precision
    """Of the products of float32 numbers."""
    conv: Callable[[Policy, Conv, Array, Array], Array]
    """(the policy, an op, images, kernel) -> images."""
    norm: Callable[[Norm, Array, Array, Array], tuple[Array, ...]]
    """(an op, float32 values, scale, offset) -> (values, mean and variance of the batch)."""
    max_pool: Callable[[Pool, Array], Array]


@dataclass(slots=True)
class _Walk:
    """One pass over a blueprint, while it is traced."""

    policy: Policy
    images: Array
    key: Array | None
    """None where nothing is dropped."""
    training: bool
    node: str = ""
    statistics: Arrays = field(default_factory=dict)
    """The running statistics after this batch, as far as it has come."""
    dropped: int = 0


Network = Callable[[Arrays, Array, Array | None], tuple[list[Array], Arrays]]
"""(weights, images, key) -> (the scores of each head, running statistics after the batch)."""


def lower(blueprint: Blueprint, policy: Policy, *, training: bool) -> Network:
    """The network as a function, in training form or as in use."""

    def network(weights: Arrays, images: Array, key: Array | None) -> tuple[list[Array], Arrays]:
        walk = _Walk(policy, images, key, training)
        values: Arrays = {}
        for node in blueprint.nodes:
            own = {
                kind: weights[f"{node.name}/{kind}"]
                for kind in node.op.weights(*blueprint.shapes_in(node))
            }
            inputs = [values[name] for name in node.inputs]
            walk.node = node.name
            with jax.named_scope(node.name):
                values[node.name] = LOWER[type(node.op)](walk, node.op, own, *inputs)
        scores = [values[head.node].astype(jnp.float32) for head in blueprint.heads]
        return scores, walk.statistics

    return network


def loss(blueprint: Blueprint, scores: list[Array], labels: Array, smoothing: float) -> Array:
    """Mean cross-entropy, summed over the heads by their weights."""
    shares = zip(blueprint.heads, scores, strict=True)
    return reduce(
        operator.add, (h.weight * _cross_entropy(s, labels, smoothing) for h, s in shares)
    )


def native_conv(policy: Policy, op: Conv, x: Array, kernel: Array) -> Array:
    """A convolution as JAX's users write it."""
    top, bottom, left, right = op.pad
    return lax.conv_general_dilated(
        x,
        kernel,
        op.stride,
        ((top, bottom), (left, right)),
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
        feature_group_count=op.groups,
        precision=policy.precision,
    )


def native_max_pool(op: Pool, x: Array) -> Array:
    """A sliding maximum; the gradient goes to the first of equal values."""
    return lax.reduce_window(x, -jnp.inf, lax.max, *_window(op))


def _cross_entropy(scores: Array, labels: Array, smoothing: float) -> Array:
    classes = scores.shape[1]
    mine = labels[:, None] == jnp.arange(classes)
    found = jax.nn.log_softmax(scores)
    if smoothing:
        return -(((1 - smoothing) * mine + smoothing / classes) * found).sum() / len(labels)
    return -jnp.where(mine, found, 0).sum() / len(labels)


def native_norm(op: Norm, x: Array, scale: Array, offset: Array) -> tuple[Array, Array, Array]:
    """Batch norm over a batch, differentiated by JAX.

    To first order the variance does not change with the mean, so no gradient flows there. The mean
    is written a second time, after the variance: XLA computes it once all the same, but the
    gradient's terms now come in an order in which it is not computed twice.
    """
    axes = tuple(range(x.ndim - 1))
    variance = jnp.square(x - lax.stop_gradient(x).mean(axes)).mean(axes)
    mean = x.mean(axes)
    return (x - mean) * (lax.rsqrt(variance + op.eps) * scale) + offset, mean, variance


def _conv(walk: _Walk, op: Conv, w: Arrays, x: Array) -> Array:
    dtype, between = walk.policy.dtype, walk.policy.between
    y = walk.policy.conv(walk.policy, op, x.astype(dtype), w["kernel"].astype(dtype))
    y = y.astype(between)
    return y + w["bias"].astype(between) if op.bias else y


def _dense(walk: _Walk, op: Dense, w: Arrays, x: Array) -> Array:
    dtype, between = walk.policy.dtype, walk.policy.between
    y = jnp.dot(
        x.astype(dtype),
        w["kernel"].astype(dtype),
        precision=walk.policy.precision,
        preferred_element_type=between,
    )
    return y + w["bias"].astype(between) if op.bias else y


def _norm(walk: _Walk, op: Norm, w: Arrays, x: Array) -> Array:
    scale = w["scale"] if op.scale else jnp.ones_like(w["offset"])
    x = x.astype(jnp.float32)
    if walk.training:
        y, *batch = walk.policy.norm(op, x, scale, w["offset"])
        for kind, new in zip(("mean", "variance"), batch, strict=True):
            kept = op.decay * w[kind]
            walk.statistics[f"{walk.node}/{kind}"] = kept + (1 - op.decay) * new
    else:
        y = (x - w["mean"]) * (lax.rsqrt(w["variance"] + op.eps) * scale) + w["offset"]
    return y.astype(walk.policy.between)


ACTS: dict[str, Callable[[Act, Array], Array]] = {
    "relu": lambda op, x: jax.nn.relu(x),
    "relu6": lambda op, x: jax.nn.relu6(x),
    "leaky": lambda op, x: jnp.where(x > 0, x, op.slope * x),
    "tanh": lambda op, x: jnp.tanh(x),
    "sigmoid": lambda op, x: jax.nn.sigmoid(x),
    "silu": lambda op, x: jax.nn.silu(x),
    "hardswish": lambda op, x: jax.nn.hard_swish(x),
    "hardsigmoid": lambda op, x: jax.nn.hard_sigmoid(x),
    "gelu": lambda op, x: jax.nn.gelu(x, approximate=False),
    "gelu-tanh": lambda op, x: jax.nn.gelu(x, approximate=True),
}


def _pool(walk: _Walk, op: Pool, w: Arrays, x: Array) -> Array:
    if op.kind == "max":
        return walk.policy.max_pool(op, x)
    total = lax.reduce_window(x.astype(jnp.float32), 0.0, lax.add, *_window(op))
    return (total / _cells(op, x.shape[1:3])).astype(x.dtype)


def _lrn(walk: _Walk, op: LRN, w: Arrays, x: Array) -> Array:
    x = x.astype(jnp.float32)
    side = (op.radius, op.radius)
    near = lax.reduce_window(
        jnp.square(x),
        0.0,
        lax.add,
        (1, 1, 1, 2 * op.radius + 1),
        (1, 1, 1, 1),
        ((0, 0), (0, 0), (0, 0), side),
    )
    return (x * (op.bias + op.alpha * near) ** -op.beta).astype(walk.policy.between)


def _channel_norm(walk: _Walk, op: ChannelNorm, w: Arrays, x: Array) -> Array:
    x = x.astype(jnp.float32)
    centred = x - x.mean(-1, keepdims=True)
    variance = jnp.square(centred).mean(-1, keepdims=True)
    y = centred * lax.rsqrt(variance + op.eps) * w["scale"] + w["offset"]
    return y.astype(walk.policy.between)


def _shuffle(walk: _Walk, op: Shuffle, w: Arrays, x: Array) -> Array:
    return x.reshape(*x.shape[:3], op.groups, -1).swapaxes(3, 4).reshape(x.shape)


def _dropout(walk: _Walk, op: Dropout, w: Arrays, x: Array) -> Array:
    if walk.key is None or not walk.training or not op.rate:
        return x
    walk.dropped += 1
    kept = jax.random.bernoulli(jax.random.fold_in(walk.key, walk.dropped), 1 - op.rate, x.shape)
    return jnp.where(kept, x / (1 - op.rate), 0)


LOWER: dict[type[Op], Callable[..., Array]] = {
    Input: lambda walk, op, w: walk.images,
    Conv: _conv,
    Norm: _norm,
    Dense: _dense,
    Act: lambda walk, op, w, x: ACTS[op.kind](op, x),
    Pool: _pool,
    LRN: _lrn,
    Dropout: _dropout,
    Widen: lambda walk, op, w, x: jnp.pad(x, ((0, 0), (0, 0), (0, 0), (op.before, op.after))),
    Mean: lambda walk, op, w, x: x.mean((1, 2)),
    Flatten: lambda walk, op, w, x: x.reshape(len(x), -1),
    Add: lambda walk, op, w, *xs: reduce(operator.add, xs),
    Concat: lambda walk, op, w, *xs: jnp.concatenate(xs, -1),
    Scale: lambda walk, op, w, x: x * op.factor,
    ChannelGate: lambda walk, op, w, x, gate: x * gate[:, None, None],
    ChannelNorm: _channel_norm,
    ChannelScale: lambda walk, op, w, x: x * w["gain"].astype(x.dtype),
    Slice: lambda walk, op, w, x: x[..., op.first : op.first + op.count],
    Shuffle: _shuffle,
}
"""(the walk, an op, its own weights, its inputs) -> its output."""


def _window(op: Pool) -> tuple[tuple[int, ...], tuple[int, ...], tuple[tuple[int, int], ...]]:
    top, bottom, left, right = op.pad
    return (1, *op.kernel, 1), (1, *op.stride, 1), ((0, 0), (top, bottom), (left, right), (0, 0))


def _cells(op: Pool, size: tuple[int, ...]) -> np.ndarray:
    """How many cells each window averages over, as (rows, columns, 1); a constant."""
    top, bottom, left, right = op.pad
    edge = float(op.count_pad)
    cells = np.pad(np.ones(size), ((top, bottom), (left, right)), constant_values=edge)
    windows = np.lib.stride_tricks.sliding_window_view(cells, op.kernel)
    counts = windows[:: op.stride[0], :: op.stride[1]].sum((-2, -1))
    return counts[..., None].astype(np.float32)

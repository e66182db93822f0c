"""The oracle's backward pass: every op's derivative in NumPy and float64."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from convdyno.blueprint.graph import Blueprint, Node
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
    Mean,
    Norm,
    Op,
    Pool,
    Scale,
    Shuffle,
    Slice,
    Widen,
)
from convdyno.engines import reference
from convdyno.engines.reference import Arrays, Images, Labels, Pass
from convdyno.engines.reference_rounding import EXACT, Arithmetic
from convdyno.engines.reference_update import Array

Derivatives = tuple[list[Array], dict[str, Array]]
"""Of the loss: by each input of an op, and by each of its own weights."""


@dataclass(frozen=True)
class Step:
    """What one training step sees before it changes anything."""

    loss: float
    gradients: dict[str, Array]
    """Of the loss without L2, by each trainable weight."""
    statistics: dict[str, Array]
    """The running statistics after the step."""
    done: Pass
    """The forward pass, in training form."""


def differentiate(
    blueprint: Blueprint,
    weights: Arrays,
    images: Images,
    labels: Labels,
    smoothing: float = 0.0,
    arithmetic: Arithmetic = EXACT,
) -> Step:
    """The training loss of a batch and its derivative by every trainable weight."""
    done = reference.forward(blueprint, weights, images, training=True, arithmetic=arithmetic)
    loss = sum(
        head.weight * reference.cross_entropy(done.values[head.node], labels, smoothing)
        for head in blueprint.heads
    )
    slopes = slopes_of_loss(blueprint, done, labels, smoothing)
    gradients = backward(blueprint, weights, done, slopes, arithmetic)
    statistics = reference.statistics_after(blueprint, weights, done)
    return Step(loss, {name: gradients[name] for name in blueprint.trainable}, statistics, done)


def slopes_of_loss(
    blueprint: Blueprint, done: Pass, labels: Labels, smoothing: float = 0.0
) -> dict[str, Array]:
    """The loss's derivatives by the scores of each head."""
    slopes: dict[str, Array] = {}
    for head in blueprint.heads:
        derivative = _cross_entropy_derivative(done.values[head.node], labels, smoothing)
        _accumulate(slopes, head.node, head.weight * derivative)
    return slopes


def backward(
    blueprint: Blueprint,
    weights: Arrays,
    done: Pass,
    upstream: dict[str, Array],
    arithmetic: Arithmetic = EXACT,
) -> dict[str, Array]:
    """The derivatives by each weight, from those by some nodes, to which all others are added."""
    gradients: dict[str, Array] = {}
    for node in reversed(blueprint.nodes):
        if node.name not in upstream or not node.inputs:
            continue
        own = _own_weights(blueprint, node, weights, done, arithmetic)
        inputs = [done.values[name] for name in node.inputs]
        slope = upstream[node.name]
        if isinstance(node.op, Conv | Dense):
            slope, *inputs = map(arithmetic.operand, (slope, *inputs))
        rule = BACKWARD[type(node.op)]
        by_input, by_weight = rule(node.op, own, done.values[node.name], slope, *inputs)
        for name, derivative in zip(node.inputs, by_input, strict=True):
            _accumulate(upstream, name, arithmetic.result(derivative))
        gradients |= {f"{node.name}/{kind}": value for kind, value in by_weight.items()}
    return gradients


def _own_weights(
    blueprint: Blueprint, node: Node, weights: Arrays, done: Pass, arithmetic: Arithmetic
) -> dict[str, Array]:
    own = reference.own_weights(blueprint, node, weights, arithmetic)
    return {kind: done.statistics.get(f"{node.name}/{kind}", value) for kind, value in own.items()}


def _accumulate(upstream: dict[str, Array], name: str, derivative: Array) -> None:
    upstream[name] = upstream[name] + derivative if name in upstream else derivative


def _cross_entropy_derivative(scores: Array, labels: Labels, smoothing: float) -> Array:
    exponent = np.exp(scores - scores.max(axis=1, keepdims=True))
    probability: Array = exponent / exponent.sum(axis=1, keepdims=True)
    wanted = reference.targets(labels, scores.shape[1], smoothing).astype(scores.dtype)
    return (probability - wanted) / len(labels)


def _conv(op: Conv, w: Mapping[str, Array], y: Array, dy: Array, x: Array) -> Derivatives:
    top, bottom, left, right = op.pad
    padded = np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)))
    dx, dk = np.zeros_like(padded), np.zeros_like(w["kernel"])
    size_in, size_out = x.shape[3] // op.groups, y.shape[3] // op.groups
    for i, j, cells in _cells(op, y):
        for group in range(op.groups):
            ins = slice(group * size_in, (group + 1) * size_in)
            outs = slice(group * size_out, (group + 1) * size_out)
            part = padded[(*cells, ins)]
            dk[i, j, :, outs] = np.tensordot(part, dy[..., outs], axes=([0, 1, 2], [0, 1, 2]))
            dx[(*cells, ins)] += dy[..., outs] @ w["kernel"][i, j, :, outs].T
    inner = dx[:, top : dx.shape[1] - bottom, left : dx.shape[2] - right]
    return [inner], {"kernel": dk} | _bias(w, dy)


def _cells(op: Conv | Pool, y: Array) -> Iterator[tuple[int, int, tuple[slice, ...]]]:
    """Each cell of a window, with where all windows have it in the padded image."""
    for i in range(op.kernel[0]):
        for j in range(op.kernel[1]):
            rows = slice(i, i + y.shape[1] * op.stride[0], op.stride[0])
            columns = slice(j, j + y.shape[2] * op.stride[1], op.stride[1])
            yield i, j, (slice(None), rows, columns)


def _norm(op: Norm, w: Mapping[str, Array], y: Array, dy: Array, x: Array) -> Derivatives:
    axes = tuple(range(x.ndim - 1))
    deviation = np.sqrt(w["variance"] + op.eps)
    normal = (x - w["mean"]) / deviation
    by_weight = {"scale": (dy * normal).sum(axes)} if op.scale else {}
    dn = dy * w.get("scale", 1.0)
    dx = (dn - dn.mean(axes) - normal * (dn * normal).mean(axes)) / deviation
    return [dx], by_weight | {"offset": dy.sum(axes)}


ACTS: dict[str, Callable[[Act, Array, Array, Array], Array]] = {
    "relu": lambda op, y, dy, x: dy * (x > 0),
    "relu6": lambda op, y, dy, x: dy * ((x > 0) & (x < 6)),
    "leaky": lambda op, y, dy, x: np.where(x > 0, dy, op.slope * dy),
    "tanh": lambda op, y, dy, x: dy * (1 - y * y),
    "sigmoid": lambda op, y, dy, x: dy * y * (1 - y),
    "silu": lambda op, y, dy, x: dy * (reference.sigmoid(x) * (1 - y) + y),
    "hardswish": lambda op, y, dy, x: dy * np.where(x > 3, 1, np.where(x > -3, (2 * x + 3) / 6, 0)),
    "hardsigmoid": lambda op, y, dy, x: dy * ((x > -3) & (x < 3)) / 6,
    "gelu": lambda op, y, dy, x: (
        dy * (reference.normal_share(x) + x * np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi))
    ),
    "gelu-tanh": lambda op, y, dy, x: dy * _gelu_tanh_slope(x),
}


def _gelu_tanh_slope(x: Array) -> Array:
    slope, cube = reference.GELU_SLOPE, reference.GELU_CUBE
    tanh = np.tanh(slope * (x + cube * x**3))
    inner: Array = (1 - tanh**2) * slope * (1 + 3 * cube * x**2)
    return (1 + tanh + x * inner) / 2


def _pool(op: Pool, w: Mapping[str, Array], y: Array, dy: Array, x: Array) -> Derivatives:
    """A maximum passes its derivative to the first of the largest cells."""
    top, bottom, left, right = op.pad
    frame = ((0, 0), (top, bottom), (left, right), (0, 0))
    largest = op.kind == "max"
    padded = np.pad(x, frame, constant_values=-np.inf if largest else 0.0)
    inside = np.pad(np.ones_like(x), frame, constant_values=1.0 if op.count_pad else 0.0)
    dx, open_ = np.zeros_like(padded), np.ones(y.shape, bool)
    cells = [cell for _, _, cell in _cells(op, y)]
    count = sum(inside[cell] for cell in cells)
    for cell in cells:
        if largest:
            chosen = open_ & (padded[cell] == y)
            open_ &= ~chosen
            dx[cell] += dy * chosen
        else:
            dx[cell] += dy / count
    return [dx[:, top : dx.shape[1] - bottom, left : dx.shape[2] - right]], {}


def _lrn(op: LRN, w: Mapping[str, Array], y: Array, dy: Array, x: Array) -> Derivatives:
    base = op.bias + op.alpha * reference.near(x**2, op.radius)
    spread = reference.near(dy * x * base ** (-op.beta - 1), op.radius)
    return [dy * base**-op.beta - 2 * op.alpha * op.beta * x * spread], {}


def _dense(op: Dense, w: Mapping[str, Array], y: Array, dy: Array, x: Array) -> Derivatives:
    return [dy @ w["kernel"].T], {"kernel": x.T @ dy} | _bias(w, dy)


def _bias(w: Mapping[str, Array], dy: Array) -> dict[str, Array]:
    return {"bias": dy.sum(tuple(range(dy.ndim - 1)))} if "bias" in w else {}


def _concat(op: Concat, w: Mapping[str, Array], y: Array, dy: Array, *xs: Array) -> Derivatives:
    edges = np.cumsum([x.shape[-1] for x in xs])[:-1]
    return list(np.split(dy, edges, axis=-1)), {}


def _mean(op: Mean, w: Mapping[str, Array], y: Array, dy: Array, x: Array) -> Derivatives:
    return [np.broadcast_to(dy[:, None, None] / (x.shape[1] * x.shape[2]), x.shape)], {}


def _gate(
    op: ChannelGate, w: Mapping[str, Array], y: Array, dy: Array, x: Array, g: Array
) -> Derivatives:
    return [dy * g[:, None, None], (dy * x).sum((1, 2))], {}


def _channel_norm(
    op: ChannelNorm, w: Mapping[str, Array], y: Array, dy: Array, x: Array
) -> Derivatives:
    normal, deviation = reference.standardised(op, x)
    axes = tuple(range(x.ndim - 1))
    dn = dy * w["scale"]
    inner = dn.mean(-1, keepdims=True) + normal * (dn * normal).mean(-1, keepdims=True)
    return [(dn - inner) / deviation], {"scale": (dy * normal).sum(axes), "offset": dy.sum(axes)}


def _channel_scale(
    op: ChannelScale, w: Mapping[str, Array], y: Array, dy: Array, x: Array
) -> Derivatives:
    return [dy * w["gain"]], {"gain": (dy * x).sum(tuple(range(x.ndim - 1)))}


def _slice(op: Slice, w: Mapping[str, Array], y: Array, dy: Array, x: Array) -> Derivatives:
    dx = np.zeros_like(x)
    dx[..., op.first : op.first + op.count] = dy
    return [dx], {}


def _shuffle(op: Shuffle, w: Mapping[str, Array], y: Array, dy: Array, x: Array) -> Derivatives:
    return [reference.shuffled(dy, x.shape[-1] // op.groups)], {}


BACKWARD: dict[type[Op], Callable[..., Derivatives]] = {
    Conv: _conv,
    Norm: _norm,
    Act: lambda op, w, y, dy, x: ([ACTS[op.kind](op, y, dy, x)], {}),
    Pool: _pool,
    LRN: _lrn,
    Mean: _mean,
    Flatten: lambda op, w, y, dy, x: ([dy.reshape(x.shape)], {}),
    Dense: _dense,
    Dropout: lambda op, w, y, dy, x: ([dy], {}),
    Add: lambda op, w, y, dy, *xs: ([dy] * len(xs), {}),
    Concat: _concat,
    Scale: lambda op, w, y, dy, x: ([op.factor * dy], {}),
    Widen: lambda op, w, y, dy, x: ([dy[..., op.before : op.before + x.shape[-1]]], {}),
    ChannelGate: _gate,
    ChannelNorm: _channel_norm,
    ChannelScale: _channel_scale,
    Slice: _slice,
    Shuffle: _shuffle,
}
"""The derivatives of each op: (the op, its weights, its output, the loss's derivative by that
output, its inputs) -> the loss's derivatives by its inputs and weights."""

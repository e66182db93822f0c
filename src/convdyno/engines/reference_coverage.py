"""How far the answer moves if an op is left out, or one of its numbers is a little off.

The derivative of the loss by each node's values is known from one backward pass. So for every way
in which a node can be wrong only that node is computed again; what its error makes of the loss
follows, to first order, from the derivative. Several draws of labels stand for what one alone might
not see.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from typing import Any

import numpy as np

from convdyno.blueprint.graph import Blueprint, Node
from convdyno.blueprint.ops import (
    LRN,
    Act,
    Add,
    ChannelGate,
    ChannelNorm,
    ChannelScale,
    Conv,
    Dense,
    Dropout,
    Norm,
    Op,
    Pool,
    Scale,
)
from convdyno.engines.contract import FaultEffect
from convdyno.engines.reference import COMPUTE, Arrays, Images, Labels, Pass, forward
from convdyno.engines.reference_backward import backward, slopes_of_loss
from convdyno.engines.reference_rounding import EXACT
from convdyno.engines.reference_update import Array

DRAWS = 3
"""Of labels; the first are those that are asked about."""
SHARE = 0.1
"""By how much a number is changed."""
NUMBERS = {
    Norm: {"eps": "epsilon"},
    ChannelNorm: {"eps": "epsilon"},
    LRN: {"alpha": "alpha", "beta": "beta", "bias": "bias"},
    Scale: {"factor": "factor"},
}
"""What each op has to be right about, besides what it computes."""


MISTAKEN = {
    "relu": ("relu6", "ReLU6"), "relu6": ("relu", "ReLU"), "silu": ("hardswish", "hardswish"),
    "hardswish": ("silu", "SiLU"), "hardsigmoid": ("sigmoid", "sigmoid"),
    "sigmoid": ("hardsigmoid", "hardsigmoid"), "gelu": ("gelu-tanh", "the tanh form"),
    "gelu-tanh": ("gelu", "the exact form"),
}  # fmt: skip
"""What an activation is easily mistaken for."""


def coverage(
    blueprint: Blueprint, weights: Arrays, images: Images, labels: Labels
) -> list[FaultEffect]:
    """For every node and every way in which it can be wrong, how far the loss moves."""
    done = forward(blueprint, weights, images, training=True)
    random = np.random.default_rng(0)
    draws = [labels, *random.integers(0, blueprint.classes, (DRAWS - 1, len(labels)))]
    slopes = []
    for drawn in draws:
        upstream = slopes_of_loss(blueprint, done, drawn)
        backward(blueprint, weights, done, upstream)
        slopes.append(upstream)
    found = []
    for node in blueprint.nodes:
        own = _own(blueprint, node, weights, done)
        inputs = [done.values[name] for name in node.inputs]
        for change, share, value in _wrong(node, own, inputs, done.values[node.name]):
            off = value - done.values[node.name]
            moved = [float((s[node.name] * off).sum()) for s in slopes if node.name in s]
            size = float(np.sqrt(np.mean(np.square(moved)))) if moved else 0.0
            found.append(FaultEffect(node.name, type(node.op).__name__, change, share, size))
    return found


def _own(blueprint: Blueprint, node: Node, weights: Arrays, done: Pass) -> dict[str, Array]:
    names = {kind: f"{node.name}/{kind}" for kind in node.op.weights(*blueprint.shapes_in(node))}
    return {k: EXACT.number(done.statistics.get(n, weights[n])) for k, n in names.items()}


def _wrong(
    node: Node, own: Mapping[str, Array], inputs: list[Array], y: Array
) -> Iterator[tuple[str, float, Array]]:
    """Each way to be wrong: its name, by what share (1 for left out), and what is computed then."""
    op = node.op
    if not inputs:
        return
    for name, words in NUMBERS.get(type(op), {}).items():
        yield words, SHARE, _other(op, own, inputs, name, getattr(op, name) * (1 + SHARE))
    match op:
        case Conv() | Dense():
            noise = np.random.default_rng(1).choice((-SHARE, SHARE), own["kernel"].shape)
            wrong = {**own, "kernel": own["kernel"] * (1 + noise)}
            yield "kernel", SHARE, COMPUTE[type(op)](op, wrong, *inputs)
            if "bias" in own:
                yield "bias", SHARE, y + SHARE * own["bias"]
            return
        case Dropout():
            return
        case Act(kind, slope):
            if kind in MISTAKEN:
                other, words = MISTAKEN[kind]
                yield f"{words} instead", 1.0, _other(op, own, inputs, "kind", other)
            elif kind == "leaky":
                yield "slope", SHARE, _other(op, own, inputs, "slope", slope * (1 + SHARE))
        case Pool(kind, pad=pad, count_pad=counted):
            other = "average" if kind == "max" else "max"
            if op.kernel != (1, 1):
                yield f"{other} instead", 1.0, _other(op, own, inputs, "kind", other)
            if kind == "average" and any(pad):
                yield (
                    "padding counted otherwise",
                    1.0,
                    _other(op, own, inputs, "count_pad", not counted),
                )
        case Add():
            for source, x in zip(node.inputs, inputs, strict=True):
                yield f"without {source}", 1.0, y - x
            return
        case ChannelGate():
            yield "left out", 1.0, inputs[0]
            return
        case ChannelScale():
            noise = np.random.default_rng(1).choice((-SHARE, SHARE), own["gain"].shape)
            yield "gain", SHARE, y * (1 + noise)
        case LRN(radius):
            yield "radius 1 more", 1.0, _other(op, own, inputs, "radius", radius + 1)
    alike = len(inputs) == 1 and inputs[0].shape == y.shape
    kept = alike and not isinstance(op, Pool)
    yield "left out", 1.0, inputs[0] if kept else np.zeros_like(y)


def _other(op: Op, own: Mapping[str, Array], inputs: list[Array], name: str, value: Any) -> Array:
    assert name in {field.name for field in fields(op)}  # type: ignore[arg-type]
    wrong: Any = replace(op, **{name: value})  # type: ignore[type-var]
    return COMPUTE[type(op)](wrong, own, *inputs)

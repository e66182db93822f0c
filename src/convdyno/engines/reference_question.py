"""Weights at which every op matters, and at which rounding matters little.

Random weights leave much unseen: no value reaches 6, a response norm hardly changes anything, the
epsilon of a batch norm is lost beside the variance. So the oracle walks through the network once
and gives each layer the size at which what follows it does something. Next to the kink of an
activation two right engines differ by a whole slope; so each channel is moved until the kink lies
in a wide gap between its values.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
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
    Concat,
    Conv,
    Dense,
    Dropout,
    Norm,
    Pool,
    Scale,
    Shuffle,
    Slice,
    Widen,
)
from convdyno.blueprint.weights import Weights, lively_weights
from convdyno.engines.reference import (
    COMPUTE,
    Images,
    Pass,
    batch_statistics,
    forward,
    pool_windows,
)
from convdyno.engines.reference_rounding import EXACT, Arithmetic
from convdyno.engines.reference_update import Array

KINKS = {
    "relu": (0.0,), "relu6": (0.0, 6.0), "leaky": (0.0,), "hardswish": (-3.0, 3.0),
    "hardsigmoid": (-3.0, 3.0),
}  # fmt: skip
SATURATED = 6.0
"""Where a ReLU6 ends: some of what a ReLU reads must be beyond it, to tell the two apart."""
ACTIVE = 3.0
"""The deviation of what a ReLU reads: some of it is below 0 then, and some above 6."""
CENTRE = 0.6
"""Its mean, in deviations."""
SMOOTH = 1.0
"""The deviation of what an activation without kinks reads, and of what no activation reads."""
SCORES = 1.0
"""The deviation of class scores: no class is certain, and none is lost."""
EPSILONS = 30.0
"""The variance of what a batch norm reads, in epsilons: a tenth more is 1/600 of its output."""
GAPS = 16
"""How many of the widest gaps are tried for a channel."""
DRAWS = 6
CALM = 30.0
"""How many roundings every value should be away from a kink."""
PASS = (Add, Concat, Dropout, Pool, Scale, Widen, ChannelGate, ChannelScale, Slice, Shuffle)
"""Ops that keep the size of what they read, roughly."""


def calm_lively(blueprint: Blueprint, images: Images, seed: int) -> Weights:
    """Such weights at which no kink is near, in the best of several draws."""
    best, widest = None, -1.0
    for draw in range(DRAWS):
        weights = lively(blueprint, images, seed * DRAWS + draw)
        exact, rounded = (
            forward(blueprint, weights, images, training=True, arithmetic=numbers)
            for numbers in (EXACT, Arithmetic("fp32"))
        )
        margin = min(margins(blueprint, exact, rounded).values(), default=math.inf)
        if best is None or margin > widest:
            best, widest = weights, margin
        if margin >= CALM:
            break
    assert best is not None
    return best


def lively(blueprint: Blueprint, images: Images, seed: int) -> Weights:
    """Weights for a batch, at which every op matters."""
    tuning = _Tuning(blueprint, np.random.default_rng([seed, 0xACE]))
    tuning.weights = lively_weights(blueprint, seed)
    for node in blueprint.nodes:
        tuning.tune(node, images)
    return tuning.weights


def last_kernel(blueprint: Blueprint, weights: Weights, images: Images) -> Weights:
    """The kernel of a dense layer at the end, at which its scores are of a usual size."""
    name = f"{blueprint.heads[0].node}/kernel"
    drawn = lively_weights(blueprint)[name]
    scores = forward(blueprint, {**weights, name: drawn}, images, training=True)
    factor = SCORES / max(_deviation(scores.values[blueprint.heads[0].node], whole=True), 1e-30)
    return {name: (drawn * factor).astype(np.float32)}


@dataclass
class _Tuning:
    """A walk through a network that gives each layer its size."""

    blueprint: Blueprint
    random: np.random.Generator
    weights: Weights = field(default_factory=dict)
    done: Pass = field(default_factory=Pass)

    def __post_init__(self) -> None:
        self._nodes = {node.name: node for node in self.blueprint.nodes}
        self._readers: dict[str, list[Node]] = {name: [] for name in self._nodes}
        for node in self.blueprint.nodes:
            for name in node.inputs:
                self._readers[name].append(node)
        self._heads = {head.node for head in self.blueprint.heads}

    def tune(self, node: Node, images: Images) -> None:
        """Choose a node's weights, and compute what it gives."""
        inputs = [self.done.values[name] for name in node.inputs]
        match node.op:
            case Conv() | Dense():
                self._size_kernel(node, inputs[0])
            case Norm():
                self._size_norm(node, inputs[0])
            case ChannelNorm() | ChannelScale():
                self._size_channels(node)
            case Act(kind) if kind in KINKS:
                self._settle(node)
        self.done.values[node.name] = self._value(node, images)

    def _value(self, node: Node, images: Images) -> Array:
        if not node.inputs:
            return np.asarray(images, np.float64)
        kinds = node.op.weights(*self.blueprint.shapes_in(node))
        own = {kind: self.weights[f"{node.name}/{kind}"].astype(np.float64) for kind in kinds}
        inputs = [self.done.values[name] for name in node.inputs]
        if isinstance(node.op, Norm):
            own["mean"], own["variance"] = batch_statistics(inputs[0])
        return COMPUTE[type(node.op)](node.op, own, *inputs)

    def _size_kernel(self, node: Node, x: Array) -> None:
        kernel, bias = f"{node.name}/kernel", f"{node.name}/bias"
        plain = {"kernel": self.weights[kernel].astype(np.float64)}
        y = COMPUTE[type(node.op)](node.op, plain, x)
        size = self._wanted(node)
        factor = size / max(_deviation(y, whole=node.name in self._heads), 1e-30)
        self.weights[kernel] = (plain["kernel"] * factor).astype(np.float32)
        if bias in self.weights:
            share = self.random.uniform(-0.5, 0.5, self.weights[bias].shape)
            self.weights[bias] = (share * size).astype(np.float32)

    def _size_norm(self, node: Node, x: Array) -> None:
        names = {kind: f"{node.name}/{kind}" for kind in node.op.weights(x.shape[1:])}
        size = self._wanted(node) if "scale" in names else SMOOTH
        shape = self.weights[names["offset"]].shape
        offset = self.random.uniform(0.4, 0.8, shape) * size
        if "scale" in names:
            drawn = self.random.uniform(0.8, 1.2, shape) * size
            self.weights[names["scale"]] = drawn.astype(np.float32)
        mean, variance = batch_statistics(x)
        # Near those of the batch, so that in use the network is as well conditioned; not at them.
        mean = mean + np.sqrt(variance) * self.random.uniform(0.3, 0.6, shape)
        variance = variance * self.random.uniform(1.1, 1.4, shape) + 1e-30
        others = {"offset": offset, "mean": mean, "variance": variance}
        self.weights |= {names[kind]: value.astype(np.float32) for kind, value in others.items()}

    def _size_channels(self, node: Node) -> None:
        size = self._wanted(node) if isinstance(node.op, ChannelNorm) else 1.0
        for kind, low, high in (("scale", 0.8, 1.2), ("gain", 0.8, 1.2), ("offset", -0.5, 0.5)):
            if (name := f"{node.name}/{kind}") in self.weights:
                drawn = self.random.uniform(low, high, self.weights[name].shape) * size
                self.weights[name] = drawn.astype(np.float32)

    def _wanted(self, node: Node) -> float:
        """The deviation at which what reads a node does something."""
        if node.name in self._heads:
            return SCORES
        factor, waiting = 1.0, list(self._readers[node.name])
        for reader in waiting:
            match reader.op:
                case Norm(eps) | ChannelNorm(eps):
                    return math.sqrt(EPSILONS * eps) * factor
                case Act(kind):
                    felt = self._response_norm(reader)
                    if felt:
                        return felt * factor
                    return (ACTIVE if kind in KINKS else SMOOTH) * factor
                case LRN() as op:
                    return _felt(op) * factor
                case Scale(share):
                    factor /= share
            if isinstance(reader.op, PASS):
                waiting += self._readers[reader.name]
        return SMOOTH

    def _response_norm(self, act: Node) -> float | None:
        """The size at which a response norm behind an activation does something, if one is."""
        waiting = list(self._readers[act.name])
        for reader in waiting:
            if isinstance(reader.op, LRN):
                return _felt(reader.op)
            if isinstance(reader.op, Pool | Dropout | Concat):
                waiting += self._readers[reader.name]
        return None

    def _settle(self, act: Node) -> None:
        """Move each channel until the kinks lie in wide gaps between its values."""
        path = self._path(act.inputs[0], {act.name})
        if not path:
            return
        (owner, weight, _), *_ = path
        x = self.done.values[act.inputs[0]]
        columns = np.sort(x.reshape(-1, x.shape[-1]), axis=0)
        assert isinstance(act.op, Act)
        kinks = np.array(KINKS[act.op.kind])
        readers = self._readers[act.name]
        pooled = any(isinstance(r.op, Pool) and r.op.kind == "max" for r in readers)
        shifts = np.array(
            [
                _shift(column, kinks, _centre(column, number, pooled=pooled), self.random)
                for number, column in enumerate(columns.T)
            ]
        )
        name = f"{owner}/{weight}"
        before = self.weights[name]
        self.weights[name] = (before + shifts / path[-1][2]).astype(np.float32)
        moved = self.weights[name].astype(np.float64) - before
        for node, _, factor in path:
            self.done.values[node] = self.done.values[node] + factor * moved

    def _path(self, name: str, known: set[str]) -> list[tuple[str, str, float]]:
        """From the layer that can move a node's channels to that node, with what it is moved by."""
        node = self._nodes[name]
        if any(r.name in self.done.values and r.name not in known for r in self._readers[name]):
            return []
        match node.op:
            case Norm() | ChannelNorm():
                return [(name, "offset", 1.0)]
            case Conv() | Dense() if f"{name}/bias" in self.weights:
                return [(name, "bias", 1.0)]
            case Add() | Dropout() | Scale():
                factor = node.op.factor if isinstance(node.op, Scale) else 1.0
                for source in node.inputs:
                    path = self._path(source, known | {name})
                    if path and node.inputs.count(source) == 1:
                        return [*path, (name, "", path[-1][2] * factor)]
        return []


def _felt(op: LRN) -> float:
    """The size of values whose squares, summed and weighted, are as large as the constant."""
    return math.sqrt(op.bias / (op.alpha * (2 * op.radius + 1)))


def _deviation(y: Array, *, whole: bool) -> float:
    if whole:
        return float(y.std())
    return float(np.sqrt(y.var(axis=tuple(range(y.ndim - 1))).mean()))


def _centre(column: Array, number: int, *, pooled: bool) -> float:
    """Where a channel's mean should be: near 0, or near 6 in every other one that is too narrow.

    A maximum hides all but the largest value, so before one every other channel is mostly below 0.
    """
    deviation = float(column.std())
    if pooled and number % 2:
        return -deviation
    reaches = (CENTRE + 2) * deviation > SATURATED
    return CENTRE * deviation if reaches or number % 2 == 0 else SATURATED - CENTRE * deviation


def _shift(column: Array, kinks: Any, centre: float, random: np.random.Generator) -> float:
    """What moves sorted values so that no kink is near one and their mean is as wanted."""
    deviation = float(column.std())
    wanted = centre - float(column.mean())
    if deviation == 0 or len(column) < 2:
        return 0.0
    middles, gaps = (column[1:] + column[:-1]) / 2, np.diff(column)
    near = np.abs(kinks[0] - middles - wanted) < deviation * random.uniform(0.4, 0.6)
    chosen = np.flatnonzero(near)
    if not len(chosen):
        return wanted
    widest = chosen[np.argsort(gaps[chosen])[-GAPS:]]
    tried = kinks[0] - middles[widest]
    places = kinks[None, :] - tried[:, None]
    right = np.clip(np.searchsorted(column, places), 1, len(column) - 1)
    margin = np.minimum(np.abs(column[right] - places), np.abs(column[right - 1] - places))
    return float(tried[margin.min(axis=1).argmax()])


def margins(blueprint: Blueprint, exact: Pass, rounded: Pass) -> dict[str, float]:
    """How near a value is to each kink, in roundings: of activations, and of contested maxima."""
    found = {}
    for node in blueprint.nodes:
        if not node.inputs:
            continue
        x = exact.values[node.inputs[0]]
        off = float(np.abs(rounded.values[node.inputs[0]] - x).max())
        if isinstance(node.op, Act) and node.op.kind in KINKS:
            found[node.name] = _nearest(x, KINKS[node.op.kind]) / max(off, 1e-30)
        elif isinstance(node.op, Pool) and node.op.kind == "max":
            found[node.name] = _contest(node.op, x) / max(off, 1e-30)
    return found


def _nearest(x: Array, kinks: tuple[float, ...]) -> float:
    """The smallest distance to a kink; what is exactly there, as behind a ReLU, is in no doubt."""
    away = np.concatenate([np.abs(x - kink).ravel() for kink in kinks])
    away = away[away > 0]
    return float(away.min()) if away.size else math.inf


def _contest(op: Pool, x: Array) -> float:
    """The smallest lead of a window's maximum; equal values, as of a ReLU, share one slope of 0."""
    windows = pool_windows(op, x, -np.inf)
    flat = windows.reshape(*windows.shape[:4], -1)
    if flat.shape[-1] < 2:
        return math.inf
    top = np.partition(flat, -2, axis=-1)[..., -2:]
    lead = top[..., 1] - top[..., 0]
    lead = lead[(lead > 0) & np.isfinite(lead)]
    return float(lead.min()) if lead.size else math.inf

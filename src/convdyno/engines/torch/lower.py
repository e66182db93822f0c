"""A blueprint as a generated torch.fx module: straight-line code, written once, then only run."""

from __future__ import annotations

import operator
import re
from collections import Counter
from collections.abc import Callable
from functools import reduce
from typing import Any

import torch
from torch import fx, nn
from torch.nn import functional as F

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
    Pair,
    Pool,
    Scale,
    Shape,
    Shuffle,
    Slice,
    Widen,
)
from convdyno.engines.contract import Walk
from convdyno.engines.torch.weight_layout import folds

FRESH = (
    Conv, Norm, Dense, Add, Concat, Pool, LRN, Scale, Widen, Mean, ChannelGate, ChannelNorm,
    ChannelScale, Shuffle,
)  # fmt: skip
"""Ops whose output is memory of its own that their backward pass does not read again."""
ONEDNN_BLOCK = 16
"""float32 channels in one AVX-512 register."""


def owners(blueprint: Blueprint, device: torch.device) -> dict[str, nn.Module]:
    """The modules that own weights, by the name of their node; not initialised."""
    with torch.device("meta"):
        found = {
            node.name: OWN[type(node.op)](node.op, blueprint.shapes_in(node)[0])
            for node in blueprint.nodes
            if type(node.op) in OWN
        }
    for module in found.values():
        # As `to_empty` does it, but that imports sympy to know the shape of a tensor.
        module._apply(lambda t: torch.empty(t.shape, dtype=t.dtype, device=device))
        for constant in module.parameters():
            if not constant.requires_grad:
                constant.fill_(1)
    return found


def lower(
    blueprint: Blueprint,
    modules: dict[str, nn.Module],
    *,
    training: bool,
    nhwc: bool,
    half: torch.dtype | None = None,
    smoothing: float = 0.0,
) -> fx.GraphModule:
    """In training form `(images, labels) -> loss`, else `images -> logits`, both in float32."""
    walk = _Walk(blueprint, modules, training=training, nhwc=nhwc, half=half)
    values = walk.values(LOWER)
    scores = [values[head.node] for head in blueprint.heads]
    if half is not None:
        scores = [walk.graph.call_method("float", (score,)) for score in scores]
    if training:
        smooth = {"label_smoothing": smoothing} if smoothing else {}
        losses = [walk.call(F.cross_entropy, score, walk.labels, **smooth) for score in scores]
        shares = [
            loss if head.weight == 1 else walk.call(operator.mul, loss, head.weight)
            for loss, head in zip(losses, blueprint.heads, strict=True)
        ]
        walk.graph.output(reduce(lambda a, b: walk.call(operator.add, a, b), shares))
    else:
        walk.graph.output(scores[0])
    walk.graph.lint()
    return fx.GraphModule(walk.attributes, walk.graph, class_name="Network").train(training)


class _Walk(Walk):
    """A blueprint on its way into an fx graph."""

    def __init__(
        self,
        blueprint: Blueprint,
        modules: dict[str, nn.Module],
        *,
        training: bool,
        nhwc: bool,
        half: torch.dtype | None,
    ) -> None:
        self.blueprint, self.modules = blueprint, modules
        self.training, self.half = training, half
        self.folds = {} if nhwc else folds(blueprint)
        self.attributes: dict[str, nn.Module | torch.Tensor] = {}
        self.graph = fx.Graph()
        self.images = self.graph.placeholder("images")
        if training:
            self.labels = self.graph.placeholder("labels")
        self._ops = {node.name: node.op for node in blueprint.nodes}
        self._readers = Counter(name for node in blueprint.nodes for name in node.inputs)
        self._readers.update(head.node for head in blueprint.heads)

    def may_overwrite(self, index: int = 0) -> bool:
        """Whether nobody misses an input once the present node has written over it."""
        name = self.node.inputs[index]
        return isinstance(self._ops[name], FRESH) and self._readers[name] == 1

    def keep(self, value: nn.Module | torch.Tensor) -> str:
        """Give the present node's module or constant a name that Python accepts."""
        target = f"n{len(self.attributes)}_{re.sub(r'[^0-9A-Za-z]', '_', self.node.name)}"
        self.attributes[target] = value
        return target

    def call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> fx.Node:
        return self.graph.call_function(function, args, kwargs)

    def method(self, name: str, *args: Any) -> fx.Node:
        return self.graph.call_method(name, args)

    def module(self, op: Op, x: fx.Node) -> fx.Node:
        return self.graph.call_module(self.keep(self.modules[self.node.name]), (x,))


def _own_conv(op: Conv, shape: Shape) -> nn.Module:
    padding = _symmetric(op, shape) or (0, 0)
    stride = (1, 1) if _thins_out(op, shape) else op.stride
    return nn.Conv2d(shape[2], op.out, op.kernel, stride, padding, groups=op.groups, bias=op.bias)


def _own_norm(op: Norm, shape: Shape) -> nn.Module:
    kind = nn.BatchNorm2d if len(shape) == 3 else nn.BatchNorm1d
    norm = kind(shape[-1], eps=op.eps, momentum=1 - op.decay)
    # A count of batches that nothing reads would cost one small kernel a step.
    norm.num_batches_tracked = None
    if not op.scale:
        # cuDNN's batch norm wants a scale; this one stays at 1.
        norm.weight.requires_grad_(False)
    return norm


class PositionNorm(nn.LayerNorm):
    """Layer norm of channels that are axis 1: where they are last in memory, nothing is moved."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The same values, each position's with mean 0 and deviation 1, scaled and moved."""
        # Only a CPU takes half precision together with weights in float32.
        y = super().forward((x if x.is_cpu else x.float()).movedim(1, -1))
        return y.movedim(-1, 1).to(x.dtype)


class ChannelGains(nn.Module):
    """A factor for each channel."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Each channel times its factor."""
        return x * self.weight.to(x.dtype).reshape(-1, *[1] * (x.ndim - 2))


OWN: dict[type[Op], Callable[..., nn.Module]] = {
    Conv: _own_conv,
    Norm: _own_norm,
    ChannelNorm: lambda op, shape: PositionNorm(shape[-1], eps=op.eps),
    ChannelScale: lambda op, shape: ChannelGains(shape[-1]),
    Dense: lambda op, shape: nn.Linear(shape[0], op.out, bias=op.bias),
}


def _conv(walk: _Walk, op: Conv, x: fx.Node) -> fx.Node:
    if _symmetric(op, walk.shape) is None:
        x = _pad(walk, op, x, 0.0)
    elif _thins_out(op, walk.shape):
        rows, columns = (slice(None, None, step) for step in op.stride)
        x = walk.call(operator.getitem, x, (slice(None), slice(None), rows, columns))
    return walk.module(op, x)


def _act(walk: _Walk, op: Act, x: fx.Node) -> fx.Node:
    free = walk.may_overwrite()
    match op.kind:
        case "relu":
            return walk.call(F.relu, x, inplace=free)
        case "relu6":
            return walk.call(F.relu6, x, inplace=free)
        case "leaky":
            # In place, torch reads the sign off the output.
            return walk.call(F.leaky_relu, x, op.slope, inplace=free and op.slope > 0)
        case "tanh":
            return walk.call(torch.tanh, x)
        case "sigmoid":
            return walk.call(torch.sigmoid, x)
        case "gelu" | "gelu-tanh":
            return walk.call(F.gelu, x, approximate="tanh" if op.kind == "gelu-tanh" else "none")
    # Their gradients need what they have read: in training torch would copy it.
    return walk.call(SMOOTH[op.kind], x, inplace=free and not walk.training)


SMOOTH = {"silu": F.silu, "hardswish": F.hardswish, "hardsigmoid": F.hardsigmoid}


def _gate(walk: _Walk, op: ChannelGate, x: fx.Node, vector: fx.Node) -> fx.Node:
    whole = slice(None)
    vector = walk.call(operator.getitem, vector, (whole, whole, None, None))
    return walk.method("mul", x, vector)


def _slice(walk: _Walk, op: Slice, x: fx.Node) -> fx.Node:
    return walk.call(torch.narrow, x, 1, op.first, op.count)


def _pool(walk: _Walk, op: Pool, x: fx.Node) -> fx.Node:
    padding, ceil = _symmetric(op, walk.shape), False
    if padding is None and not op.count_pad:
        padding, ceil = _hanging(op, walk.shape), True
    if op.kind == "max":
        if padding is None:
            x, padding, ceil = _pad(walk, op, x, -float("inf")), (0, 0), False
        return walk.call(torch.max_pool2d, x, op.kernel, op.stride, padding, (1, 1), ceil)
    if padding is not None:
        return walk.call(F.avg_pool2d, x, op.kernel, op.stride, padding, ceil, op.count_pad)
    average = walk.call(F.avg_pool2d, _pad(walk, op, x, 0.0), op.kernel, op.stride)
    if op.count_pad:
        return average
    share = walk.keep(_padded_share(op, walk.shape).to(walk.half or torch.float32))
    return walk.method("mul_", average, walk.graph.get_attr(share))


def _flatten(walk: _Walk, op: Flatten, x: fx.Node) -> fx.Node:
    if len(walk.shape) == 1:
        return x
    if walk.node.name not in walk.folds:
        # A view where memory is channels-last; elsewhere a copy, but nothing else is right.
        x = walk.method("permute", x, 0, 2, 3, 1)
    return walk.method("flatten", x, 1)


def _add(walk: _Walk, op: Add, *xs: fx.Node) -> fx.Node:
    first = next((i for i in range(len(xs)) if walk.may_overwrite(i)), None)
    total, others = xs[first or 0], [x for i, x in enumerate(xs) if i != (first or 0)]
    for n, x in enumerate(others):
        total = walk.method("add" if first is None and n == 0 else "add_", total, x)
    return total


def _scale(walk: _Walk, op: Scale, x: fx.Node) -> fx.Node:
    return walk.method("mul_" if walk.may_overwrite() else "mul", x, op.factor)


def _dropout(walk: _Walk, op: Dropout, x: fx.Node) -> fx.Node:
    return walk.call(F.dropout, x, op.rate) if walk.training and op.rate else x


def _lrn(walk: _Walk, op: LRN, x: fx.Node) -> fx.Node:
    size = 2 * op.radius + 1
    if walk.half:
        # Sums of squares are statistics, and torch has no half-precision kernel for them on a CPU.
        x = walk.method("float", x)
    # torch divides alpha by the size.
    x = walk.call(F.local_response_norm, x, size, op.alpha * size, op.beta, op.bias)
    return walk.method("to", x, walk.half) if walk.half else x


LOWER: dict[type[Op], Callable[..., fx.Node]] = {
    Input: lambda walk, op: walk.images,
    Conv: _conv,
    Norm: _Walk.module,
    Dense: _Walk.module,
    Act: _act,
    Pool: _pool,
    Mean: lambda walk, op, x: walk.call(torch.mean, x, (2, 3)),
    Flatten: _flatten,
    Dropout: _dropout,
    Add: _add,
    Concat: lambda walk, op, *xs: walk.call(torch.cat, xs, 1),
    Scale: _scale,
    LRN: _lrn,
    Widen: lambda walk, op, x: walk.call(F.pad, x, (0, 0, 0, 0, op.before, op.after)),
    ChannelGate: _gate,
    ChannelNorm: _Walk.module,
    ChannelScale: _Walk.module,
    Slice: _slice,
    Shuffle: lambda walk, op, x: walk.call(torch.channel_shuffle, x, op.groups),
}


def _pad(walk: _Walk, op: Conv | Pool, x: fx.Node, value: float) -> fx.Node:
    top, bottom, left, right = op.pad
    return walk.call(F.pad, x, (left, right, top, bottom), value=value)


def _thins_out(op: Conv, shape: Shape) -> bool:
    """Whether the pixels that a strided 1x1 convolution skips are to be left out beforehand.

    oneDNN 3.12 writes out of bounds in its backward pass if there are fewer channels than a vector
    holds (https://github.com/uxlfoundation/oneDNN/issues/6035): wrong gradients or a crash.
    """
    strided = op.kernel == (1, 1) and op.stride != (1, 1) and op.pad == (0, 0, 0, 0)
    return strided and shape[2] // op.groups < ONEDNN_BLOCK


def _symmetric(op: Conv | Pool, shape: Shape) -> Pair | None:
    """The padding by which torch's own op has the same windows, if there is one.

    The windows start at the top left; padding beyond the last of them makes no difference.
    """
    pad = op.pad[0], op.pad[2]
    if isinstance(op, Pool) and not _poolable(op, pad):
        return None
    out = [
        (n + 2 * p - k) // s + 1
        for n, p, k, s in zip(shape, pad, op.kernel, op.stride, strict=False)
    ]
    return pad if tuple(out) == op.shape(shape)[:2] else None


def _hanging(op: Pool, shape: Shape) -> Pair | None:
    """The padding by which torch's `ceil_mode` has the same windows, if there is one."""
    pad = op.pad[0], op.pad[2]
    out = []
    for n, p, k, s in zip(shape, pad, op.kernel, op.stride, strict=False):
        count = -(-(n + 2 * p - k) // s) + 1
        out.append(count - ((count - 1) * s >= n + p))
    return pad if _poolable(op, pad) and tuple(out) == op.shape(shape)[:2] else None


def _poolable(op: Pool, pad: Pair) -> bool:
    return all(2 * p <= k for p, k in zip(pad, op.kernel, strict=True))


def _padded_share(op: Pool, shape: Shape) -> torch.Tensor:
    """For each window: all its cells / those that are not padding, as (1, 1, rows, columns)."""
    top, bottom, left, right = op.pad
    cells = F.pad(torch.ones(1, 1, *shape[:2]), (left, right, top, bottom))
    return 1 / F.avg_pool2d(cells, op.kernel, op.stride)

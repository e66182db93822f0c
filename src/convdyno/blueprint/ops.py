"""The closed set of ops: what each makes of a shape, which weights it owns, what it costs.

A shape is `(height, width, channels)` for an image and `(features,)` for a vector; the batch is
never part of it. Kernels are stored as (height, width, in / groups, out), dense ones as (in, out).
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, fields
from functools import cache
from typing import ClassVar, Literal, get_args, get_type_hints

Shape = tuple[int, ...]
Pair = tuple[int, int]
Quad = tuple[int, int, int, int]
"""Padding: top, bottom, left, right."""

ActKind = Literal[
    "relu", "relu6", "leaky", "tanh", "sigmoid",
    "silu", "hardswish", "hardsigmoid", "gelu", "gelu-tanh",
]  # fmt: skip
PoolKind = Literal["max", "average"]

STATE = frozenset({"mean", "variance"})
"""Weights that are averaged over batches, not trained."""


class Op:
    """One row of rules; the defaults suit an op that has no weights and keeps its input's shape."""

    __slots__ = ()
    arity: ClassVar[tuple[int, int | None]] = (1, 1)

    def shape(self, *inputs: Shape) -> Shape:
        """The shape of the output."""
        return inputs[0]

    def weights(self, *inputs: Shape) -> dict[str, Shape]:
        """The shape of each weight that the op owns."""
        return {}

    def macs(self, *inputs: Shape) -> int:
        """Multiply-accumulates of one image's forward pass; convolutions and dense layers count."""
        return 0


@dataclass(frozen=True, slots=True)
class Input(Op):
    """The image batch."""

    height: int
    width: int
    channels: int
    arity = (0, 0)

    def __post_init__(self) -> None:
        _positive(self, "height", "width", "channels")

    def shape(self, *inputs: Shape) -> Shape:
        return self.height, self.width, self.channels


@dataclass(frozen=True, slots=True)
class Conv(Op):
    """A two-dimensional cross-correlation with zero padding."""

    out: int
    kernel: Pair
    stride: Pair = (1, 1)
    pad: Quad = (0, 0, 0, 0)
    groups: int = 1
    bias: bool = False

    def __post_init__(self) -> None:
        _positive(self, "out", "kernel", "stride", "groups")
        _padding(self)

    def shape(self, *inputs: Shape) -> Shape:
        h, w, c = _image(inputs[0])
        if c % self.groups or self.out % self.groups:
            raise ValueError(f"{c} -> {self.out} channels do not divide into {self.groups} groups")
        return *_window((h, w), self.kernel, self.stride, self.pad), self.out

    def weights(self, *inputs: Shape) -> dict[str, Shape]:
        kernel = (*self.kernel, inputs[0][2] // self.groups, self.out)
        return {"kernel": kernel} | ({"bias": (self.out,)} if self.bias else {})

    def macs(self, *inputs: Shape) -> int:
        h, w, _ = self.shape(*inputs)
        return h * w * math.prod(self.weights(*inputs)["kernel"])


@dataclass(frozen=True, slots=True)
class Norm(Op):
    """Batch normalisation over all but the channels; `decay` is the fraction of a running
    statistic that one training step keeps, and the running variance is the population variance."""

    eps: float = 1e-5
    decay: float = 0.9
    scale: bool = True

    def __post_init__(self) -> None:
        if not self.eps > 0 or not 0 <= self.decay < 1:
            raise ValueError(f"eps {self.eps} must be positive and decay {self.decay} in [0, 1)")

    def weights(self, *inputs: Shape) -> dict[str, Shape]:
        names = ("scale", "offset", "mean", "variance")
        return dict.fromkeys(names if self.scale else names[1:], inputs[0][-1:])


@dataclass(frozen=True, slots=True)
class Act(Op):
    """An elementwise non-linearity; `slope` is the leaky one's for negative values.

    silu x sigmoid(x), hardsigmoid relu6(x + 3) / 6, hardswish x hardsigmoid(x), gelu x times the
    normal distribution's share below x, gelu-tanh its approximation by
    x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))).
    """

    kind: ActKind = "relu"
    slope: float = 0.0


@dataclass(frozen=True, slots=True)
class Pool(Op):
    """A sliding maximum or average; with `count_pad` an average divides by padded cells too."""

    kind: PoolKind
    kernel: Pair
    stride: Pair
    pad: Quad = (0, 0, 0, 0)
    count_pad: bool = False

    def __post_init__(self) -> None:
        _positive(self, "kernel", "stride")
        _padding(self)
        top, bottom, left, right = self.pad
        if max(top, bottom) >= self.kernel[0] or max(left, right) >= self.kernel[1]:
            raise ValueError(
                f"padding {self.pad} leaves windows of {self.kernel} with nothing in them"
            )

    def shape(self, *inputs: Shape) -> Shape:
        h, w, c = _image(inputs[0])
        return *_window((h, w), self.kernel, self.stride, self.pad), c


@dataclass(frozen=True, slots=True)
class Mean(Op):
    """The average over all positions: an image becomes a vector."""

    def shape(self, *inputs: Shape) -> Shape:
        return _image(inputs[0])[2:]


@dataclass(frozen=True, slots=True)
class Flatten(Op):
    """All values as one vector, in the order height, width, channels."""

    def shape(self, *inputs: Shape) -> Shape:
        return (math.prod(inputs[0]),)


@dataclass(frozen=True, slots=True)
class Dense(Op):
    """A fully connected layer on a vector."""

    out: int
    bias: bool = True

    def __post_init__(self) -> None:
        _positive(self, "out")

    def shape(self, *inputs: Shape) -> Shape:
        if len(inputs[0]) != 1:
            raise ValueError(
                f"a dense layer takes a vector, not the shape {inputs[0]}: flatten it first"
            )
        return (self.out,)

    def weights(self, *inputs: Shape) -> dict[str, Shape]:
        return {"kernel": (inputs[0][0], self.out)} | ({"bias": (self.out,)} if self.bias else {})

    def macs(self, *inputs: Shape) -> int:
        return inputs[0][0] * self.out


@dataclass(frozen=True, slots=True)
class Dropout(Op):
    """Zeroes a fraction `rate` of the values while training, and scales the rest up."""

    rate: float

    def __post_init__(self) -> None:
        if not 0 <= self.rate < 1:
            raise ValueError(f"the dropped fraction {self.rate} must be in [0, 1)")


@dataclass(frozen=True, slots=True)
class Add(Op):
    """The elementwise sum of inputs of one shape."""

    arity = (2, None)

    def shape(self, *inputs: Shape) -> Shape:
        if len(set(inputs)) != 1:
            raise ValueError(f"cannot add unlike shapes {', '.join(map(str, inputs))}")
        return inputs[0]


@dataclass(frozen=True, slots=True)
class Concat(Op):
    """Inputs side by side along the channels."""

    arity = (2, None)

    def shape(self, *inputs: Shape) -> Shape:
        if len({i[:-1] for i in inputs}) != 1:
            raise ValueError(f"cannot concatenate unlike shapes {', '.join(map(str, inputs))}")
        return *inputs[0][:-1], sum(i[-1] for i in inputs)


@dataclass(frozen=True, slots=True)
class Scale(Op):
    """A product with one constant."""

    factor: float


@dataclass(frozen=True, slots=True)
class LRN(Op):
    """Local response normalisation across channels: x / (bias + alpha * sum of squares)^beta,
    the sum over the channels within `radius`."""

    radius: int
    alpha: float
    beta: float
    bias: float = 1.0

    def __post_init__(self) -> None:
        _positive(self, "radius", "bias")

    def shape(self, *inputs: Shape) -> Shape:
        return _image(inputs[0])


@dataclass(frozen=True, slots=True)
class Widen(Op):
    """Zero channels put before and after (the parameter-free shortcut of the CIFAR ResNets)."""

    before: int
    after: int

    def __post_init__(self) -> None:
        if min(self.before, self.after) < 0:
            raise ValueError(f"cannot widen by {self.before} and {self.after} channels")

    def shape(self, *inputs: Shape) -> Shape:
        h, w, c = _image(inputs[0])
        return h, w, self.before + c + self.after


@dataclass(frozen=True, slots=True)
class ChannelGate(Op):
    """An image times a vector: each channel by the vector's value for it (squeeze-excite)."""

    arity = (2, 2)

    def shape(self, *inputs: Shape) -> Shape:
        image, vector = inputs
        if vector != _image(image)[2:]:
            raise ValueError(f"a gate takes an image and a vector of its channels, not {inputs}")
        return image


@dataclass(frozen=True, slots=True)
class ChannelNorm(Op):
    """Each position's channels less their mean and by their deviation (layer norm), times a scale
    and plus an offset for each channel; the same in training and in use."""

    eps: float = 1e-6

    def __post_init__(self) -> None:
        _positive(self, "eps")

    def weights(self, *inputs: Shape) -> dict[str, Shape]:
        return dict.fromkeys(("scale", "offset"), inputs[0][-1:])


@dataclass(frozen=True, slots=True)
class ChannelScale(Op):
    """A product with a weight for each channel, which starts at 1e-6 (ConvNeXt's layer scale)."""

    def weights(self, *inputs: Shape) -> dict[str, Shape]:
        return {"gain": inputs[0][-1:]}


@dataclass(frozen=True, slots=True)
class Slice(Op):
    """The channels from `first` on, `count` of them."""

    first: int
    count: int

    def __post_init__(self) -> None:
        _positive(self, "count")
        if self.first < 0:
            raise ValueError(f"first must not be negative: {self.first}")

    def shape(self, *inputs: Shape) -> Shape:
        channels = inputs[0][-1]
        if self.first + self.count > channels:
            raise ValueError(f"there are no {self.count} of {channels} channels from {self.first}")
        return *inputs[0][:-1], self.count


@dataclass(frozen=True, slots=True)
class Shuffle(Op):
    """Channels in another order: the first of each of so many groups, then the second of each."""

    groups: int

    def __post_init__(self) -> None:
        _positive(self, "groups")

    def shape(self, *inputs: Shape) -> Shape:
        if _image(inputs[0])[2] % self.groups:
            raise ValueError(f"{inputs[0][2]} channels do not divide into {self.groups} groups")
        return inputs[0]


OPS: dict[str, type[Op]] = {
    op.__name__: op
    for op in (
        Input,
        Conv,
        Norm,
        Act,
        Pool,
        Mean,
        Flatten,
        Dense,
        Dropout,
        Add,
        Concat,
        Scale,
        LRN,
        Widen,
        ChannelGate,
        ChannelNorm,
        ChannelScale,
        Slice,
        Shuffle,
    )
}


def op_to_data(op: Op) -> dict[str, object]:
    """An op as plain data, defaults included."""
    return {"op": type(op).__name__} | {f.name: getattr(op, f.name) for f in fields(op)}  # type: ignore[arg-type]


def op_from_data(data: dict[str, object]) -> Op:
    """The op that `op_to_data` described; ValueError says what is wrong with the description."""
    kind = data.get("op")
    if not isinstance(kind, str) or kind not in OPS:
        raise ValueError(f"unknown op {kind!r}; the ops are {', '.join(OPS)}")
    types = _field_types(kind)
    names = list(types)
    if unknown := data.keys() - {"op", *names}:
        raise ValueError(
            f"{kind} has no field {min(unknown)!r}; it has {', '.join(names) or 'none'}"
        )
    values = {n: _convert(f"{kind}.{n}", data[n], types[n]) for n in names if n in data}
    try:
        return OPS[kind](**values)
    except TypeError:
        missing = [n for n in names if n not in data]
        raise ValueError(f"{kind} lacks a field: one of {', '.join(missing)}") from None


@cache
def _field_types(kind: str) -> dict[str, object]:
    hints = get_type_hints(OPS[kind])
    return {field.name: hints[field.name] for field in fields(OPS[kind])}  # type: ignore[arg-type]


def _convert(field: str, value: object, wanted: object) -> object:
    """`value` as the field's type, if it is one without loss."""
    if wanted is float and isinstance(value, int | float) and not isinstance(value, bool):
        if abs(value) <= sys.float_info.max:  # neither infinite nor NaN, nor too large an integer
            return float(value)
    elif wanted in (int, bool) and type(value) is wanted:
        return value
    elif wanted in (Pair, Quad) and isinstance(value, list | tuple):
        if len(value) == len(get_args(wanted)):
            return tuple(_convert(field, v, int) for v in value)
    elif value in get_args(wanted):
        return value
    raise ValueError(f"{field} cannot be {value!r}")


def _window(size: Pair, kernel: Pair, stride: Pair, pad: Quad) -> Pair:
    padded = size[0] + pad[0] + pad[1], size[1] + pad[2] + pad[3]
    if padded[0] < kernel[0] or padded[1] < kernel[1]:
        raise ValueError(
            f"a {kernel[0]}x{kernel[1]} window does not fit an input of {size[0]}x{size[1]}: "
            "the image is too small"
        )
    return (padded[0] - kernel[0]) // stride[0] + 1, (padded[1] - kernel[1]) // stride[1] + 1


def _image(shape: Shape) -> tuple[int, int, int]:
    if len(shape) != 3:
        raise ValueError(f"an image is needed here, not the shape {shape}")
    return shape[0], shape[1], shape[2]


def _positive(op: Op, *names: str) -> None:
    for name in names:
        value = getattr(op, name)
        if min(value if isinstance(value, tuple) else (value,)) <= 0:
            raise ValueError(f"{name} must be positive, not {value}")


def _padding(op: Conv | Pool) -> None:
    if min(op.pad) < 0:
        raise ValueError(f"padding must not be negative: {op.pad}")

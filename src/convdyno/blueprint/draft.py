"""Writing a network down: a `Draft` collects nodes, a `Value` is one node's output, ready to go on.

    net = Draft("tiny", image=(32, 32, 3))
    x = net.image.conv_norm_relu(16, 3, pad=1)
    return x.mean().logits(10).done()

Nothing of the convenience survives: paddings become four integers, names become plain strings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, TypeVar

from convdyno.blueprint.graph import Blueprint, Head, Init, Node
from convdyno.blueprint.ops import (
    LRN,
    Act,
    ActKind,
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
    PoolKind,
    Quad,
    Scale,
    Shape,
    Shuffle,
    Slice,
    Widen,
)
from convdyno.errors import BadBlueprint

AnOp = TypeVar("AnOp", bound=Op)
Size = int | Pair
Padding = int | Pair | Quad | Literal["same"]
"""One number for all sides, (vertical, horizontal), (top, bottom, left, right), or "same":
as many cells as make the output ceil(input / stride), the odd one at the bottom and right."""


class Draft:
    """A network being written; `width` multiplies every channel count, to make it small."""

    def __init__(self, name: str, image: Shape, width: float = 1.0, init: Init = "he") -> None:
        self.name = name
        self.width = width
        self.init: Init = init
        self.norm = Norm()
        """The batch norm that `Value.norm` places; a family may set its own."""
        self._nodes: list[Node] = []
        self._scope: list[str] = []
        self._used: dict[str, int] = {}
        self.image = self.add(self.op(Input, *image), name="image")

    @contextmanager
    def scope(self, name: str) -> Iterator[None]:
        """Put `name/` before the names of the nodes that are added inside."""
        self._scope.append(name)
        try:
            yield
        finally:
            self._scope.pop()

    def channels(self, count: int, groups: int = 1) -> int:
        """A channel count at this draft's width, at least one and a multiple of `groups`."""
        return max(1, round(count * self.width / groups)) * groups

    def op(self, kind: Callable[..., AnOp], *fields: object) -> AnOp:
        """An op, if there can be one with these fields."""
        try:
            return kind(*fields)
        except ValueError as wrong:
            after = f" after {self._nodes[-1].name!r}" if self._nodes else ""
            raise BadBlueprint(f"{self.name}: {kind.__name__}{after}: {wrong}") from None

    def add(self, op: Op, *inputs: Value, name: str | None = None) -> Value:
        """Add any op; without a name it is called after its kind and its number in the scope."""
        prefix = "".join(f"{part}/" for part in self._scope)
        if name is None:
            kind = prefix + type(op).__name__.lower()
            self._used[kind] = self._used.get(kind, 0) + 1
            name = f"{type(op).__name__.lower()}{self._used[kind]}"
        node = Node(prefix + name, op, tuple(value.name for value in inputs))
        try:
            shape = op.shape(*(value.shape for value in inputs))
        except ValueError as wrong:
            raise BadBlueprint(
                f"{self.name}: node {node.name!r} ({type(op).__name__}): {wrong}"
            ) from None
        self._nodes.append(node)
        return Value(self, node.name, shape)

    def done(self, answer: Value, *auxiliary: tuple[Value, float]) -> Blueprint:
        """The finished network; auxiliary heads come with their share in the loss."""
        heads = (Head(answer.name), *(Head(value.name, weight) for value, weight in auxiliary))
        return Blueprint(self.name, tuple(self._nodes), heads, self.init)


@dataclass(frozen=True, slots=True)
class Value:
    """The output of a node: what the next op is written on."""

    draft: Draft
    name: str
    shape: Shape

    @property
    def channels(self) -> int:
        """How many channels (or features) there are."""
        return self.shape[-1]

    @property
    def size(self) -> Pair:
        """Height and width; a vector has none."""
        if len(self.shape) != 3:
            raise BadBlueprint(
                f"{self.draft.name}: an image is needed after {self.name!r}, "
                f"not the shape {self.shape}"
            )
        return self.shape[0], self.shape[1]

    def then(self, op: Op, *others: Value, name: str | None = None) -> Value:
        """Any op on this value (and others)."""
        return self.draft.add(op, self, *others, name=name)

    def conv(
        self,
        out: int,
        kernel: Size,
        stride: Size = 1,
        pad: Padding = 0,
        *,
        groups: int = 1,
        bias: bool = False,
        exact: bool = False,
        name: str | None = None,
    ) -> Value:
        """A convolution to `out` channels; `exact` keeps that number whatever the draft's width."""
        if not exact:
            groups = self.draft.channels(groups) if groups > 1 else 1
            out = self.draft.channels(out, groups)
        window, step = _pair(kernel), _pair(stride)
        padding = _quad(pad, self.size, window, step)
        op = self.draft.op(Conv, out, window, step, padding, groups, bias)
        return self.then(op, name=name)

    def norm(self, name: str | None = None) -> Value:
        """Batch normalisation, as the draft has it."""
        return self.then(self.draft.norm, name=name)

    def act(self, kind: ActKind, slope: float = 0.0) -> Value:
        """An elementwise non-linearity."""
        return self.then(Act(kind, slope))

    def relu(self) -> Value:
        """The positive part."""
        return self.act("relu")

    def conv_norm(
        self, out: int, kernel: Size, stride: Size = 1, pad: Padding = 0, *, groups: int = 1
    ) -> Value:
        """Convolution and batch norm."""
        return self.conv(out, kernel, stride, pad, groups=groups).norm()

    def conv_norm_relu(
        self, out: int, kernel: Size, stride: Size = 1, pad: Padding = 0, *, groups: int = 1
    ) -> Value:
        """Convolution, batch norm and ReLU: the brick of most networks."""
        return self.conv_norm(out, kernel, stride, pad, groups=groups).relu()

    def conv_relu(self, out: int, kernel: Size, stride: Size = 1, pad: Padding = 0) -> Value:
        """Convolution with bias and ReLU: the brick of the networks before batch norm."""
        return self.conv(out, kernel, stride, pad, bias=True).relu()

    def max_pool(
        self, kernel: Size, stride: Size, pad: Padding = 0, *, ceil: bool = False
    ) -> Value:
        """The sliding maximum; `ceil` lets the last window hang over the edge."""
        return self._pool("max", kernel, stride, pad, ceil, count_pad=False)

    def avg_pool(
        self,
        kernel: Size,
        stride: Size,
        pad: Padding = 0,
        *,
        ceil: bool = False,
        count_pad: bool = False,
    ) -> Value:
        """The sliding average; `count_pad` divides by the padded cells too."""
        return self._pool("average", kernel, stride, pad, ceil, count_pad)

    def mean(self) -> Value:
        """The average over all positions."""
        return self.then(Mean())

    def flatten(self) -> Value:
        """All values as one vector."""
        return self.then(Flatten())

    def dense(self, out: int, *, bias: bool = True, name: str | None = None) -> Value:
        """A fully connected layer of `out` features, at the draft's width."""
        return self.then(self.draft.op(Dense, self.draft.channels(out), bias), name=name)

    def logits(self, classes: int, name: str = "logits") -> Value:
        """The last dense layer: one score for each class, whatever the width."""
        return self.then(self.draft.op(Dense, classes), name=name)

    def dropout(self, rate: float) -> Value:
        """Zero a fraction of the values while training."""
        return self.then(self.draft.op(Dropout, rate)) if rate else self

    def scale(self, factor: float) -> Value:
        """A product with a constant."""
        return self.then(Scale(factor))

    def lrn(self, radius: int, alpha: float, beta: float, bias: float = 1.0) -> Value:
        """Local response normalisation across channels."""
        return self.then(self.draft.op(LRN, radius, alpha, beta, bias))

    def widen(self, before: int, after: int) -> Value:
        """Zero channels before and after."""
        return self.then(self.draft.op(Widen, before, after))

    def gate(self, vector: Value) -> Value:
        """Each channel times a vector's value for it."""
        return self.then(ChannelGate(), vector)

    def squeeze_excite(self, middle: int, inner: ActKind, outer: ActKind) -> Value:
        """Each channel times what two dense layers make of all channels' means.

        `middle` is how many features are between them, whatever the draft's width.
        """
        with self.draft.scope("gate"):
            x = self.mean().then(self.draft.op(Dense, middle)).act(inner)
            return self.gate(x.then(Dense(self.channels)).act(outer))

    def channel_norm(self, eps: float = 1e-6, name: str | None = None) -> Value:
        """Layer normalisation: each position over its channels."""
        return self.then(self.draft.op(ChannelNorm, eps), name=name)

    def channel_scale(self, name: str | None = None) -> Value:
        """A product with a weight for each channel."""
        return self.then(ChannelScale(), name=name)

    def split(self) -> tuple[Value, Value]:
        """The first half of the channels, and the rest."""
        half = self.channels // 2
        parts = ((0, half), (half, self.channels - half))
        one, other = (self.then(self.draft.op(Slice, *part)) for part in parts)
        return one, other

    def shuffle(self, groups: int) -> Value:
        """Channels in another order: the first of each group, then the second of each."""
        return self.then(self.draft.op(Shuffle, groups))

    def concat(self, *others: Value) -> Value:
        """This and others side by side along the channels."""
        return self.then(Concat(), *others)

    def __add__(self, other: Value) -> Value:
        return self.then(Add(), other)

    def done(self, *auxiliary: tuple[Value, float]) -> Blueprint:
        """The finished network with this as its answer."""
        return self.draft.done(self, *auxiliary)

    def _pool(
        self, kind: PoolKind, kernel: Size, stride: Size, pad: Padding, ceil: bool, count_pad: bool
    ) -> Value:
        window, step = _pair(kernel), _pair(stride)
        height, width = self.size
        top, bottom, left, right = _quad(pad, self.size, window, step)
        if ceil:
            bottom += _overhang(height + top + bottom, window[0], step[0], height + top)
            right += _overhang(width + left + right, window[1], step[1], width + left)
        padding = (top, bottom, left, right)
        return self.then(self.draft.op(Pool, kind, window, step, padding, count_pad))


def _pair(size: Size) -> Pair:
    return (size, size) if isinstance(size, int) else size


def _quad(pad: Padding, size: Pair, kernel: Pair, stride: Pair) -> Quad:
    match pad:
        case "same":
            (top, bottom), (left, right) = (
                _same(*args) for args in zip(size, kernel, stride, strict=True)
            )
            return top, bottom, left, right
        case int():
            return pad, pad, pad, pad
        case (vertical, horizontal):
            return vertical, vertical, horizontal, horizontal
    return pad


def _same(size: int, kernel: int, stride: int) -> Pair:
    total = max(0, (-(-size // stride) - 1) * stride + kernel - size)
    return total // 2, total - total // 2


def _overhang(padded: int, kernel: int, stride: int, far_edge: int) -> int:
    """The far padding of one more, partial window; none if it would start beyond the input."""
    rest = (padded - kernel) % stride
    start = padded - kernel - rest + stride
    return 0 if rest == 0 or start >= far_edge else stride - rest

"""MobileNets and MnasNet: windows of single channels between 1x1 convolutions.

Blocks are called `block1`, `block2`, ... in their order.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from convdyno.blueprint.draft import Draft, Value
from convdyno.blueprint.graph import Blueprint
from convdyno.blueprint.ops import ActKind, Norm
from convdyno.zoo.registry import network

HOWARD17 = "arXiv:1704.04861"
SANDLER = "arXiv:1801.04381"
TAN18 = "arXiv:1807.11626"
HOWARD19 = "arXiv:1905.02244"


def depthwise(x: Value, kernel: int, stride: int = 1) -> Value:
    """A window for each channel, and batch norm."""
    pad = kernel // 2
    return x.conv(x.channels, kernel, stride, pad, groups=x.channels, exact=True).norm()


def divisible(count: float, by: int = 8) -> int:
    """The nearest multiple, but never less than nine tenths of the count."""
    near = max(by, int(count + by / 2) // by * by)
    return near + by if near < 0.9 * count else near


def inverted(
    x: Value,
    wide: int | None,
    out: int,
    kernel: int,
    stride: int,
    act: ActKind,
    squeeze: bool = False,
) -> Value:
    """1x1 to `wide` channels (None: left out), a window for each, a gate in some, 1x1 to a few."""
    y = x.conv(wide, 1, exact=True).norm().act(act) if wide else x
    y = depthwise(y, kernel, stride).act(act)
    if squeeze:
        y = y.squeeze_excite(divisible(y.channels / 4), "relu", "hardsigmoid")
    return y.conv_norm(out, 1)


@network("mobilenet1", paper=HOWARD17, note="a 3x3 of single channels, then a 1x1; ReLU6")
def mobilenet1(net: Draft, classes: int) -> Blueprint:
    widths = (64, 128, 128, 256, 256, *(512,) * 6, 1024, 1024)
    with net.scope("stem"):
        x = net.image.conv_norm(32, 3, 2, pad=1).act("relu6")
    for number, width in enumerate(widths, 1):
        with net.scope(f"block{number}"):
            x = depthwise(x, 3, 2 if number in (2, 4, 6, 12) else 1).act("relu6")
            x = x.conv_norm(width, 1).act("relu6")
    return x.mean().logits(classes).done()


@network("mobilenet2", paper=SANDLER, note="inverted residuals; ReLU6")
def mobilenet2(net: Draft, classes: int) -> Blueprint:
    with net.scope("stem"):
        x = net.image.conv_norm(32, 3, 2, pad=1).act("relu6")
    stages = (
        (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
        (6, 320, 1, 1),
    )  # fmt: skip
    number = 0
    for times, width, depth, stride in stages:
        for place in range(depth):
            number += 1
            with net.scope(f"block{number}"):
                wide = times * x.channels if times > 1 else None
                y = inverted(x, wide, width, 3, 1 if place else stride, "relu6")
                x = x + y if place else y
    with net.scope("last"):
        x = x.conv_norm(1280, 1).act("relu6")
    return x.mean().dropout(0.2).logits(classes).done()


@network("mnasnet1", paper=TAN18, note="MnasNet-B1, found by search for phones; no gates")
def mnasnet1(net: Draft, classes: int) -> Blueprint:
    with net.scope("stem"):
        x = net.image.conv_norm_relu(32, 3, 2, pad=1)
        x = depthwise(x, 3).relu().conv_norm(16, 1)
    stages = (
        (3, 24, 3, 2, 3), (5, 40, 3, 2, 3), (5, 80, 3, 2, 6), (3, 96, 2, 1, 6), (5, 192, 4, 2, 6),
        (3, 320, 1, 1, 6),
    )  # fmt: skip
    for stage, (kernel, width, depth, stride, times) in enumerate(stages, 1):
        for place in range(depth):
            with net.scope(f"stage{stage}_{place + 1}"):
                wide = times * x.channels
                y = inverted(x, wide, width, kernel, 1 if place else stride, "relu")
                x = x + y if place else y
    with net.scope("last"):
        x = x.conv_norm_relu(1280, 1)
    return x.mean().dropout(0.2).logits(classes).done()


class Row(NamedTuple):
    """A block of MobileNet v3, as tables 1 and 2 of the paper have it."""

    kernel: int
    wide: int
    out: int
    squeeze: bool
    act: ActKind
    stride: int


RE: ActKind = "relu"
HS: ActKind = "hardswish"
LARGE = (
    Row(3, 16, 16, False, RE, 1), Row(3, 64, 24, False, RE, 2), Row(3, 72, 24, False, RE, 1),
    Row(5, 72, 40, True, RE, 2), Row(5, 120, 40, True, RE, 1), Row(5, 120, 40, True, RE, 1),
    Row(3, 240, 80, False, HS, 2), Row(3, 200, 80, False, HS, 1), Row(3, 184, 80, False, HS, 1),
    Row(3, 184, 80, False, HS, 1), Row(3, 480, 112, True, HS, 1), Row(3, 672, 112, True, HS, 1),
    Row(5, 672, 160, True, HS, 2), Row(5, 960, 160, True, HS, 1), Row(5, 960, 160, True, HS, 1),
)  # fmt: skip
SMALL = (
    Row(3, 16, 16, True, RE, 2), Row(3, 72, 24, False, RE, 2), Row(3, 88, 24, False, RE, 1),
    Row(5, 96, 40, True, HS, 2), Row(5, 240, 40, True, HS, 1), Row(5, 240, 40, True, HS, 1),
    Row(5, 120, 48, True, HS, 1), Row(5, 144, 48, True, HS, 1), Row(5, 288, 96, True, HS, 2),
    Row(5, 576, 96, True, HS, 1), Row(5, 576, 96, True, HS, 1),
)  # fmt: skip


def mobilenet3(net: Draft, classes: int, rows: tuple[Row, ...], features: int) -> Blueprint:
    """The whole network."""
    net.norm = Norm(eps=1e-3, decay=0.99)
    with net.scope("stem"):
        x = net.image.conv_norm(16, 3, 2, pad=1).act(HS)
    before = 16
    for number, row in enumerate(rows, 1):
        with net.scope(f"block{number}"):
            wide = net.channels(row.wide) if row.wide != before else None
            y = inverted(x, wide, row.out, row.kernel, row.stride, row.act, row.squeeze)
            x = x + y if row.stride == 1 and row.out == before else y
            before = row.out
    with net.scope("last"):
        x = x.conv_norm(6 * rows[-1].out, 1).act(HS)
    return x.mean().dense(features, name="fc").act(HS).dropout(0.2).logits(classes).done()


v3 = partial(network, paper=HOWARD19)
NOTE = "found by search, gates in most blocks; hardswish; batch norm's epsilon is 1e-3"
v3("mobilenet3-large", note=NOTE)(partial(mobilenet3, rows=LARGE, features=1280))
v3("mobilenet3-small", note=NOTE)(partial(mobilenet3, rows=SMALL, features=1024))

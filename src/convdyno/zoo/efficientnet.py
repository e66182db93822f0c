"""EfficientNets: inverted residuals with gates, width, depth and image size scaled together."""

from __future__ import annotations

from typing import NamedTuple

from convdyno.blueprint.draft import Draft, Value
from convdyno.blueprint.graph import Blueprint
from convdyno.blueprint.ops import Norm
from convdyno.zoo.mobilenet import depthwise
from convdyno.zoo.registry import network

TAN19 = "arXiv:1905.11946"
TAN21 = "arXiv:2104.00298"


class Blocks(NamedTuple):
    """Some blocks of one width; the first of them takes the stride."""

    times: int
    """How many times as wide the middle of a block is as its input."""
    kernel: int
    stride: int
    out: int
    depth: int
    fused: bool = False
    """Whether one whole window stands for the 1x1 and the window of single channels."""


B0 = (
    Blocks(1, 3, 1, 16, 1), Blocks(6, 3, 2, 24, 2), Blocks(6, 5, 2, 40, 2), Blocks(6, 3, 2, 80, 3),
    Blocks(6, 5, 1, 112, 3), Blocks(6, 5, 2, 192, 4), Blocks(6, 3, 1, 320, 1),
)  # fmt: skip
V2_S = (
    Blocks(1, 3, 1, 24, 2, True), Blocks(4, 3, 2, 48, 4, True), Blocks(4, 3, 2, 64, 4, True),
    Blocks(4, 3, 2, 128, 6), Blocks(6, 3, 1, 160, 9), Blocks(6, 3, 2, 256, 15),
)  # fmt: skip


def separate(x: Value, stage: Blocks, stride: int) -> Value:
    """1x1 to many channels, a window for each, a gate, 1x1 to a few."""
    wide = stage.times * x.channels
    y = x if stage.times == 1 else x.conv(wide, 1, exact=True).norm().act("silu")
    y = depthwise(y, stage.kernel, stride).act("silu")
    y = y.squeeze_excite(max(1, x.channels // 4), "silu", "sigmoid")
    return y.conv_norm(stage.out, 1)


def fused(x: Value, stage: Blocks, stride: int) -> Value:
    """A window to many channels and 1x1 to a few; where it is not wider, the window alone."""
    pad = stage.kernel // 2
    if stage.times == 1:
        return x.conv_norm(stage.out, stage.kernel, stride, pad).act("silu")
    wide = stage.times * x.channels
    y = x.conv(wide, stage.kernel, stride, pad, exact=True).norm().act("silu")
    return y.conv_norm(stage.out, 1)


def efficientnet(net: Draft, classes: int, stages: tuple[Blocks, ...], first: int) -> Blueprint:
    """The whole network."""
    with net.scope("stem"):
        x = net.image.conv_norm(first, 3, 2, pad=1).act("silu")
    before = first
    for number, stage in enumerate(stages, 1):
        for place in range(stage.depth):
            stride = 1 if place else stage.stride
            with net.scope(f"stage{number}_{place + 1}"):
                y = (fused if stage.fused else separate)(x, stage, stride)
                x = x + y if stride == 1 and stage.out == before else y
            before = stage.out
    with net.scope("last"):
        x = x.conv_norm(1280, 1).act("silu")
    return x.mean().dropout(0.2).logits(classes).done()


@network("efficientnet-b0", paper=TAN19, note="found by search; SiLU, a gate in every block")
def b0(net: Draft, classes: int) -> Blueprint:
    return efficientnet(net, classes, B0, 32)


@network(
    "efficientnet2-s",
    image=(384, 384, 3),
    batch=8,
    paper=TAN21,
    note="whole windows in the early stages; batch norm's epsilon is 1e-3",
)
def v2_s(net: Draft, classes: int) -> Blueprint:
    net.norm = Norm(eps=1e-3)
    return efficientnet(net, classes, V2_S, 24)

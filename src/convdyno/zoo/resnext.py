"""ResNeXt: the bottleneck's 3x3 in 32 groups."""

from __future__ import annotations

from functools import partial

from convdyno.blueprint.draft import Draft, Value
from convdyno.blueprint.graph import Blueprint
from convdyno.blueprint.ops import Norm
from convdyno.zoo.registry import network
from convdyno.zoo.resnet import BATCHES, BOTTLENECKS, DEPTHS, resnet, shortcut

XIE = "arXiv:1611.05431"


def grouped(x: Value, width: int, stride_first: int, stride_grouped: int) -> Value:
    """1x1 and a 3x3 in 32 groups, so that each group has `width` / 32 channels."""
    groups = x.draft.channels(32)
    wide = x.draft.channels(width, groups)
    y = x.conv(wide, 1, stride_first, exact=True).norm().relu()
    return y.conv(wide, 3, stride_grouped, pad=1, groups=groups, exact=True).norm().relu()


def block_32x4d(x: Value, width: int, stride: int, first: bool) -> Value:
    """32 groups of 4 channels in the first stage, doubled in each later one."""
    y = grouped(x, 2 * width, 1, stride).conv_norm(4 * width, 1)
    return (y + (shortcut(x, 4 * width, stride) if first else x)).relu()


def resnext(net: Draft, classes: int, depths: tuple[int, ...]) -> Blueprint:
    """A ResNet of 32x4d blocks."""
    return resnet(net, classes, block_32x4d, depths)


def nvcnn_block(x: Value, width: int, stride: int, first: bool) -> Value:
    """Groups of 4 channels in every stage, the stride in the first 1x1, ReLU before the sum."""
    y = grouped(x, 128, stride, 1).conv_norm_relu(4 * width, 1)
    return (y + (shortcut(x, 4 * width, stride).relu() if first else x)).relu()


def nvcnn(net: Draft, classes: int, depths: tuple[int, ...]) -> Blueprint:
    """nvcnn's batch norm, first pool and start."""
    net.init = "glorot"
    net.norm = Norm(eps=1e-4)
    return resnet(net, classes, nvcnn_block, depths, pool_pad="same")


for layers in (50, 101):
    network(
        f"resnext{layers}",
        batch=BATCHES[layers],
        paper=XIE,
        note="32x4d; the 3x3 takes the stride",
    )(partial(resnext, depths=DEPTHS[layers]))

for layers in BOTTLENECKS:
    network(
        f"resnext{layers}-nvcnn",
        batch=BATCHES[layers],
        paper=XIE,
        note="nvcnn's: groups of 4 channels in every stage, ReLU on both sides of the sum",
    )(partial(nvcnn, depths=DEPTHS[layers]))

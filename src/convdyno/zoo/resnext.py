"""ResNeXt: the bottleneck's 3x3 in 32 groups."""

from __future__ import annotations

from convdyno.blueprint.draft import Draft, Value
from convdyno.blueprint.graph import Blueprint
from convdyno.zoo import resnet
from convdyno.zoo.resnet import each_depth, shortcut

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


@each_depth("resnext{}", XIE, "32x4d; the 3x3 takes the stride", (50, 101))
def resnext(net: Draft, classes: int, depths: tuple[int, ...]) -> Blueprint:
    """A ResNet of 32x4d blocks."""
    return resnet.resnet(net, classes, block_32x4d, depths)


def nvcnn_block(x: Value, width: int, stride: int, first: bool) -> Value:
    """Groups of 4 channels in every stage, the stride in the first 1x1, ReLU before the sum."""
    y = grouped(x, 128, stride, 1).conv_norm_relu(4 * width, 1)
    return (y + (shortcut(x, 4 * width, stride).relu() if first else x)).relu()


@each_depth(
    "resnext{}-nvcnn",
    XIE,
    "nvcnn's: groups of 4 channels in every stage, ReLU on both sides of the sum",
)
def nvcnn(net: Draft, classes: int, depths: tuple[int, ...]) -> Blueprint:
    """nvcnn's ResNet of its own blocks."""
    return resnet.nvcnn(net, classes, depths, nvcnn_block)

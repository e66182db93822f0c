"""ResNet v2 for ImageNet: batch norm and ReLU before each convolution, clean shortcuts."""

from __future__ import annotations

from convdyno.blueprint.draft import Draft, Value
from convdyno.blueprint.graph import Blueprint
from convdyno.blueprint.ops import Norm
from convdyno.zoo.registry import network
from convdyno.zoo.resnet import DEPTHS, each_depth, stages

HE16 = "arXiv:1603.05027"


def projected(x: Value, width: int, stride: int) -> Value:
    """The projection on the shortcut."""
    with x.draft.scope("shortcut"):
        return x.conv(4 * width, 1, stride)


def preactivated(x: Value, width: int, stride: int, first: bool) -> Value:
    """1x1, 3x3 with the stride, 1x1; a projection reads the activated input."""
    active = x.norm().relu()
    y = active.conv_norm_relu(width, 1).conv_norm_relu(width, 3, stride, pad=1).conv(4 * width, 1)
    return (projected(active, width, stride) if first else x) + y


@each_depth(
    "resnet{}-v2",
    HE16,
    "v2: batch norm and ReLU before each convolution; the 3x3 takes the stride",
)
def resnet_v2(net: Draft, classes: int, depths: tuple[int, ...]) -> Blueprint:
    """The whole network; the first activation is that of the first block."""
    with net.scope("conv1"):
        x = net.image.conv(64, 7, 2, pad=3)
    x = stages(x.max_pool(3, 2, pad=1), preactivated, depths)
    with net.scope("last"):
        x = x.norm().relu()
    return x.mean().logits(classes).done()


def leaky(x: Value) -> Value:
    """tfperftest's batch norm and ReLU."""
    return x.norm().act("leaky", 0.1)


def tfperftest_block(x: Value, width: int, stride: int, first: bool) -> Value:
    """1x1 with the stride, 3x3, 1x1; of the shortcuts only the very first is activated."""
    very_first = first and stride == 1
    active = leaky(x)
    y = leaky(active.conv(width, 1, 2 if first else 1)).conv(width, 3, pad="same")
    y = leaky(y).conv(4 * width, 1)
    return (projected(active if very_first else x, width, 2) if first else x) + y


@network(
    "resnet152-tfperftest",
    batch=16,
    paper=HE16,
    note="tfperftest's: leaky ReLU 0.1, stride 2 in the first block instead of a pool",
)
def tfperftest(net: Draft, classes: int) -> Blueprint:
    net.norm = Norm(eps=1e-3)
    with net.scope("conv1"):
        x = net.image.conv(64, 7, 2, pad="same")
    x = stages(x, tfperftest_block, DEPTHS[152])
    with net.scope("last"):
        x = leaky(x)
    return x.mean().logits(classes).done()

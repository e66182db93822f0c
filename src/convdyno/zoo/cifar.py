"""ResNets for 32x32 images: He's of 2015, and those of the Keras example."""

from __future__ import annotations

from functools import partial

from convdyno.blueprint.draft import Draft, Size, Value
from convdyno.blueprint.graph import Blueprint
from convdyno.blueprint.ops import Norm
from convdyno.zoo.registry import network

HE15 = "arXiv:1512.03385"
HE16 = "arXiv:1603.05027"
small = partial(network, image=(32, 32, 3), classes=10)
example = partial(small, batch=32, optimiser="adam")


def widened(x: Value, width: int, stride: int) -> Value:
    """Option A: every other cell, and zeros for the new channels."""
    x = x.avg_pool(1, stride)
    more = x.draft.channels(width) - x.channels
    return x.widen(more // 2, more - more // 2)


def resnet(net: Draft, classes: int, depth: int) -> Blueprint:
    """6n + 2 layers: n blocks of two 3x3 at each of three sizes."""
    with net.scope("conv1"):
        x = net.image.conv_norm_relu(16, 3, pad=1)
    for stage, width in enumerate((16, 32, 64), 2):
        for number in range(1, (depth - 2) // 6 + 1):
            stride = 2 if stage > 2 and number == 1 else 1
            with net.scope(f"conv{stage}_{number}"):
                y = x.conv_norm_relu(width, 3, stride, pad=1).conv_norm(width, 3, pad=1)
                x = (y + (widened(x, width, stride) if stride > 1 else x)).relu()
    return x.mean().logits(classes).done()


def conv(x: Value, out: int, kernel: Size, stride: int = 1) -> Value:
    """The Keras example's convolutions have a bias."""
    return x.conv(out, kernel, stride, pad="same", bias=True)


def keras_v1(net: Draft, classes: int, depth: int) -> Blueprint:
    """Like He's of 2015, with projections where the size changes."""
    net.norm = Norm(eps=1e-3, decay=0.99)
    with net.scope("conv1"):
        x = conv(net.image, 16, 3).norm().relu()
    for stage, width in enumerate((16, 32, 64), 2):
        for number in range(1, (depth - 2) // 6 + 1):
            stride = 2 if stage > 2 and number == 1 else 1
            with net.scope(f"conv{stage}_{number}"):
                y = conv(conv(x, width, 3, stride).norm().relu(), width, 3).norm()
                if stride > 1:
                    with net.scope("shortcut"):
                        x = conv(x, width, 1, stride)
                x = (y + x).relu()
    return x.avg_pool(8, 8).flatten().logits(classes).done()


def keras_v2(net: Draft, classes: int, depth: int) -> Blueprint:
    """9n + 2 layers: n blocks of 1x1, 3x3, 1x1 at each of three sizes, activated before each."""
    net.norm = Norm(eps=1e-3, decay=0.99)
    with net.scope("conv1"):
        x = conv(net.image, 16, 3).norm().relu()
    for stage, (width, out) in enumerate(((16, 64), (64, 128), (128, 256)), 2):
        for number in range(1, (depth - 2) // 9 + 1):
            first = number == 1
            stride = 2 if stage > 2 and first else 1
            with net.scope(f"conv{stage}_{number}"):
                y = x if stage == 2 and first else x.norm().relu()
                y = conv(y, width, 1, stride).norm().relu()
                y = conv(conv(y, width, 3).norm().relu(), out, 1)
                if first:
                    with net.scope("shortcut"):
                        x = conv(x, out, 1, stride)
                x = x + y
    with net.scope("last"):
        x = x.norm().relu()
    return x.avg_pool(8, 8).flatten().logits(classes).done()


for layers in (20, 32, 44, 56, 110):
    small(
        f"resnet{layers}",
        batch=128,
        paper=HE15,
        note="for CIFAR; shortcuts without parameters (option A)",
    )(partial(resnet, depth=layers))

for layers in (20, 32, 44, 56, 110):
    example(
        f"resnet{layers}-keras",
        paper=HE15,
        note="the Keras example's v1 for CIFAR: projections without batch norm, biases",
    )(partial(keras_v1, depth=layers))

for layers in (20, 29, 56, 110):
    example(
        f"resnet{layers}-keras-v2",
        paper=HE16,
        note="the Keras example's v2 for CIFAR: activation first, biases",
    )(partial(keras_v2, depth=layers))

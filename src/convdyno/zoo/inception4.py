"""Inception v4 and Inception-ResNet v2."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from convdyno.blueprint.draft import Draft, Value
from convdyno.blueprint.graph import Blueprint
from convdyno.blueprint.ops import Norm, Pair
from convdyno.zoo import inception3
from convdyno.zoo.inception3 import conv, halve
from convdyno.zoo.registry import network

SZEGEDY16 = "arXiv:1602.07261"
Step = Callable[[Value], Value]


def turn(kernel: Pair, turned: bool) -> Pair:
    """slim has some of the long windows the other way round than the paper's figures."""
    return kernel[::-1] if turned else kernel


def stem(net: Draft, turned: bool = False) -> Value:
    """Figure 3: from 299x299 to 35x35, 384 channels."""
    tall, wide = turn((7, 1), turned), turn((1, 7), turned)
    with net.scope("stem"):
        x = conv(net.image.conv_norm_relu(32, 3, 2).conv_norm_relu(32, 3), 64, 3)
        x = x.max_pool(3, 2).concat(halve(x, 96))
        short = conv(x, 64, 1).conv_norm_relu(96, 3)
        long = conv(conv(conv(x, 64, 1), 64, tall), 64, wide).conv_norm_relu(96, 3)
        x = short.concat(long)
        return halve(x, 192).concat(x.max_pool(3, 2))


def module_a(x: Value) -> Value:
    """Inception-A, the paper's figure 4."""
    return conv(x, 96, 1).concat(
        conv(conv(x, 64, 1), 96, 3),
        conv(conv(conv(x, 64, 1), 96, 3), 96, 3),
        conv(x.avg_pool(3, 1, pad=1), 96, 1),
    )


def module_b(x: Value, turned: bool) -> Value:
    """Inception-B, the paper's figure 5."""
    tall, wide = turn((7, 1), turned), turn((1, 7), turned)
    one = conv(x, 384, 1)
    seven = conv(conv(conv(x, 192, 1), 224, (1, 7)), 256, (7, 1))
    double = conv(conv(conv(x, 192, 1), 192, wide), 224, tall)
    double = conv(conv(double, 224, wide), 256, tall)
    return one.concat(seven, double, conv(x.avg_pool(3, 1, pad=1), 128, 1))


def module_c(x: Value, turned: bool) -> Value:
    """Inception-C, the paper's figure 6."""
    tall, wide = turn((3, 1), turned), turn((1, 3), turned)
    one, three = conv(x, 256, 1), conv(x, 384, 1)
    split = conv(three, 256, (1, 3)), conv(three, 256, (3, 1))
    double = conv(conv(conv(x, 384, 1), 448, wide), 512, tall)
    split_double = conv(double, 256, (1, 3)), conv(double, 256, (3, 1))
    return one.concat(*split, *split_double, conv(x.avg_pool(3, 1, pad=1), 256, 1))


def reduction_a(x: Value, single: int, double: tuple[int, int, int]) -> Value:
    """Figure 7, from 35x35 to 17x17: the widths are n, and k, l, m of table 1."""
    reduce, inner, outer = double
    return halve(x, single).concat(
        halve(conv(conv(x, reduce, 1), inner, 3), outer), x.max_pool(3, 2)
    )


def reduction_b(x: Value) -> Value:
    """Figure 8: from 17x17 to 8x8."""
    return halve(conv(x, 192, 1), 192).concat(
        halve(conv(conv(conv(x, 256, 1), 256, (1, 7)), 320, (7, 1)), 320), x.max_pool(3, 2)
    )


def repeat(x: Value, name: str, times: int, step: Step) -> Value:
    """The same module several times, in numbered scopes."""
    for number in range(1, times + 1):
        with x.draft.scope(f"{name}_{number}"):
            x = step(x)
    return x


def inception_v4(net: Draft, classes: int, turned: bool = False, eps: float = 1e-3) -> Blueprint:
    """4 A, 7 B and 3 C modules (figure 9)."""
    net.norm = Norm(eps=eps)
    x = repeat(stem(net, turned), "a", 4, module_a)
    with net.scope("reduction_a"):
        x = reduction_a(x, 384, (192, 224, 256))
    x = repeat(x, "b", 7, partial(module_b, turned=turned))
    with net.scope("reduction_b"):
        x = reduction_b(x)
    x = repeat(x, "c", 3, partial(module_c, turned=turned))
    return x.mean().dropout(0.2).logits(classes).done()


v4 = partial(network, image=(299, 299, 3), batch=16, paper=SZEGEDY16)
v4("inception4", note="4, 7 and 3 modules")(inception_v4)
v4("inception4-slim", note="slim's and timm's: some 1x7 and 7x1 windows change places")(
    partial(inception_v4, turned=True)
)


@v4("inception4-nvcnn", note="nvcnn's: the paper's layers, batch norm eps 1e-4")
def inception4_nvcnn(net: Draft, classes: int) -> Blueprint:
    net.init = "glorot"
    return inception_v4(net, classes, eps=1e-4)


def branches_a(x: Value) -> Value:
    """Figure 16, before its linear 1x1."""
    return conv(x, 32, 1).concat(
        conv(conv(x, 32, 1), 32, 3), conv(conv(conv(x, 32, 1), 48, 3), 64, 3)
    )


def branches_b(x: Value) -> Value:
    """Figure 17, before its linear 1x1."""
    return conv(x, 192, 1).concat(conv(conv(conv(x, 128, 1), 160, (1, 7)), 192, (7, 1)))


def branches_c(x: Value) -> Value:
    """Figure 19, before its linear 1x1."""
    return conv(x, 192, 1).concat(conv(conv(conv(x, 192, 1), 224, (1, 3)), 256, (3, 1)))


def reduction_c(x: Value, middle: int, outer: int) -> Value:
    """Figure 18: from 17x17 to 8x8."""
    return halve(conv(x, 256, 1), 384).concat(
        halve(conv(x, 256, 1), middle),
        halve(conv(conv(x, 256, 1), middle, 3), outer),
        x.max_pool(3, 2),
    )


def residual(x: Value, branches: Step, scale: float) -> Value:
    """The branches, projected with batch norm, scaled and added."""
    up = branches(x).conv(x.channels, 1, exact=True).norm()
    return (x + up.scale(scale)).relu()


@v4(
    "inception-resnet2",
    note="nvcnn's: 5, 10 and 5 modules after v4's stem; 384, 1152 and 2048 channels",
)
def inception_resnet2(net: Draft, classes: int) -> Blueprint:
    net.init = "glorot"
    net.norm = Norm(eps=1e-4)
    x = repeat(stem(net), "a", 5, partial(residual, branches=branches_a, scale=0.2))
    with net.scope("reduction_a"):
        x = reduction_a(x, 384, (256, 256, 384))
    x = repeat(x, "b", 10, partial(residual, branches=branches_b, scale=0.2))
    with net.scope("reduction_b"):
        # 384 + 256 + 256 makes 2048 with the pool; the paper's 384 + 288 + 320 does not.
        x = reduction_c(x, 256, 256)
    x = repeat(x, "c", 5, partial(residual, branches=branches_c, scale=0.2))
    return x.mean().dropout(0.2).logits(classes).done()


def slim_residual(x: Value, branches: Step, scale: float | None) -> Value:
    """slim's: the projection has a bias and no batch norm; without a scale the block is linear."""
    up = branches(x).conv(x.channels, 1, bias=True, exact=True)
    return x + up if scale is None else (x + up.scale(scale)).relu()


@v4(
    "inception-resnet2-slim",
    note="slim's and Keras's: 10, 20 and 10 modules after v3's stem; batch norm without scale",
)
def slim(net: Draft, classes: int) -> Blueprint:
    net.norm = Norm(eps=1e-3, scale=False)
    x = inception3.stem(net)
    with net.scope("mixed_5b"):
        x = inception3.module_a(x, 64, inception3.Style(), one=96)
    x = repeat(x, "block35", 10, partial(slim_residual, branches=branches_a, scale=0.17))
    with net.scope("mixed_6a"):
        x = reduction_a(x, 384, (256, 256, 384))
    x = repeat(x, "block17", 20, partial(slim_residual, branches=branches_b, scale=0.1))
    with net.scope("mixed_7a"):
        x = reduction_c(x, 288, 320)
    x = repeat(x, "block8", 9, partial(slim_residual, branches=branches_c, scale=0.2))
    with net.scope("block8_10"):
        x = slim_residual(x, branches_c, scale=None)
    with net.scope("conv_7b"):
        x = conv(x, 1536, 1)
    return x.mean().dropout(0.2).logits(classes).done()

"""Inception v3: factorised windows; modules are called as in TensorFlow's slim and torchvision."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from convdyno.blueprint.draft import Draft, Size, Value
from convdyno.blueprint.graph import Blueprint
from convdyno.blueprint.ops import Norm
from convdyno.zoo.registry import network

SZEGEDY15 = "arXiv:1512.00567"
v3 = partial(network, image=(299, 299, 3), batch=16, paper=SZEGEDY15)


class Style(NamedTuple):
    """What implementations do not agree on."""

    dropout: float = 0.2
    eps: float = 1e-3
    """What batch norm adds to a variance."""
    count_pad: bool = False
    """Whether an average pool divides by padded cells too."""
    max_last: bool = False
    """Whether the last module's pool takes the maximum."""


def conv(x: Value, out: int, kernel: Size) -> Value:
    """The brick: a window that keeps the size, batch norm and ReLU."""
    return x.conv_norm_relu(out, kernel, pad="same")


def halve(x: Value, out: int) -> Value:
    """A 3x3 window of stride 2."""
    return x.conv_norm_relu(out, 3, 2)


def pooled(x: Value, style: Style) -> Value:
    """A 3x3 average that keeps the size."""
    return x.avg_pool(3, 1, pad=1, count_pad=style.count_pad)


def module_a(x: Value, pool: int, style: Style, one: int = 64) -> Value:
    """Figure 5, with the 5x5 left whole."""
    return conv(x, one, 1).concat(
        conv(conv(x, 48, 1), 64, 5),
        conv(conv(conv(x, 64, 1), 96, 3), 96, 3),
        conv(pooled(x, style), pool, 1),
    )


def module_b(x: Value) -> Value:
    """From 35x35 to 17x17."""
    return halve(x, 384).concat(halve(conv(conv(x, 64, 1), 96, 3), 96), x.max_pool(3, 2))


def module_c(x: Value, n: int, style: Style) -> Value:
    """Figure 6: 7x7 windows as 1x7 and 7x1."""
    one = conv(x, 192, 1)
    seven = conv(conv(conv(x, n, 1), n, (1, 7)), 192, (7, 1))
    double = conv(conv(conv(x, n, 1), n, (7, 1)), n, (1, 7))
    double = conv(conv(double, n, (7, 1)), 192, (1, 7))
    return one.concat(seven, double, conv(pooled(x, style), 192, 1))


def module_d(x: Value) -> Value:
    """From 17x17 to 8x8."""
    return halve(conv(x, 192, 1), 320).concat(
        halve(conv(conv(conv(x, 192, 1), 192, (1, 7)), 192, (7, 1)), 192), x.max_pool(3, 2)
    )


def module_e(x: Value, pool: Value) -> Value:
    """Figure 7: the 1x3 and 3x1 windows side by side."""
    one = conv(x, 320, 1)
    three = conv(x, 384, 1)
    split = conv(three, 384, (1, 3)), conv(three, 384, (3, 1))
    double = conv(conv(x, 448, 1), 384, 3)
    split_double = conv(double, 384, (1, 3)), conv(double, 384, (3, 1))
    return one.concat(*split, *split_double, conv(pool, 192, 1))


def stem(net: Draft) -> Value:
    """From 299x299 to 35x35 (table 1)."""
    with net.scope("stem"):
        x = net.image.conv_norm_relu(32, 3, 2).conv_norm_relu(32, 3)
        x = conv(x, 64, 3).max_pool(3, 2)
        return conv(x, 80, 1).conv_norm_relu(192, 3).max_pool(3, 2)


def auxiliary_head(x: Value, classes: int) -> Value:
    """A small classifier on the last 17x17 grid, dropped after training."""
    with x.draft.scope("aux"):
        return conv(x.avg_pool(5, 3), 128, 1).conv_norm_relu(768, 5).mean().logits(classes)


def draw(net: Draft, classes: int, style: Style, auxiliary: bool = False) -> Blueprint:
    """The whole network."""
    net.norm = Norm(eps=style.eps)
    x = stem(net)
    for name, pool in {"5b": 32, "5c": 64, "5d": 64}.items():
        with net.scope(f"mixed_{name}"):
            x = module_a(x, pool, style)
    with net.scope("mixed_6a"):
        x = module_b(x)
    for name, n in {"6b": 128, "6c": 160, "6d": 160, "6e": 192}.items():
        with net.scope(f"mixed_{name}"):
            x = module_c(x, n, style)
    middle = x
    with net.scope("mixed_7a"):
        x = module_d(x)
    with net.scope("mixed_7b"):
        x = module_e(x, pooled(x, style))
    with net.scope("mixed_7c"):
        x = module_e(x, x.max_pool(3, 1, pad=1) if style.max_last else pooled(x, style))
    x = x.mean().dropout(style.dropout).logits(classes)
    return x.done((auxiliary_head(middle, classes), 0.4)) if auxiliary else x.done()


v3(
    "inception3",
    note="average pools ignore padding, as in TensorFlow; an auxiliary head is an option",
)(partial(draw, style=Style()))
v3(
    "inception3-torchvision",
    note="torchvision's and timm's: average pools count the padding; dropout of a half",
)(partial(draw, style=Style(dropout=0.5, count_pad=True)))


@v3(
    "inception3-nvcnn",
    note="nvcnn's: a max pool in the last module, no dropout, no auxiliary head",
)
def nvcnn(net: Draft, classes: int) -> Blueprint:
    net.init = "glorot"
    return draw(net, classes, Style(dropout=0, eps=1e-4, max_last=True))

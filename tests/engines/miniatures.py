"""Networks of a few hundred weights that together have every op and every awkward case."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from convdyno.blueprint.draft import Draft
from convdyno.blueprint.graph import Blueprint
from convdyno.blueprint.ops import Add, Concat, Dropout, Norm
from convdyno.blueprint.weights import Weights, initial_weights

CLASSES = 5


def plain() -> Blueprint:
    """The shape of Deep MNIST: convolutions with bias, flatten with height and width, dropout 0."""
    x = Draft("plain", (8, 6, 1), init="deepmnist").image
    x = x.conv_relu(4, 5, pad="same").max_pool(2, 2).conv_relu(6, 3, pad="same").max_pool(2, 2)
    return x.flatten().dense(7).relu().then(Dropout(0.0)).logits(CLASSES).done()


def residual() -> Blueprint:
    """Batch norm, shortcuts, a value read twice around an in-place ReLU, a sum of three."""
    x = Draft("residual", (7, 7, 3)).image.conv_norm_relu(4, 3, pad=1)
    y = x.conv_norm_relu(4, 3, pad=1).conv_norm(4, 3, pad=1)
    x = (y + x).relu()
    before = x.conv_norm(4, 1)
    total = before.then(Add(), before.relu(), x).relu()
    shortcut = total.conv_norm(6, 1, stride=2)
    return (total.conv_norm(6, 3, stride=2, pad=1) + shortcut).relu().mean().logits(CLASSES).done()


def lopsided_convs() -> Blueprint:
    """Padding that differs by side, strides that differ by axis, windows that miss the last row."""
    x = Draft("lopsided_convs", (9, 10, 2)).image
    x = x.conv(4, 3, 2, (0, 1, 0, 1), bias=True).act("leaky", 0.1)
    x = x.conv(4, (3, 2), (1, 2), (2, 0, 1, 2)).act("tanh")
    x = x.conv(3, 2, 2, (1, 0, 0, 1)).act("sigmoid")
    return x.mean().logits(CLASSES).done()


def lopsided_pools() -> Blueprint:
    """Maxima and averages with lopsided padding, counted and not."""
    x = Draft("lopsided_pools", (11, 11, 2)).image.conv(3, 3, pad=1)
    x = x.concat(
        x.max_pool(3, 1, (2, 0, 0, 2)),
        x.avg_pool(3, 1, (2, 0, 0, 2)),
        x.avg_pool(3, 1, (0, 2, 1, 1), count_pad=True),
        x.avg_pool(3, 1, 1),
        x.avg_pool(3, 1, 1, count_pad=True),
        x.max_pool(3, 1, (1, 1, 0, 2)),
    )
    x = x.max_pool((3, 2), (2, 1), (1, 0, 0, 1)).avg_pool(2, 2, (1, 0, 0, 1))
    return x.mean().logits(CLASSES).done()


def hanging_pools() -> Blueprint:
    """Pools whose last window hangs over the edge."""
    x = Draft("hanging_pools", (10, 12, 3)).image.conv(4, 1)
    x = x.max_pool(3, 2, ceil=True).concat(
        x.avg_pool(3, 2, ceil=True),
        x.avg_pool(3, 2, ceil=True, count_pad=True),
        x.max_pool(3, 2, (0, 1, 0, 1), ceil=True),
    )
    x = x.max_pool(3, 3, 1, ceil=True).relu()
    return x.flatten().logits(CLASSES).done()


def grouped() -> Blueprint:
    """Groups, depthwise, ReLU6, the norm without scale, on an image and on a vector."""
    net = Draft("grouped", (6, 6, 4))
    net.norm = Norm(eps=1e-3, decay=0.7, scale=False)
    x = net.image.conv_norm(8, 3, pad=1, groups=2).act("relu6")
    x = x.conv_norm(8, 3, 2, pad=1, groups=8).act("relu6").conv(6, 1).norm().act("leaky", 0.2)
    return x.mean().dense(6).norm().relu().logits(CLASSES).done()


def inception() -> Blueprint:
    """Branches side by side, scaled residuals, LRN, flatten after concat."""
    x = Draft("inception", (9, 9, 3)).image.conv_relu(6, 3, 2, 1).lrn(2, 0.3, 0.75, 2.0)
    x = x.conv_relu(3, 1).concat(x.conv_relu(4, 3, pad=1), x.max_pool(3, 1, 1).conv_relu(2, 1))
    x = (x + x.conv(9, 1, bias=True).scale(0.17)).relu().lrn(1, 1.0, 0.5)
    return x.max_pool(3, 2).flatten().logits(CLASSES).done()


def widened() -> Blueprint:
    """The shortcut without parameters: zero channels put around."""
    x = Draft("widened", (6, 6, 3)).image.conv_norm_relu(4, 3, pad=1)
    shortcut = x.avg_pool(1, 2).widen(1, 3)
    x = (x.conv_norm_relu(8, 3, 2, 1).conv_norm(8, 3, pad=1) + shortcut).relu()
    return x.scale(0.5).mean().logits(CLASSES).done()


def with_auxiliary() -> Blueprint:
    """A second head of its own weight, on a value that goes on."""
    x = Draft("with_auxiliary", (8, 8, 3)).image.conv_norm_relu(5, 3, pad=1)
    side = x.avg_pool(3, 3).conv_relu(4, 1).flatten().dense(6).relu().logits(CLASSES, "side")
    x = x.conv_norm_relu(6, 3, 2, 1)
    return x.mean().logits(CLASSES).done((side, 0.3))


def flattened_every_way() -> Blueprint:
    """Flattened images that pass through other ops, are flattened again, or meet in a sum."""
    net = Draft("flattened_every_way", (4, 5, 3))
    x = net.image.conv(4, 3, pad=1)
    flat = x.flatten()
    one = x.flatten().relu().scale(0.7).then(Dropout(0.0)).dense(6)
    two = flat.flatten().norm().dense(6)
    three = x.max_pool(2, 2).flatten().then(Concat(), x.mean()).dense(6)
    four = x.relu().flatten().dense(6, bias=False)
    return one.then(Add(), two, three, four).act("tanh").logits(CLASSES).done()


def flat_answer() -> Blueprint:
    """A flattened image that is itself the answer."""
    return Draft("flat_answer", (4, 4, 2)).image.conv(2, 3, 1, bias=True).flatten().done()


def excited() -> Blueprint:
    """Gates in both usual forms, on what others read too, and the activations that go with them."""
    x = Draft("excited", (7, 6, 3)).image.conv_norm(4, 3, 2, 1).act("silu")
    y = x.conv_norm(8, 1).act("hardswish").conv_norm(8, 3, pad=1, groups=8).act("hardswish")
    y = y.squeeze_excite(2, "relu", "hardsigmoid").conv_norm(4, 1)
    x = x + y
    x = (x.squeeze_excite(3, "silu", "sigmoid") + x).act("silu")
    return x.mean().dense(6).act("hardswish").logits(CLASSES).done()


def layer_normed() -> Blueprint:
    """Norms over channels, of images and of a vector; both forms of GELU; a factor a channel."""
    x = Draft("layer_normed", (8, 8, 3)).image.conv(6, 2, 2, bias=True).channel_norm()
    y = x.conv(6, 3, pad=1, groups=6, bias=True).channel_norm(1e-5).conv(9, 1, bias=True)
    x = x + y.act("gelu").conv(6, 1, bias=True).channel_scale()
    x = x.channel_norm().conv(8, 2, 2, bias=True).act("gelu-tanh")
    return x.mean().channel_norm().channel_scale().logits(CLASSES).done()


def shuffled() -> Blueprint:
    """Channels that are split, put side by side again and shuffled, with a vector's too."""
    x = Draft("shuffled", (6, 7, 3)).image.conv_norm_relu(6, 3, pad=1)
    kept, y = x.split()
    x = kept.concat(y.conv_norm_relu(3, 1).conv_norm(3, 3, pad=1, groups=3)).shuffle(2)
    x = (x.shuffle(3) + x).relu()
    one, other = x.mean().split()
    return (one + other).logits(CLASSES).done()


def small() -> Blueprint:
    """The least that has every kind of weight: kernels, a bias, batch norm."""
    x = Draft("small", (5, 5, 2)).image.conv_norm_relu(3, 3, pad=1).conv(4, 1, bias=True).relu()
    return x.mean().logits(CLASSES).done()


def dropping() -> Blueprint:
    """A network that is random in training."""
    x = Draft("dropping", (6, 6, 2)).image.conv_relu(4, 3)
    return x.flatten().dropout(0.5).logits(CLASSES).done()


MINIATURES: dict[str, Callable[[], Blueprint]] = {
    build.__name__: build
    for build in (
        plain,
        residual,
        lopsided_convs,
        lopsided_pools,
        hanging_pools,
        grouped,
        inception,
        widened,
        with_auxiliary,
        flattened_every_way,
        flat_answer,
        excited,
        layer_normed,
        shuffled,
    )
}


def lively_weights(blueprint: Blueprint, seed: int = 1) -> Weights:
    """Weights none of which is at a special value: no zeros, no ones."""
    random = np.random.default_rng(seed)
    weights = initial_weights(blueprint, seed)
    for name, array in weights.items():
        kind = name.rpartition("/")[2]
        if kind in ("scale", "variance", "gain"):
            weights[name] = random.uniform(0.5, 2, array.shape).astype(np.float32)
        elif kind != "kernel":
            weights[name] = random.uniform(-0.5, 0.5, array.shape).astype(np.float32)
    return weights


def host_batch(
    blueprint: Blueprint, images: int = 4, seed: int = 2
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Random bytes and labels."""
    random = np.random.default_rng(seed)
    return (
        random.integers(0, 256, (images, *blueprint.image), np.uint8),
        random.integers(0, blueprint.classes, images, np.int64),
    )

"""GoogLeNet (Inception v1): nine modules of four branches, before batch norm."""

from __future__ import annotations

from collections.abc import Callable

from convdyno.blueprint.draft import Draft, Value
from convdyno.blueprint.graph import Blueprint
from convdyno.blueprint.ops import Norm
from convdyno.zoo.registry import network

SZEGEDY14 = "arXiv:1409.4842"
Brick = Callable[..., Value]

# 1x1; 3x3 reduce, 3x3; 5x5 reduce, 5x5; pool projection (table 1 of the paper).
MODULES = {
    "3a": (64, 96, 128, 16, 32, 32),
    "3b": (128, 128, 192, 32, 96, 64),
    "4a": (192, 96, 208, 16, 48, 64),
    "4b": (160, 112, 224, 24, 64, 64),
    "4c": (128, 128, 256, 24, 64, 64),
    "4d": (112, 144, 288, 32, 64, 64),
    "4e": (256, 160, 320, 32, 128, 128),
    "5a": (256, 160, 320, 32, 128, 128),
    "5b": (384, 192, 384, 48, 128, 128),
}


def inception(x: Value, name: str, conv: Brick = Value.conv_relu, large: int = 5) -> Value:
    """Four branches side by side: 1x1, 3x3, 5x5 (unless `large` says otherwise) and a pool."""
    one, reduce3, three, reduce5, five, pool = MODULES[name]
    with x.draft.scope(f"inception_{name}"):
        return conv(x, one, 1).concat(
            conv(conv(x, reduce3, 1), three, 3, pad=1),
            conv(conv(x, reduce5, 1), five, large, pad=large // 2),
            conv(x.max_pool(3, 1, pad=1), pool, 1),
        )


def auxiliary_head(x: Value, name: str, classes: int) -> Value:
    """A small classifier on the middle of the network, dropped after training."""
    with x.draft.scope(name):
        x = x.avg_pool(5, 3).conv_relu(128, 1).flatten().dense(1024).relu()
        return x.dropout(0.7).logits(classes)


@network("googlenet", paper=SZEGEDY14, note="auxiliary heads are an option, each 0.3 of the loss")
def googlenet(net: Draft, classes: int, auxiliary: bool = False) -> Blueprint:
    x = net.image.conv_relu(64, 7, 2, pad=3).max_pool(3, 2, ceil=True).lrn(2, 2e-5, 0.75)
    x = x.conv_relu(64, 1).conv_relu(192, 3, pad=1).lrn(2, 2e-5, 0.75).max_pool(3, 2, ceil=True)
    x = inception(inception(x, "3a"), "3b").max_pool(3, 2, ceil=True)
    low = inception(x, "4a")
    high = inception(inception(inception(low, "4b"), "4c"), "4d")
    x = inception(high, "4e").max_pool(3, 2, ceil=True)
    x = inception(inception(x, "5a"), "5b").mean().dropout(0.4).logits(classes)
    if not auxiliary:
        return x.done()
    heads = auxiliary_head(low, "aux1", classes), auxiliary_head(high, "aux2", classes)
    return x.done(*((head, 0.3) for head in heads))


@network(
    "googlenet-nvcnn",
    paper=SZEGEDY14,
    note="nvcnn's: no response normalisation, no dropout, no auxiliary heads",
)
def nvcnn(net: Draft, classes: int) -> Blueprint:
    net.init = "glorot"
    x = net.image.conv_relu(64, 7, 2, pad="same").max_pool(3, 2, pad="same")
    x = x.conv_relu(64, 1).conv_relu(192, 3, pad=1)
    for name in MODULES:
        if name in ("3a", "4a", "5a"):
            x = x.max_pool(3, 2, pad="same")
        x = inception(x, name)
    return x.mean().logits(classes).done()


@network(
    "googlenet-torchvision",
    paper=SZEGEDY14,
    note="torchvision's: batch norm, a 3x3 for each 5x5, the last pool 2x2, no auxiliary heads",
)
def torchvision(net: Draft, classes: int) -> Blueprint:
    net.norm = Norm(eps=1e-3)
    with net.scope("stem"):
        x = net.image.conv_norm_relu(64, 7, 2, pad=3).max_pool(3, 2, ceil=True)
        x = x.conv_norm_relu(64, 1).conv_norm_relu(192, 3, pad=1)
    for name in MODULES:
        if name in ("3a", "4a", "5a"):
            x = x.max_pool(2 if name == "5a" else 3, 2, ceil=True)
        x = inception(x, name, Value.conv_norm_relu, large=3)
    return x.mean().dropout(0.2).logits(classes).done()

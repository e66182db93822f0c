"""OverFeat, the fast model."""

from __future__ import annotations

from convdyno.blueprint.draft import Draft
from convdyno.blueprint.graph import Blueprint
from convdyno.zoo.alexnet import classifier
from convdyno.zoo.registry import network

SERMANET = "arXiv:1312.6229"


def fast(net: Draft, classes: int, dropout: float) -> Blueprint:
    """Large windows first, 3x3 ones between the last two pools."""
    x = net.image.conv_relu(96, 11, 4).max_pool(2, 2)
    x = x.conv_relu(256, 5).max_pool(2, 2)
    for width in (512, 1024, 1024):
        x = x.conv_relu(width, 3, pad=1)
    return classifier(x.max_pool(2, 2), classes, dropout, (3072, 4096))


@network("overfeat", image=(231, 231, 3), paper=SERMANET, note="the fast model")
def overfeat(net: Draft, classes: int) -> Blueprint:
    return fast(net, classes, dropout=0.5)


@network("overfeat-nvcnn", image=(231, 231, 3), paper=SERMANET, note="nvcnn's: no dropout")
def nvcnn(net: Draft, classes: int) -> Blueprint:
    net.init = "glorot"
    return fast(net, classes, dropout=0)

"""VGG: 3x3 windows only, two or more between pools."""

from __future__ import annotations

from functools import partial

from convdyno.blueprint.draft import Draft
from convdyno.blueprint.graph import Blueprint
from convdyno.zoo.alexnet import classifier
from convdyno.zoo.registry import network

SIMONYAN = "arXiv:1409.1556"

CONFIGURATIONS = {
    11: ("A", (1, 1, 2, 2, 2)),
    13: ("B", (2, 2, 2, 2, 2)),
    16: ("D", (2, 2, 3, 3, 3)),
    19: ("E", (2, 2, 4, 4, 4)),
}


def vgg(net: Draft, classes: int, depths: tuple[int, ...], dropout: float = 0.5) -> Blueprint:
    """Five stages of 3x3 convolutions and a classifier of two wide layers."""
    x = net.image
    for stage, (width, depth) in enumerate(zip((64, 128, 256, 512, 512), depths, strict=True), 1):
        for number in range(1, depth + 1):
            x = x.conv(width, 3, pad=1, bias=True, name=f"conv{stage}_{number}").relu()
        x = x.max_pool(2, 2)
    return classifier(x, classes, dropout)


def nvcnn(net: Draft, classes: int, depths: tuple[int, ...]) -> Blueprint:
    """nvcnn leaves the dropout out."""
    net.init = "glorot"
    return vgg(net, classes, depths, dropout=0)


for layers, (letter, depths) in CONFIGURATIONS.items():
    network(f"vgg{layers}", batch=16, paper=SIMONYAN, note=f"configuration {letter}")(
        partial(vgg, depths=depths)
    )
for layers, (letter, depths) in CONFIGURATIONS.items():
    network(
        f"vgg{layers}-nvcnn",
        batch=16,
        paper=SIMONYAN,
        note=f"nvcnn's: configuration {letter} without dropout",
    )(partial(nvcnn, depths=depths))

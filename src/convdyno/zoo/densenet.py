"""DenseNet: each layer reads all that came before it in its stage."""

from __future__ import annotations

from functools import partial

from convdyno.blueprint.draft import Draft, Value
from convdyno.blueprint.graph import Blueprint
from convdyno.zoo.registry import network

HUANG = "arXiv:1608.06993"
DEPTHS = {121: (6, 12, 24, 16), 169: (6, 12, 32, 32), 201: (6, 12, 48, 32)}
GROWTH = 32


def layer(x: Value) -> Value:
    """What a layer adds: batch norm, ReLU and 1x1, the same with a 3x3."""
    y = x.norm().relu().conv(4 * GROWTH, 1)
    return x.concat(y.norm().relu().conv(GROWTH, 3, pad=1))


def densenet(net: Draft, classes: int, depths: tuple[int, ...]) -> Blueprint:
    """The whole network."""
    with net.scope("conv1"):
        x = net.image.conv_norm_relu(2 * GROWTH, 7, 2, pad=3)
    x = x.max_pool(3, 2, pad=1)
    for stage, depth in enumerate(depths, 1):
        if stage > 1:
            with net.scope(f"transition{stage - 1}"):
                half = max(1, x.channels // 2)
                x = x.norm().relu().conv(half, 1, exact=True).avg_pool(2, 2)
        for number in range(1, depth + 1):
            with net.scope(f"dense{stage}_{number}"):
                x = layer(x)
    with net.scope("last"):
        x = x.norm().relu()
    return x.mean().logits(classes).done()


for layers, depths in DEPTHS.items():
    network(
        f"densenet{layers}",
        batch=16,
        paper=HUANG,
        note=f"{layers} layers, each adds {GROWTH} channels to all before it",
    )(partial(densenet, depths=depths))

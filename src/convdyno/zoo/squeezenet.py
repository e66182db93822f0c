"""SqueezeNet: 1x1 convolutions to few channels, then 1x1 and 3x3 side by side."""

from __future__ import annotations

from convdyno.blueprint.draft import Draft, Value
from convdyno.blueprint.graph import Blueprint
from convdyno.zoo.registry import network

IANDOLA = "arXiv:1602.07360"


def fire(x: Value, few: int, many: int) -> Value:
    """Few channels, and out of them twice as many as `many`."""
    x = x.conv_relu(few, 1)
    return x.conv_relu(many, 1).concat(x.conv_relu(many, 3, pad=1))


def fires(x: Value, pooled: tuple[int, ...]) -> Value:
    """fire2 to fire9; after some of them the size is halved."""
    sizes = ((16, 64), (16, 64), (32, 128), (32, 128), (48, 192), (48, 192), (64, 256), (64, 256))
    for number, (few, many) in enumerate(sizes, 2):
        with x.draft.scope(f"fire{number}"):
            x = fire(x, few, many)
        if number in pooled:
            x = x.max_pool(3, 2, ceil=True)
    return x


def answer(x: Value, classes: int) -> Blueprint:
    """A score for each class at each position, and their mean."""
    return (
        x.dropout(0.5).conv(classes, 1, bias=True, exact=True, name="conv10").relu().mean().done()
    )


@network("squeezenet1.0", paper=IANDOLA, note="the paper's; pools hang over the edge")
def squeezenet10(net: Draft, classes: int) -> Blueprint:
    x = net.image.conv(96, 7, 2, bias=True, name="conv1").relu().max_pool(3, 2, ceil=True)
    return answer(fires(x, (4, 8)), classes)


@network("squeezenet1.1", paper=IANDOLA, note="its authors' later one, 2.4 times less to compute")
def squeezenet11(net: Draft, classes: int) -> Blueprint:
    x = net.image.conv(64, 3, 2, bias=True, name="conv1").relu().max_pool(3, 2, ceil=True)
    return answer(fires(x, (3, 5)), classes)

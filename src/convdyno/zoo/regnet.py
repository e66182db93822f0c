"""RegNet: stages of grouped bottlenecks whose widths and depths a rule gives (at 3.2 GMAC)."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from convdyno.blueprint.draft import Draft, Value
from convdyno.blueprint.graph import Blueprint
from convdyno.zoo.registry import network

RADOSAVOVIC = "arXiv:2003.13678"


class Design(NamedTuple):
    """What the rule gives for a budget of computation."""

    widths: tuple[int, ...]
    depths: tuple[int, ...]
    group: int
    """Channels in one group of a 3x3."""
    squeeze: bool = False


X = Design((96, 192, 432, 1008), (2, 6, 15, 2), 48)
Y = Design((72, 216, 576, 1512), (2, 5, 13, 1), 24, squeeze=True)


def block(x: Value, width: int, first: bool, design: Design) -> Value:
    """1x1, a grouped 3x3 that takes the stride, a gate in some, 1x1; all of one width."""
    stride, groups = 2 if first else 1, x.draft.channels(width // design.group)
    wide = x.draft.channels(width, groups)
    y = x.conv(wide, 1, exact=True).norm().relu()
    y = y.conv(wide, 3, stride, pad=1, groups=groups, exact=True).norm().relu()
    if design.squeeze:
        y = y.squeeze_excite(max(1, round(x.channels / 4)), "relu", "sigmoid")
    y = y.conv(wide, 1, exact=True).norm()
    if first:
        with x.draft.scope("shortcut"):
            x = x.conv(wide, 1, stride, exact=True).norm()
    return (x + y).relu()


def regnet(net: Draft, classes: int, design: Design) -> Blueprint:
    """The whole network."""
    with net.scope("stem"):
        x = net.image.conv_norm_relu(32, 3, 2, pad=1)
    for stage, (width, depth) in enumerate(zip(design.widths, design.depths, strict=True), 1):
        for number in range(1, depth + 1):
            with net.scope(f"stage{stage}_{number}"):
                x = block(x, width, number == 1, design)
    return x.mean().logits(classes).done()


rule = partial(network, paper=RADOSAVOVIC)
rule("regnetx-3.2", note="RegNetX of 3.2 GMAC: groups of 48 channels")(partial(regnet, design=X))
rule("regnety-3.2", note="RegNetY of 3.2 GMAC: groups of 24 channels, gates")(
    partial(regnet, design=Y)
)

"""ConvNeXt: a ResNet brought up to date, with 7x7 windows of single channels and layer norm."""

from __future__ import annotations

from convdyno.blueprint.draft import Draft, Value
from convdyno.blueprint.graph import Blueprint
from convdyno.zoo.registry import network

LIU = "arXiv:2201.03545"
WIDTHS, DEPTHS = (96, 192, 384, 768), (3, 3, 9, 3)


def block(x: Value) -> Value:
    """A 7x7 for each channel, layer norm, 1x1 to four times as many, GELU, 1x1, a small factor."""
    count = x.channels
    y = x.conv(count, 7, pad=3, groups=count, bias=True, exact=True).channel_norm()
    y = y.conv(4 * count, 1, bias=True, exact=True).act("gelu")
    return x + y.conv(count, 1, bias=True, exact=True).channel_scale()


@network("convnext-tiny", batch=16, paper=LIU, note="no batch norm: layer norm over channels; GELU")
def convnext_tiny(net: Draft, classes: int) -> Blueprint:
    with net.scope("stem"):
        x = net.image.conv(WIDTHS[0], 4, 4, bias=True).channel_norm()
    for stage, (width, depth) in enumerate(zip(WIDTHS, DEPTHS, strict=True), 1):
        if stage > 1:
            with net.scope(f"shrink{stage - 1}"):
                x = x.channel_norm().conv(width, 2, 2, bias=True)
        for number in range(1, depth + 1):
            with net.scope(f"stage{stage}_{number}"):
                x = block(x)
    return x.mean().channel_norm(name="norm").logits(classes).done()

"""ShuffleNet v2: half of the channels pass by, then all are shuffled."""

from __future__ import annotations

from convdyno.blueprint.draft import Draft, Value
from convdyno.blueprint.graph import Blueprint
from convdyno.zoo.mobilenet import depthwise
from convdyno.zoo.registry import network

MA = "arXiv:1807.11164"


def branch(x: Value, half: int, stride: int) -> Value:
    """1x1, a 3x3 for each channel, 1x1."""
    y = depthwise(x.conv(half, 1, exact=True).norm().relu(), 3, stride)
    return y.conv(half, 1, exact=True).norm().relu()


def shrink(x: Value, half: int) -> Value:
    """Both branches read all channels, and halve the size."""
    with x.draft.scope("shortcut"):
        y = depthwise(x, 3, 2).conv(half, 1, exact=True).norm().relu()
    return y.concat(branch(x, half, 2)).shuffle(2)


@network("shufflenet2-1.0", paper=MA, note="1x: stages of 116, 232 and 464 channels")
def shufflenet2(net: Draft, classes: int) -> Blueprint:
    with net.scope("stem"):
        x = net.image.conv_norm_relu(24, 3, 2, pad=1)
    x = x.max_pool(3, 2, pad=1)
    for stage, (width, depth) in enumerate(((116, 4), (232, 8), (464, 4)), 2):
        half = net.channels(width, 2) // 2
        with net.scope(f"stage{stage}_1"):
            x = shrink(x, half)
        for number in range(2, depth + 1):
            with net.scope(f"stage{stage}_{number}"):
                kept, y = x.split()
                x = kept.concat(branch(y, half, 1)).shuffle(2)
    with net.scope("last"):
        x = x.conv_norm_relu(1024, 1)
    return x.mean().logits(classes).done()

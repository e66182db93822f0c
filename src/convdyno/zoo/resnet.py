"""ResNet for ImageNet as of 2015 (v1) and with the stride moved to the 3x3 (v1.5).

Blocks are called `conv2_1` to `conv5_3`, as in table 1 of the paper.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from convdyno.blueprint.draft import Draft, Padding, Value
from convdyno.blueprint.graph import Blueprint
from convdyno.blueprint.ops import Norm
from convdyno.zoo.registry import Drawing, network

HE15 = "arXiv:1512.03385"
GOYAL = "arXiv:1706.02677"
ZAGORUYKO = "arXiv:1605.07146"
HU = "arXiv:1709.01507"

DEPTHS = {
    18: (2, 2, 2, 2),
    34: (3, 4, 6, 3),
    50: (3, 4, 6, 3),
    101: (3, 4, 23, 3),
    152: (3, 8, 36, 3),
}
BATCHES = {18: 32, 34: 32, 50: 32, 101: 16, 152: 16}
BOTTLENECKS = (50, 101, 152)

Block = Callable[[Value, int, int, bool], Value]
"""(input, width, stride, whether it is the first of its stage) -> output."""


def shortcut(x: Value, out: int, stride: int, bias: bool = False) -> Value:
    """The projection on the shortcut, with batch norm."""
    with x.draft.scope("shortcut"):
        return x.conv(out, 1, stride, bias=bias).norm()


def basic(x: Value, width: int, stride: int, first: bool) -> Value:
    """Two 3x3 convolutions; the first takes the stride."""
    y = x.conv_norm_relu(width, 3, stride, pad=1).conv_norm(width, 3, pad=1)
    return (y + (shortcut(x, width, stride) if stride > 1 else x)).relu()


def bottleneck(x: Value, width: int, stride: int, first: bool, bias: bool = False) -> Value:
    """1x1, 3x3, 1x1; the first takes the stride."""
    y = x.conv(width, 1, stride, bias=bias).norm().relu()
    y = y.conv(width, 3, pad=1, bias=bias).norm().relu()
    y = y.conv(4 * width, 1, bias=bias).norm()
    return (y + (shortcut(x, 4 * width, stride, bias) if first else x)).relu()


def bottleneck_v15(x: Value, width: int, stride: int, first: bool) -> Value:
    """1x1, 3x3, 1x1; the 3x3 takes the stride."""
    y = x.conv_norm_relu(width, 1).conv_norm_relu(width, 3, stride, pad=1).conv_norm(4 * width, 1)
    return (y + (shortcut(x, 4 * width, stride) if first else x)).relu()


def wide_bottleneck(x: Value, width: int, stride: int, first: bool) -> Value:
    """v1.5 with a 3x3 of twice as many channels."""
    y = x.conv_norm_relu(2 * width, 1).conv_norm_relu(2 * width, 3, stride, pad=1)
    y = y.conv_norm(4 * width, 1)
    return (y + (shortcut(x, 4 * width, stride) if first else x)).relu()


def gated_bottleneck(x: Value, width: int, stride: int, first: bool) -> Value:
    """v1.5 with a gate before the sum."""
    y = x.conv_norm_relu(width, 1).conv_norm_relu(width, 3, stride, pad=1).conv_norm(4 * width, 1)
    y = y.squeeze_excite(max(1, y.channels // 16), "relu", "sigmoid")
    return (y + (shortcut(x, 4 * width, stride) if first else x)).relu()


def stages(x: Value, block: Block, depths: tuple[int, ...]) -> Value:
    """conv2_x to conv5_x: the width doubles and the size halves from stage to stage."""
    for stage, (width, depth) in enumerate(zip((64, 128, 256, 512), depths, strict=True), 2):
        for number in range(1, depth + 1):
            first = number == 1
            with x.draft.scope(f"conv{stage}_{number}"):
                x = block(x, width, 2 if first and stage > 2 else 1, first)
    return x


def resnet(
    net: Draft,
    classes: int,
    block: Block,
    depths: tuple[int, ...],
    pool_pad: Padding = 1,
    bias: bool = False,
) -> Blueprint:
    """The whole network."""
    with net.scope("conv1"):
        x = net.image.conv(64, 7, 2, pad=3, bias=bias).norm().relu()
    x = stages(x.max_pool(3, 2, pad=pool_pad), block, depths)
    return x.mean().logits(classes).done()


def each_depth(
    name: str, paper: str, note: str, depths: Iterable[int] = BOTTLENECKS
) -> Callable[[Drawing], Drawing]:
    """Put a network of each depth on the zoo's list; `{}` in its name stands for the layers."""

    def register(draw: Drawing) -> Drawing:
        for layers in depths:
            entry = network(name.format(layers), batch=BATCHES[layers], paper=paper, note=note)
            entry(partial(draw, depths=DEPTHS[layers]))
        return draw

    return register


each_depth("resnet{}", HE15, "blocks of two 3x3", (18, 34))(partial(resnet, block=basic))
each_depth("resnet{}", HE15, "v1: the first 1x1 takes the stride")(
    partial(resnet, block=bottleneck)
)
each_depth("resnet{}-v1.5", GOYAL, "v1.5, torchvision's: the 3x3 takes the stride")(
    partial(resnet, block=bottleneck_v15)
)


each_depth("wide-resnet{}-2", ZAGORUYKO, "v1.5 with twice as many channels in the 3x3", (50,))(
    partial(resnet, block=wide_bottleneck)
)
each_depth("se-resnet{}", HU, "v1.5 with a gate (squeeze-excite) in each block", (50,))(
    partial(resnet, block=gated_bottleneck)
)


@each_depth("resnet{}-keras", HE15, "keras.applications': v1 with a bias in each convolution")
def keras(net: Draft, classes: int, depths: tuple[int, ...]) -> Blueprint:
    """Keras's batch norm, and a bias before each."""
    net.norm = Norm(eps=1.001e-5, decay=0.99)
    return resnet(net, classes, partial(bottleneck, bias=True), depths, bias=True)


@each_depth(
    "resnet{}-nvcnn",
    HE15,
    "nvcnn's: v1 with the first pool padded at the far side only, batch norm eps 1e-4",
)
def nvcnn(
    net: Draft, classes: int, depths: tuple[int, ...], block: Block = bottleneck
) -> Blueprint:
    """nvcnn's batch norm, first pool and start."""
    net.init = "glorot"
    net.norm = Norm(eps=1e-4)
    return resnet(net, classes, block, depths, pool_pad="same")

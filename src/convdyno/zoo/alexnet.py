"""AlexNet: two columns in 2012, a single one in 2014, and what tools made of them."""

from __future__ import annotations

from functools import partial

from convdyno.blueprint.draft import Draft, Value
from convdyno.blueprint.graph import Blueprint
from convdyno.zoo.registry import network

KRIZHEVSKY12 = "Krizhevsky et al. 2012"
KRIZHEVSKY14 = "arXiv:1404.5997"
network227 = partial(network, image=(227, 227, 3), batch=64)


def classifier(
    x: Value, classes: int, dropout: float = 0.5, widths: tuple[int, int] = (4096, 4096)
) -> Blueprint:
    """Two wide layers, dropout on what each gives."""
    x = x.flatten()
    for name, width in zip(("fc6", "fc7"), widths, strict=True):
        x = x.dense(width, name=name).relu().dropout(dropout)
    return x.logits(classes).done()


def padded(x: Value, classes: int, widths: tuple[int, ...], dropout: float = 0.5) -> Blueprint:
    """Windows of 3x3 that keep the size, the last pool and the classifier."""
    for width in widths:
        x = x.conv_relu(width, 3, pad="same")
    return classifier(x.max_pool(3, 2), classes, dropout)


@network("alexnet", batch=64, paper=KRIZHEVSKY14, note="one weird trick's, as torchvision has it")
def alexnet(net: Draft, classes: int) -> Blueprint:
    x = net.image.conv_relu(64, 11, 4, pad=2).max_pool(3, 2)
    x = x.conv_relu(192, 5, pad=2).max_pool(3, 2)
    for width in (384, 256, 256):
        x = x.conv_relu(width, 3, pad=1)
    x = x.max_pool(3, 2).flatten()
    for name in ("fc6", "fc7"):
        x = x.dropout(0.5).dense(4096, name=name).relu()
    return x.logits(classes).done()


def unpadded(net: Draft, classes: int, widths: tuple[int, int, int]) -> Blueprint:
    """The first window has no padding, so the image is 3 larger."""
    x = net.image.conv_relu(64, 11, 4).max_pool(3, 2)
    x = x.conv_relu(192, 5, pad="same").max_pool(3, 2)
    return padded(x, classes, widths)


@network227(
    "alexnet-nvcnn",
    paper=KRIZHEVSKY14,
    note="nvcnn's: no padding at the first window, dropout after the dense layers",
)
def nvcnn(net: Draft, classes: int) -> Blueprint:
    net.init = "glorot"
    return unpadded(net, classes, (384, 256, 256))


network227(
    "alexnet-tfcnn",
    paper=KRIZHEVSKY14,
    note="tf_cnn_benchmarks': no padding at the first window, widths 384, 384, 256",
)(partial(unpadded, widths=(384, 384, 256)))


@network(
    "alexnet-tfperftest",
    batch=64,
    paper=KRIZHEVSKY14,
    note="tfperftest's: response normalisation, first window padded to the stride, no dropout",
)
def tfperftest(net: Draft, classes: int) -> Blueprint:
    x = net.image.conv_relu(64, 11, 4, pad="same").lrn(2, 2e-5, 0.75).max_pool(3, 2)
    x = x.conv_relu(192, 5, pad="same").lrn(2, 2e-5, 0.75).max_pool(3, 2)
    return padded(x, classes, (384, 256, 256), dropout=0)


@network227(
    "alexnet-2012",
    paper=KRIZHEVSKY12,
    note="two groups, response normalisation over 5 channels",
)
def original(net: Draft, classes: int) -> Blueprint:
    def conv(x: Value, out: int, kernel: int, groups: int = 2) -> Value:
        wide = net.channels(out, 2)
        return x.conv(wide, kernel, pad="same", groups=groups, bias=True, exact=True).relu()

    wide = net.channels(96, 2)
    x = net.image.conv(wide, 11, 4, bias=True, exact=True).relu().lrn(2, 1e-4, 0.75, 2.0)
    x = conv(x.max_pool(3, 2), 256, 5).lrn(2, 1e-4, 0.75, 2.0).max_pool(3, 2)
    x = conv(conv(conv(x, 384, 3, groups=1), 384, 3), 256, 3)
    return classifier(x.max_pool(3, 2), classes)


@network227(
    "alexnet-lrn",
    paper=KRIZHEVSKY12,
    note="dlbs': the widths of 2012 without groups, response normalisation over 11 channels",
)
def lrn(net: Draft, classes: int) -> Blueprint:
    net.init = "glorot"
    x = net.image.conv_relu(96, 11, 4).lrn(5, 1e-4, 0.75).max_pool(3, 2)
    x = x.conv_relu(256, 5, pad="same").lrn(5, 1e-4, 0.75).max_pool(3, 2)
    return padded(x, classes, (384, 384, 256))

"""Parameters and multiply-accumulates against published figures, or against sums done by hand."""

import math
from typing import NamedTuple

import pytest

from convdyno.blueprint.graph import Blueprint
from convdyno.zoo.registry import build, networks

TV = "torchvision 0.15+, torchvision/models/{}.py: num_params and _ops of the weights' meta"
TIMM = "pytorch-image-models, results/benchmark-infer-amp-nchw-pt240-cu124-rtx3090.csv"
KERAS = "keras.applications, model.summary(): trainable parameters"
KERAS_CIFAR = "keras/examples/cifar10_resnet.py, model.summary(): trainable parameters"
DLBS = "HewlettPackard/dlcookbook-dlbs, docs/models/models.md"
HE15 = "He et al. 2015 (arXiv:1512.03385), table 1 (FLOPs are multiply-adds) or table 6"


class Figure(NamedTuple):
    """What somebody published."""

    network: str
    parameters: str
    gmac: str | None
    source: str
    slack: float = 0.0
    """Relative; where the source counts more than convolutions and dense layers, or rounds."""


PUBLISHED = [
    Figure("alexnet", "61,100,840", "0.714", TV.format("alexnet")),
    Figure("vgg11", "132,863,336", "7.609", TV.format("vgg")),
    Figure("vgg13", "133,047,848", "11.308", TV.format("vgg")),
    Figure("vgg16", "138,357,544", "15.47", TV.format("vgg")),
    Figure("vgg19", "143,667,240", "19.632", TV.format("vgg")),
    Figure("resnet18", "11,689,512", "1.814", TV.format("resnet")),
    Figure("resnet34", "21,797,672", "3.664", TV.format("resnet")),
    Figure("resnet50-v1.5", "25,557,032", "4.089", TV.format("resnet")),
    Figure("resnet101-v1.5", "44,549,160", "7.801", TV.format("resnet")),
    Figure("resnet152-v1.5", "60,192,808", "11.514", TV.format("resnet")),
    Figure("resnext50", "25,028,904", "4.23", TV.format("resnet")),
    # torchvision's num_params: its weights are published without the auxiliary heads.
    Figure("googlenet-torchvision", "6,624,904", "1.498", TV.format("googlenet")),
    Figure("inception3-torchvision", "23.83 M", "5.713", f"{TIMM}; {TV.format('inception')}"),
    Figure("inception3", "23.83 M", "5.73", TIMM, slack=0.01),
    # v1 has torchvision's weights, but its stride elsewhere; the paper has no parameter counts.
    Figure("resnet50", "25,557,032", "3.8", f"{TV.format('resnet')}; {HE15}", slack=0.02),
    Figure("resnet101", "44,549,160", "7.6", f"{TV.format('resnet')}; {HE15}", slack=0.02),
    Figure("resnet152", "60,192,808", "11.3", f"{TV.format('resnet')}; {HE15}", slack=0.02),
    Figure("resnet50-nvcnn", "25,557,032", "3.8", f"{TV.format('resnet')}; {HE15}", slack=0.02),
    Figure("resnet101-nvcnn", "44,549,160", "7.6", f"{TV.format('resnet')}; {HE15}", slack=0.02),
    Figure("resnet152-nvcnn", "60,192,808", "11.3", f"{TV.format('resnet')}; {HE15}", slack=0.02),
    Figure("resnet50-keras", "25,583,592", None, KERAS),
    Figure("resnet101-keras", "44,601,832", None, KERAS),
    Figure("resnet152-keras", "60,268,520", None, KERAS),
    Figure("resnet50-v2", "25.55 M", "4.11", TIMM, slack=0.01),
    Figure("resnet101-v2", "44.54 M", "7.83", TIMM, slack=0.01),
    Figure("resnet152-v2", "60.19 M", "11.55", TIMM, slack=0.01),
    Figure("resnext101", "44.18 M", "8.01", TIMM, slack=0.01),
    Figure("inception4", "42.68 M", "12.28", TIMM, slack=0.01),
    Figure("inception4-slim", "42.68 M", "12.28", TIMM, slack=0.01),
    Figure("inception4-nvcnn", "42.68 M", "12.28", TIMM, slack=0.01),
    Figure("inception-resnet2-slim", "55,813,192", "13.18", f"{KERAS}; {TIMM}", slack=0.01),
    Figure("alexnet-lrn", "62,378,344", "1.14", DLBS),
    Figure("overfeat", "145,920,872", None, DLBS),
    Figure("overfeat-nvcnn", "145,920,872", None, DLBS),
    Figure("vgg11-nvcnn", "132,863,336", None, DLBS),
    Figure("vgg13-nvcnn", "133,047,848", None, DLBS),
    Figure("vgg16-nvcnn", "138,357,544", None, DLBS),
    Figure("vgg19-nvcnn", "143,667,240", None, DLBS),
    # The paper (arXiv:1409.4842) sets a budget of 1.5 billion multiply-adds.
    Figure("googlenet", "6,998,552", "1.5", f"{DLBS}; the paper's budget", slack=0.06),
    Figure("googlenet-nvcnn", "6,998,552", "1.5", f"{DLBS}; the paper's budget", slack=0.06),
    Figure("deepmnist", "3,274,634", None, "model.summary() of the tutorial's network in Keras"),
    Figure("wide-resnet50-2", "68,883,240", "11.398", TV.format("resnet")),
    Figure("se-resnet50", "28.09 M", "4.11", TIMM, slack=0.01),
    Figure("densenet121", "7,978,856", "2.834", TV.format("densenet")),
    Figure("densenet169", "14,149,480", "3.36", TV.format("densenet")),
    Figure("densenet201", "20,013,928", "4.291", TV.format("densenet")),
    Figure("squeezenet1.0", "1,248,424", "0.819", TV.format("squeezenet")),
    Figure("squeezenet1.1", "1,235,496", "0.349", TV.format("squeezenet")),
    Figure("mobilenet1", "4.23 M", "0.58", TIMM, slack=0.03),
    Figure("mobilenet2", "3,504,872", "0.301", TV.format("mobilenetv2")),
    Figure("mnasnet1", "4,383,312", "0.314", TV.format("mnasnet")),
    Figure("mobilenet3-large", "5,483,032", "0.217", TV.format("mobilenetv3")),
    Figure("mobilenet3-small", "2,542,856", "0.057", TV.format("mobilenetv3")),
    Figure("shufflenet2-1.0", "2,278,604", "0.145", TV.format("shufflenetv2")),
    Figure("efficientnet-b0", "5,288,548", "0.386", TV.format("efficientnet")),
    Figure("efficientnet2-s", "21,458,488", "8.366", TV.format("efficientnet")),
    Figure("regnetx-3.2", "15,296,552", "3.177", TV.format("regnet")),
    Figure("regnety-3.2", "19,436,338", "3.176", TV.format("regnet")),
    Figure("convnext-tiny", "28,589,128", "4.456", TV.format("convnext")),
    Figure("resnet20", "0.27 M", None, HE15),
    Figure("resnet32", "0.46 M", None, HE15),
    Figure("resnet44", "0.66 M", None, HE15),
    Figure("resnet56", "0.85 M", None, HE15),
    Figure("resnet110", "1.7 M", None, HE15),
    Figure("resnet20-keras", "273,066", None, KERAS_CIFAR),
    Figure("resnet29-keras-v2", "843,786", None, KERAS_CIFAR),
]


def agrees(published: str, value: float, slack: float = 0.0) -> bool:
    """Whether the value rounds to what was published, give or take a relative slack."""
    number, _, unit = published.replace(",", "").partition(" ")
    scale = {"": 1.0, "M": 1e6}[unit]
    half = 0.5 * 10.0 ** -len(number.partition(".")[2])
    return abs(value / scale - float(number)) <= half + slack * float(number)


@pytest.mark.parametrize("figure", PUBLISHED, ids=lambda f: f.network)
def test_parameters_are_the_published_ones(figure: Figure) -> None:
    assert agrees(figure.parameters, build(figure.network).parameters), figure.source


@pytest.mark.parametrize("figure", [f for f in PUBLISHED if f.gmac], ids=lambda f: f.network)
def test_macs_are_the_published_ones(figure: Figure) -> None:
    assert figure.gmac
    assert agrees(figure.gmac, build(figure.network).macs / 1e9, figure.slack), figure.source


def test_inception3_with_its_auxiliary_head_is_torchvisions() -> None:
    # torchvision/models/inception.py: num_params 27161264 and _ops 5.713, without the head's
    blueprint = build("inception3-torchvision", auxiliary=True)
    assert blueprint.parameters == 27_161_264
    assert agrees("5.713", blueprint.for_inference().macs / 1e9)


# keras.io/api/applications up to 2020 printed all digits; these count moving averages too.
@pytest.mark.parametrize(
    ("network", "total"),
    {
        "vgg16": 138_357_544,
        "vgg19": 143_667_240,
        "resnet50-keras": 25_636_712,
        "resnet101-keras": 44_707_176,
        "resnet152-keras": 60_419_944,
        "inception-resnet2-slim": 55_873_736,
    }.items(),
)
def test_all_weights_are_those_of_keras_applications(network: str, total: int) -> None:
    assert weight_count(build(network)) == total


def test_inception3_without_norm_scales_has_the_weights_of_keras_applications() -> None:
    # Keras's InceptionV3: 23,851,784 in all; its batch norm has no scale.
    blueprint = build("inception3")
    scales = sum(math.prod(s) for name, s in blueprint.weights.items() if name.endswith("/scale"))
    assert weight_count(blueprint) - scales == 23_851_784


# What follows has no published figure that we know of.


def test_the_dense_ones_by_hand() -> None:
    assert build("trivial").parameters == 32 * 32 * 3 * 10 + 10
    assert build("trivial-nvcnn").parameters == (224 * 224 * 3 + 1) + (1000 + 1000)


def test_lenet_by_hand() -> None:
    lenet = build("lenet")
    assert lenet.parameters == plain(25, 1, 32) + plain(25, 32, 64) + plain(1, 3136, 512) + 5130
    assert lenet.macs == 28 * 28 * 25 * 32 + 14 * 14 * 25 * 32 * 64 + 3136 * 512 + 5120


def test_the_alexnets_by_hand() -> None:
    dense = plain(1, 9216, 4096) + plain(1, 4096, 4096) + plain(1, 4096, 1000)
    first = plain(121, 3, 64) + plain(25, 64, 192) + plain(9, 192, 384)
    narrow = first + plain(9, 384, 256) + plain(9, 256, 256) + dense
    assert build("alexnet-nvcnn").parameters == narrow
    assert build("alexnet-tfperftest").parameters == narrow
    wide = first + plain(9, 384, 384) + plain(9, 384, 256) + dense
    assert build("alexnet-tfcnn").parameters == wide
    # The sizes of section 3.5 of the paper, whose abstract says 60 million.
    grouped = plain(121, 3, 96) + plain(25, 48, 256) + plain(9, 256, 384)
    grouped += plain(9, 192, 384) + plain(9, 192, 256) + dense
    assert build("alexnet-2012").parameters == grouped


def test_a_first_window_padded_to_the_stride_sees_56_positions_instead_of_55() -> None:
    more = build("alexnet-tfperftest").macs - build("alexnet").macs
    assert more == (56**2 - 55**2) * 121 * 3 * 64


def test_googlenets_auxiliary_heads_by_hand() -> None:
    more = build("googlenet", auxiliary=True).parameters - build("googlenet").parameters
    heads = [plain(1, c, 128) + plain(1, 2048, 1024) + plain(1, 1024, 1000) for c in (512, 528)]
    assert more == sum(heads)


def test_the_stride_of_v1_saves_three_quarters_of_three_windows() -> None:
    # The first 1x1 of conv3_1, conv4_1 and conv5_1 at half the size.
    saved = 3 * (56 * 56 * 256 * 128) * 3 // 4
    for layers in (50, 101, 152):
        assert build(f"resnet{layers}-v1.5").macs - build(f"resnet{layers}").macs == saved


def test_tfperftests_resnet_has_the_layers_of_v2_and_the_cost_of_v1() -> None:
    # Its first block halves what the pool halves elsewhere: the cost is the same.
    blueprint = build("resnet152-tfperftest")
    assert blueprint.parameters == build("resnet152-v2").parameters
    assert blueprint.macs == build("resnet152").macs


@pytest.mark.parametrize(
    ("layers", "depths"), [(50, (3, 4, 6, 3)), (101, (3, 4, 23, 3)), (152, (3, 8, 36, 3))]
)
def test_nvcnns_resnext_by_hand(layers: int, depths: tuple[int, ...]) -> None:
    # 32 branches of 4 channels in every stage: a 1x1 to 128, a 3x3 of 4 inputs each, a 1x1.
    total, before = normed(49, 3, 64), 64
    for out, depth in zip((256, 512, 1024, 2048), depths, strict=True):
        block = normed(9, 4, 128) + normed(1, 128, out)
        total += normed(1, before, 128) + block + normed(1, before, out)
        total += (depth - 1) * (normed(1, out, 128) + block)
        before = out
    assert build(f"resnext{layers}-nvcnn").parameters == total + plain(1, 2048, 1000)


def test_nvcnns_inception_resnet_by_hand() -> None:
    stem = normed(9, 3, 32) + normed(9, 32, 32) + normed(9, 32, 64) + normed(9, 64, 96)
    stem += 2 * normed(1, 160, 64) + 2 * normed(9, 64, 96) + 2 * normed(7, 64, 64)
    stem += normed(9, 192, 192)
    a = 3 * normed(1, 384, 32) + normed(9, 32, 32) + normed(9, 32, 48) + normed(9, 48, 64)
    a += normed(1, 128, 384)
    reduction_a = normed(9, 384, 384) + normed(1, 384, 256) + normed(9, 256, 256)
    reduction_a += normed(9, 256, 384)
    b = normed(1, 1152, 192) + normed(1, 1152, 128) + normed(7, 128, 160) + normed(7, 160, 192)
    b += normed(1, 384, 1152)
    reduction_b = 3 * normed(1, 1152, 256) + normed(9, 256, 384) + 3 * normed(9, 256, 256)
    c = 2 * normed(1, 2048, 192) + normed(3, 192, 224) + normed(3, 224, 256)
    c += normed(1, 448, 2048)
    total = stem + 5 * a + reduction_a + 10 * b + reduction_b + 5 * c + plain(1, 2048, 1000)
    assert build("inception-resnet2").parameters == total


def test_nvcnns_inception3_has_the_layers_of_inception3() -> None:
    ours, theirs = build("inception3"), build("inception3-nvcnn")
    assert (theirs.parameters, theirs.macs) == (ours.parameters, ours.macs)


@pytest.mark.parametrize("layers", [32, 44, 56, 110])
def test_kerass_deeper_v1_add_equal_blocks(layers: int) -> None:
    block = sum(2 * (plain(9, w, w) + 2 * w) for w in (16, 32, 64))
    more = (layers - 20) // 6 * block
    assert build(f"resnet{layers}-keras").parameters == 273_066 + more


@pytest.mark.parametrize("layers", [20, 56, 110])
def test_kerass_other_v2_add_equal_blocks(layers: int) -> None:
    block = sum(
        2 * out + plain(1, out, w) + 2 * w + plain(9, w, w) + 2 * w + plain(1, w, out)
        for w, out in ((16, 64), (64, 128), (128, 256))
    )
    more = (layers - 29) // 9 * block
    assert build(f"resnet{layers}-keras-v2").parameters == 843_786 + more


def test_every_network_is_held_by_a_figure_here() -> None:
    by_hand = {"trivial", "trivial-nvcnn", "lenet", "inception-resnet2", "inception3-nvcnn"}
    by_hand |= {"alexnet-nvcnn", "alexnet-tfperftest", "alexnet-tfcnn", "alexnet-2012"}
    by_hand |= {"resnet152-tfperftest"} | {f"resnext{n}-nvcnn" for n in (50, 101, 152)}
    by_hand |= {f"resnet{n}-keras" for n in (32, 44, 56, 110)}
    by_hand |= {f"resnet{n}-keras-v2" for n in (20, 56, 110)}
    assert by_hand | {figure.network for figure in PUBLISHED} == set(networks())


def plain(window: int, inputs: int, out: int) -> int:
    """The parameters of a convolution with a bias."""
    return window * inputs * out + out


def normed(window: int, inputs: int, out: int) -> int:
    """The parameters of a convolution with batch norm."""
    return window * inputs * out + 2 * out


def weight_count(blueprint: Blueprint) -> int:
    return sum(math.prod(shape) for shape in blueprint.weights.values())

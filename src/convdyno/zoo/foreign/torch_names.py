"""What torchvision and timm call the layers of the zoo's networks: node -> module.

Where a scope of ours holds numbered convolutions, they are listed in the order of our numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache

from convdyno.zoo.convnext import DEPTHS as CONVNEXT_DEPTHS
from convdyno.zoo.densenet import DEPTHS as DENSE_DEPTHS
from convdyno.zoo.efficientnet import B0, V2_S, Blocks
from convdyno.zoo.googlenet import MODULES
from convdyno.zoo.mobilenet import LARGE, SMALL, Row
from convdyno.zoo.registry import build
from convdyno.zoo.regnet import Design, X, Y
from convdyno.zoo.resnet import BOTTLENECKS, DEPTHS
from convdyno.zoo.vgg import CONFIGURATIONS

Names = dict[str, str]


def _modules(endings: str, beginning: str = "branch") -> tuple[str, ...]:
    return tuple(f"{beginning}{ending}" for ending in endings.split())


INCEPTION3_STEM = _modules("1a_3x3 2a_3x3 2b_3x3 3b_1x1 4a_3x3", "Conv2d_")
INCEPTION3_A = _modules("1x1 5x5_1 5x5_2 3x3dbl_1 3x3dbl_2 3x3dbl_3 _pool")
INCEPTION3_B = _modules("3x3 3x3dbl_1 3x3dbl_2 3x3dbl_3")
INCEPTION3_C = _modules("1x1 7x7_1 7x7_2 7x7_3 7x7dbl_1 7x7dbl_2 7x7dbl_3 7x7dbl_4 7x7dbl_5 _pool")
INCEPTION3_D = _modules("3x3_1 3x3_2 7x7x3_1 7x7x3_2 7x7x3_3 7x7x3_4")
INCEPTION3_E = _modules("1x1 3x3_1 3x3_2a 3x3_2b 3x3dbl_1 3x3dbl_2 3x3dbl_3a 3x3dbl_3b _pool")
INCEPTION3 = {
    **dict.fromkeys(("5b", "5c", "5d"), INCEPTION3_A),
    "6a": INCEPTION3_B,
    **dict.fromkeys(("6b", "6c", "6d", "6e"), INCEPTION3_C),
    "7a": INCEPTION3_D,
    **dict.fromkeys(("7b", "7c"), INCEPTION3_E),
}

GOOGLENET = _modules("1 2.0 2.1 3.0 3.1 4.1")
INCEPTION4_STEM = (
    "0", "1", "2", "3.conv", "4.branch0.0", "4.branch0.1",
    "4.branch1.0", "4.branch1.1", "4.branch1.2", "4.branch1.3", "5.conv",
)  # fmt: skip
FOUR_BRANCHES = _modules("0 1.0 1.1 2.0 2.1 2.2 3.1")
INCEPTION4_B = _modules("0 1.0 1.1 1.2 2.0 2.1 2.2 2.3 2.4 3.1")
INCEPTION4_C = _modules("0 1_0 1_1a 1_1b 2_0 2_1 2_2 2_3a 2_3b 3.1")
REDUCTION_A = BLOCK17 = BLOCK8 = _modules("0 1.0 1.1 1.2")
INCEPTION4_REDUCTION_B = _modules("0.0 0.1 1.0 1.1 1.2 1.3")
MIXED_7A = _modules("0.0 0.1 1.0 1.1 2.0 2.1 2.2")
BLOCK35 = _modules("0 1.0 1.1 2.0 2.1 2.2")

DENSE_OF_VGG = ("pre_logits.fc1", "pre_logits.fc2", "head.fc")
PREACTIVATED = {f"resnet{layers}-v2": DEPTHS[layers] for layers in BOTTLENECKS}


def bricks(scope: str, modules: Iterable[str], prefix: str = "") -> Names:
    """Convolutions with batch norm, in the order of our numbers."""
    found = {}
    for number, module in enumerate(modules, 1):
        found[f"{scope}/conv{number}"] = f"{prefix}{module}.conv"
        found[f"{scope}/norm{number}"] = f"{prefix}{module}.bn"
    return found


def alexnet() -> Names:
    """torchvision's AlexNet."""
    places = {"conv1": 0, "conv2": 3, "conv3": 6, "conv4": 8, "conv5": 10}
    names = {node: f"features.{place}" for node, place in places.items()}
    return names | {"fc6": "classifier.1", "fc7": "classifier.4", "logits": "classifier.6"}


def vgg(depths: tuple[int, ...], dense: tuple[str, str, str]) -> Names:
    """VGG: in `features`, each convolution has a ReLU after it and each stage a pool."""
    names, place = {}, 0
    for stage, depth in enumerate(depths, 1):
        for number in range(1, depth + 1):
            names[f"conv{stage}_{number}"] = f"features.{place}"
            place += 2
        place += 1
    return names | dict(zip(("fc6", "fc7", "logits"), dense, strict=True))


def resnet(depths: tuple[int, ...], convolutions: int) -> Names:
    """ResNet with blocks of so many convolutions."""
    names = {"conv1/conv1": "conv1", "conv1/norm1": "bn1", "logits": "fc"}
    for stage, depth in enumerate(depths, 1):
        for block in range(depth):
            ours, theirs = f"conv{stage + 1}_{block + 1}", f"layer{stage}.{block}"
            for number in range(1, convolutions + 1):
                names[f"{ours}/conv{number}"] = f"{theirs}.conv{number}"
                names[f"{ours}/norm{number}"] = f"{theirs}.bn{number}"
            names[f"{ours}/shortcut/conv1"] = f"{theirs}.downsample.0"
            names[f"{ours}/shortcut/norm1"] = f"{theirs}.downsample.1"
    return names


def resnet_v2(depths: tuple[int, ...]) -> Names:
    """timm's ResNet v2: batch norm before each convolution, and once after the last block."""
    names = {"conv1/conv1": "stem.conv", "last/norm1": "norm", "logits": "head.fc"}
    for stage, depth in enumerate(depths):
        for block in range(depth):
            ours, theirs = f"conv{stage + 2}_{block + 1}", f"stages.{stage}.blocks.{block}"
            for number in (1, 2, 3):
                names[f"{ours}/conv{number}"] = f"{theirs}.conv{number}"
                names[f"{ours}/norm{number}"] = f"{theirs}.norm{number}"
            names[f"{ours}/shortcut/conv1"] = f"{theirs}.downsample.conv"
    return names


def googlenet() -> Names:
    """torchvision's GoogLeNet, without its auxiliary heads."""
    names = bricks("stem", ("conv1", "conv2", "conv3")) | {"logits": "fc"}
    for module in MODULES:
        names |= bricks(f"inception_{module}", GOOGLENET, f"inception{module}.")
    return names


def inception3() -> Names:
    """torchvision's and timm's Inception v3."""
    names = bricks("stem", INCEPTION3_STEM) | {"logits": "fc"}
    for module, branches in INCEPTION3.items():
        names |= bricks(f"mixed_{module}", branches, f"Mixed_{module}.")
    return names | bricks("aux", ("conv0", "conv1"), "AuxLogits.") | {"aux/logits": "AuxLogits.fc"}


def inception4() -> Names:
    """timm's Inception v4: everything before the classifier is numbered in `features`."""
    names = bricks("stem", INCEPTION4_STEM, "features.") | {"logits": "last_linear"}
    scopes = {f"a_{n}": FOUR_BRANCHES for n in range(1, 5)} | {"reduction_a": REDUCTION_A}
    scopes |= {f"b_{n}": INCEPTION4_B for n in range(1, 8)}
    scopes |= {"reduction_b": INCEPTION4_REDUCTION_B}
    scopes |= {f"c_{n}": INCEPTION4_C for n in range(1, 4)}
    for place, (scope, branches) in enumerate(scopes.items(), 6):
        names |= bricks(scope, branches, f"features.{place}.")
    return names


def inception_resnet2() -> Names:
    """timm's Inception-ResNet v2."""
    stem = _modules("1a 2a 2b 3b 4a", "conv2d_")
    names = bricks("stem", stem) | bricks("conv_7b", ("conv2d_7b",)) | {"logits": "classif"}
    names |= bricks("mixed_5b", FOUR_BRANCHES, "mixed_5b.")
    names |= bricks("mixed_6a", REDUCTION_A, "mixed_6a.")
    names |= bricks("mixed_7a", MIXED_7A, "mixed_7a.")
    blocks = [(f"block35_{n}", f"repeat.{n - 1}", BLOCK35) for n in range(1, 11)]
    blocks += [(f"block17_{n}", f"repeat_1.{n - 1}", BLOCK17) for n in range(1, 21)]
    blocks += [(f"block8_{n}", f"repeat_2.{n - 1}", BLOCK8) for n in range(1, 10)]
    blocks += [("block8_10", "block8", BLOCK8)]
    for ours, theirs, branches in blocks:
        names |= bricks(ours, branches, f"{theirs}.")
        names[f"{ours}/conv{len(branches) + 1}"] = f"{theirs}.conv2d"
    return names


def in_order(network: str, modules: Iterable[str]) -> Names:
    """A network whose layers come in the library's own order."""
    owners = dict.fromkeys(name.rpartition("/")[0] for name in build(network).weights)
    return dict(zip(owners, modules, strict=True))


def brick(*places: str) -> list[str]:
    """Convolutions with batch norm, each pair numbered 0 and 1."""
    return [f"{place}.{number}" for place in places for number in (0, 1)]


def mobilenet2() -> Names:
    """torchvision's MobileNet v2: the last 1x1 of a block is not in a pair."""
    modules = brick("features.0")
    for block in range(1, 18):
        pairs = 1 if block == 1 else 2
        modules += brick(*(f"features.{block}.conv.{pair}" for pair in range(pairs)))
        modules += [f"features.{block}.conv.{place}" for place in (pairs, pairs + 1)]
    return in_order("mobilenet2", [*modules, *brick("features.18"), "classifier.1"])


def mobilenet3(network: str, rows: Sequence[Row]) -> Names:
    """torchvision's MobileNet v3."""
    modules, before = brick("features.0"), 16
    for block, row in enumerate(rows, 1):
        kinds = ["brick"] * (2 if row.wide != before else 1) + ["gate"] * row.squeeze + ["brick"]
        modules += _numbered(f"features.{block}.block", kinds)
        before = row.out
    last = brick(f"features.{len(rows) + 1}")
    return in_order(network, [*modules, *last, "classifier.0", "classifier.3"])


def _numbered(prefix: str, kinds: Iterable[str]) -> list[str]:
    """The parts of a block by their place: bricks, and gates of two layers."""
    modules = []
    for place, kind in enumerate(kinds):
        part = f"{prefix}.{place}"
        modules += brick(part) if kind == "brick" else [f"{part}.fc1", f"{part}.fc2"]
    return modules


def efficientnet(network: str, stages: Sequence[Blocks]) -> Names:
    """torchvision's EfficientNets."""
    modules = brick("features.0")
    for number, stage in enumerate(stages, 1):
        wider = ["brick"] * (stage.times > 1)
        kinds = ["brick", *wider] if stage.fused else [*wider, "brick", "gate", "brick"]
        for block in range(stage.depth):
            modules += _numbered(f"features.{number}.{block}.block", kinds)
    return in_order(network, [*modules, *brick(f"features.{len(stages) + 1}"), "classifier.1"])


def mnasnet() -> Names:
    """torchvision's MnasNet: everything is numbered, activations too."""
    places = (0, 1, 3, 4, 6, 7)
    modules = [f"layers.{place}" for place in places]
    for stage, depth in enumerate((3, 3, 3, 2, 4, 1), 8):
        for block in range(depth):
            modules += [f"layers.{stage}.{block}.layers.{place}" for place in places]
    return in_order("mnasnet1", [*modules, "layers.14", "layers.15", "classifier.1"])


def densenet(network: str, depths: Sequence[int]) -> Names:
    """torchvision's and timm's DenseNets."""
    modules = ["conv0", "norm0"]
    for stage, depth in enumerate(depths, 1):
        if stage > 1:
            modules += [f"transition{stage - 1}.norm", f"transition{stage - 1}.conv"]
        for layer in range(1, depth + 1):
            place = f"denseblock{stage}.denselayer{layer}"
            modules += [f"{place}.{part}" for part in ("norm1", "conv1", "norm2", "conv2")]
    return in_order(network, [*(f"features.{m}" for m in (*modules, "norm5")), "classifier"])


def squeezenet(network: str, places: Iterable[int]) -> Names:
    """torchvision's SqueezeNets, with the places of the fire modules."""
    parts = ("squeeze", "expand1x1", "expand3x3")
    fires = [f"features.{place}.{part}" for place in places for part in parts]
    return in_order(network, ["features.0", *fires, "classifier.1"])


def shufflenet2() -> Names:
    """torchvision's ShuffleNet v2."""
    modules = brick("conv1")
    for stage, depth in ((2, 4), (3, 8), (4, 4)):
        for block in range(depth):
            place = f"stage{stage}.{block}"
            first = [f"{place}.branch1.{part}" for part in (0, 1, 2, 3)] if block == 0 else []
            modules += first + [f"{place}.branch2.{part}" for part in (0, 1, 3, 4, 5, 6)]
    return in_order("shufflenet2-1.0", [*modules, *brick("conv5"), "fc"])


def regnet(network: str, design: Design) -> Names:
    """torchvision's RegNets."""
    modules = brick("stem")
    gate = ["f.se.fc1", "f.se.fc2"] if design.squeeze else []
    for stage, depth in enumerate(design.depths, 1):
        for block in range(depth):
            parts = [*brick("f.a", "f.b"), *gate, *brick("f.c"), *brick("proj") * (block == 0)]
            place = f"trunk_output.block{stage}.block{stage}-{block}"
            modules += [f"{place}.{part}" for part in parts]
    return in_order(network, [*modules, "fc"])


def convnext() -> Names:
    """torchvision's ConvNeXt: the odd features are stages, the even ones stand between them."""
    modules = brick("features.0")
    for stage, depth in enumerate(CONVNEXT_DEPTHS, 1):
        if stage > 1:
            modules += brick(f"features.{2 * stage - 2}")
        for block in range(depth):
            place = f"features.{2 * stage - 1}.{block}"
            modules += [*(f"{place}.block.{part}" for part in (0, 2, 3, 5)), place]
    return in_order("convnext-tiny", [*modules, "classifier.0", "classifier.2"])


def se_resnet() -> Names:
    """timm's ResNet with gates."""
    names = resnet(DEPTHS[50], 3)
    for stage, depth in enumerate(DEPTHS[50], 1):
        for block in range(depth):
            for number in (1, 2):
                ours = f"conv{stage + 1}_{block + 1}/gate/dense{number}"
                names[ours] = f"layer{stage}.{block}.se.fc{number}"
    return names


def _resnets() -> dict[str, Names]:
    return {
        f"resnet{layers}-v1.5" if layers in BOTTLENECKS else f"resnet{layers}": resnet(
            depths, 3 if layers in BOTTLENECKS else 2
        )
        for layers, depths in DEPTHS.items()
    }


@cache
def torchvision() -> dict[str, Names]:
    """The zoo's networks that torchvision has, and their names there."""
    dense = ("classifier.0", "classifier.3", "classifier.6")
    return {
        "alexnet": alexnet(),
        **{f"vgg{n}": vgg(depths, dense) for n, (_, depths) in CONFIGURATIONS.items()},
        **_resnets(),
        "resnext50": resnet(DEPTHS[50], 3),
        "wide-resnet50-2": resnet(DEPTHS[50], 3),
        "googlenet-torchvision": googlenet(),
        "inception3-torchvision": inception3(),
        **_densenets(),
        "squeezenet1.0": squeezenet("squeezenet1.0", (3, 4, 5, 7, 8, 9, 10, 12)),
        "squeezenet1.1": squeezenet("squeezenet1.1", (3, 4, 6, 7, 9, 10, 11, 12)),
        "mobilenet2": mobilenet2(),
        "mobilenet3-large": mobilenet3("mobilenet3-large", LARGE),
        "mobilenet3-small": mobilenet3("mobilenet3-small", SMALL),
        "mnasnet1": mnasnet(),
        "shufflenet2-1.0": shufflenet2(),
        "efficientnet-b0": efficientnet("efficientnet-b0", B0),
        "efficientnet2-s": efficientnet("efficientnet2-s", V2_S),
        "regnetx-3.2": regnet("regnetx-3.2", X),
        "regnety-3.2": regnet("regnety-3.2", Y),
        "convnext-tiny": convnext(),
    }


def _densenets() -> dict[str, Names]:
    return {f"densenet{n}": densenet(f"densenet{n}", depths) for n, depths in DENSE_DEPTHS.items()}


@cache
def timm() -> dict[str, Names]:
    """The zoo's networks that timm has, and their names there."""
    return {
        **{f"vgg{n}": vgg(depths, DENSE_OF_VGG) for n, (_, depths) in CONFIGURATIONS.items()},
        **_resnets(),
        **{f"resnext{n}": resnet(DEPTHS[n], 3) for n in (50, 101)},
        **{name: resnet_v2(depths) for name, depths in PREACTIVATED.items()},
        "wide-resnet50-2": resnet(DEPTHS[50], 3),
        "se-resnet50": se_resnet(),
        **_densenets(),
        "inception3-torchvision": inception3(),
        "inception4-slim": inception4(),
        "inception-resnet2-slim": inception_resnet2(),
    }


def as_convolution(network: str, layer: str) -> bool:
    """Whether a dense layer of ours is a convolution there: over the whole image, or in a gate."""
    if network in PREACTIVATED:
        return layer == "head.fc"
    return layer in DENSE_OF_VGG[:2] or layer.endswith((".fc1", ".fc2"))


def as_linear(network: str, layer: str) -> bool:
    """Whether a 1x1 convolution of ours is a dense layer on each position there."""
    return network == "convnext-tiny" and layer.endswith((".block.3", ".block.5"))

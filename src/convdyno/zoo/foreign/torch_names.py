"""What torchvision and timm call the layers of the zoo's networks: node -> module.

Where a scope of ours holds numbered convolutions, they are listed in the order of our numbers.
"""

from __future__ import annotations

from collections.abc import Iterable

from convdyno.zoo.googlenet import MODULES
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


def _resnets() -> dict[str, Names]:
    return {
        f"resnet{layers}-v1.5" if layers in BOTTLENECKS else f"resnet{layers}": resnet(
            depths, 3 if layers in BOTTLENECKS else 2
        )
        for layers, depths in DEPTHS.items()
    }


def torchvision() -> dict[str, Names]:
    """The zoo's networks that torchvision has, and their names there."""
    dense = ("classifier.0", "classifier.3", "classifier.6")
    return {
        "alexnet": alexnet(),
        **{f"vgg{n}": vgg(depths, dense) for n, (_, depths) in CONFIGURATIONS.items()},
        **_resnets(),
        "resnext50": resnet(DEPTHS[50], 3),
        "googlenet-torchvision": googlenet(),
        "inception3-torchvision": inception3(),
    }


def timm() -> dict[str, Names]:
    """The zoo's networks that timm has, and their names there."""
    return {
        **{f"vgg{n}": vgg(depths, DENSE_OF_VGG) for n, (_, depths) in CONFIGURATIONS.items()},
        **_resnets(),
        **{f"resnext{n}": resnet(DEPTHS[n], 3) for n in (50, 101)},
        **{name: resnet_v2(depths) for name, depths in PREACTIVATED.items()},
        "inception3-torchvision": inception3(),
        "inception4-slim": inception4(),
        "inception-resnet2-slim": inception_resnet2(),
    }


def as_convolution(network: str, layer: str) -> bool:
    """Whether a dense layer of ours is a convolution over the whole image in timm."""
    return layer in (("head.fc",) if network in PREACTIVATED else DENSE_OF_VGG[:2])

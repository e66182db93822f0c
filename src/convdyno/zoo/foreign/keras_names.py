"""What keras.applications calls the layers of the zoo's networks: node -> layer."""

from __future__ import annotations

import re
from collections.abc import Iterable

from convdyno.blueprint.graph import Blueprint
from convdyno.blueprint.ops import Conv, Norm
from convdyno.zoo.resnet import BOTTLENECKS, DEPTHS
from convdyno.zoo.vgg import CONFIGURATIONS

Names = dict[str, str]
NUMBERED = re.compile(r"(conv2d|batch_normalization)(?:_([0-9]{1,9}))?")


def vgg(depths: tuple[int, ...]) -> Names:
    """The layers of VGG with so many convolutions in each stage."""
    names = {
        f"conv{stage}_{number}": f"block{stage}_conv{number}"
        for stage, depth in enumerate(depths, 1)
        for number in range(1, depth + 1)
    }
    return names | {"fc6": "fc1", "fc7": "fc2", "logits": "predictions"}


def resnet(depths: tuple[int, ...]) -> Names:
    """ResNet; a block's shortcut has the number 0."""
    names = {"conv1/conv1": "conv1_conv", "conv1/norm1": "conv1_bn", "logits": "predictions"}
    for stage, depth in enumerate(depths, 2):
        for block in range(1, depth + 1):
            ours, theirs = f"conv{stage}_{block}", f"conv{stage}_block{block}"
            for number in (1, 2, 3):
                names[f"{ours}/conv{number}"] = f"{theirs}_{number}_conv"
                names[f"{ours}/norm{number}"] = f"{theirs}_{number}_bn"
            names[f"{ours}/shortcut/conv1"] = f"{theirs}_0_conv"
            names[f"{ours}/shortcut/norm1"] = f"{theirs}_0_bn"
    return names


def numbered(blueprint: Blueprint) -> Names:
    """Inception: most layers have only a number, given in the order in which they were made.

    Keras makes them module by module and branch by branch as our blueprint does, which the tests
    prove by computing with both.
    """
    counts = {"conv2d": 0, "batch_normalization": 0}
    names = {"logits": "predictions"}
    for node in blueprint.for_inference().nodes:
        scope, _, _ = node.name.rpartition("/")
        if not isinstance(node.op, Conv | Norm):
            continue
        if scope == "conv_7b":
            names[node.name] = "conv_7b" if isinstance(node.op, Conv) else "conv_7b_bn"
        elif isinstance(node.op, Conv) and node.op.bias:
            block, _, number = scope.partition("_")
            names[node.name] = f"{block}_{number}_conv"
        else:
            kind = "conv2d" if isinstance(node.op, Conv) else "batch_normalization"
            counts[kind] += 1
            names[node.name] = f"{kind}_{counts[kind]}"
    return names


def ranks(layers: Iterable[str]) -> Names:
    """Numbered layers by rank: a model made after others starts at any number, or at none."""
    found: dict[str, list[tuple[int, str]]] = {}
    for layer in layers:
        if match := NUMBERED.fullmatch(layer):
            found.setdefault(match[1], []).append((int(match[2] or 0), layer))
    return {
        layer: f"{kind}_{rank}"
        for kind, numbers in found.items()
        for rank, (_, layer) in enumerate(sorted(numbers), 1)
    }


def keras(blueprint: Blueprint) -> Names | None:
    """The names of a network that keras.applications has."""
    fixed = {
        **{f"vgg{n}": vgg(CONFIGURATIONS[n][1]) for n in (16, 19)},
        **{f"resnet{n}-keras": resnet(DEPTHS[n]) for n in BOTTLENECKS},
    }
    if blueprint.name in INCEPTIONS:
        return numbered(blueprint)
    return fixed.get(blueprint.name)


INCEPTIONS = ("inception3", "inception-resnet2-slim")
NETWORKS = ("vgg16", "vgg19", *(f"resnet{n}-keras" for n in BOTTLENECKS), *INCEPTIONS)

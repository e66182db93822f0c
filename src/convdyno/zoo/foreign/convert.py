"""Weights to and from the names and layouts of torchvision, timm and keras.applications.

What a network expects of its images is not part of its weights: torchvision's and timm's ResNets
and VGGs were trained on images less ImageNet's mean and by its deviation. torchvision's GoogLeNet
and Inception v3 undo that themselves (`transform_input`), to -1..1, which is what convdyno feeds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convdyno.blueprint.graph import Blueprint
from convdyno.blueprint.ops import Act, Dense, Dropout, Flatten, Norm, Shape
from convdyno.blueprint.weight_file import check_values
from convdyno.blueprint.weights import Array, Weights
from convdyno.errors import BadWeights, UsageError
from convdyno.zoo.foreign import LIBRARIES, keras_names, torch_names
from convdyno.zoo.foreign.torch_names import as_convolution, as_linear

Arrays = Mapping[str, NDArray[Any]]
"""By name: `layer1.0.conv1.weight` in torch, `conv2_block1_1_conv/kernel` in Keras."""

TORCH = {
    "kernel": "weight",
    "bias": "bias",
    "scale": "weight",
    "offset": "bias",
    "gain": "layer_scale",
    "mean": "running_mean",
    "variance": "running_var",
}
KERAS = {
    "kernel": "kernel",
    "bias": "bias",
    "scale": "gamma",
    "offset": "beta",
    "mean": "moving_mean",
    "variance": "moving_variance",
}
COUNTERS = ("num_batches_tracked",)
AUXILIARY = ("AuxLogits.", "aux1.", "aux2.")
FOLDING_LOSS = 1e-5
"""The share of a batch norm's factor that may be lost to rounding when a scale is folded."""


def networks_of(library: str) -> list[str]:
    """The zoo's networks whose weights can come from a library."""
    if library == "keras":
        return list(keras_names.NETWORKS)
    return list(torch_names.torchvision() if library == "torchvision" else torch_names.timm())


def foreign_names(blueprint: Blueprint, library: str) -> dict[str, str]:
    """The library's name of each weight, by our canonical name."""
    if library == "keras":
        layers = keras_names.keras(blueprint)
    else:
        tables = torch_names.torchvision if library == "torchvision" else torch_names.timm
        layers = tables().get(blueprint.name)
    if layers is None:
        ways = [name for name in LIBRARIES if blueprint.name in networks_of(name)]
        hint = f"its weights can come from {' or '.join(ways)}" if ways else _known(library)
        raise UsageError(f"{library} has no network that is {blueprint.name}; {hint}")
    kinds, joint = (KERAS, "/") if library == "keras" else (TORCH, ".")
    found = {}
    for name in blueprint.weights:
        node, _, kind = name.rpartition("/")
        if node not in layers:
            raise UsageError(f"{library} has nothing like {node!r} of {blueprint.name}")
        found[name] = f"{layers[node]}{joint}{kinds[kind]}"
    return found


def recognise(names: Iterable[str], blueprint: Blueprint) -> str:
    """The library whose names the given ones are most like."""
    given = set(_tidy_names(names))
    ways = [library for library in LIBRARIES if blueprint.name in networks_of(library)]
    if not ways:
        raise UsageError(
            f"no weights of another library fit {blueprint.name}; "
            + "; ".join(_known(library) for library in LIBRARIES)
        )
    return max(ways, key=lambda way: len(given & set(foreign_names(blueprint, way).values())))


def classes_in(arrays: Arrays, blueprint: Blueprint, library: str) -> int | None:
    """How many classes foreign weights tell apart, if they have the last layer at all."""
    names = foreign_names(blueprint, library)
    biases = [name for name in names if name.endswith("/bias")]
    last = names.get(f"{blueprint.heads[0].node}/bias", names[biases[-1]])
    array = _tidy(arrays).get(last)
    return array.shape[0] if array is not None and array.ndim == 1 else None


def from_foreign(
    arrays: Arrays, blueprint: Blueprint, library: str, source: str = "the file"
) -> Weights:
    """Weights of a library's model as canonical weights of the zoo's network."""
    names = foreign_names(blueprint, library)
    given = _tidy(arrays)
    what = f"{source} does not have {library}'s weights of {blueprint.name}"
    weights: Weights = {}
    used = set()
    for ours, theirs in names.items():
        used.add(theirs)
        if theirs in given:
            array = _canonical(given[theirs], blueprint, ours, library)
        elif library == "keras" and ours.endswith("/scale"):
            # Keras's Inception v3 has no scale: it is one.
            array = np.ones(blueprint.weights[ours], np.float32)
        else:
            raise BadWeights(f"{what}: there is no {theirs!r}")
        if array.shape != blueprint.weights[ours]:
            raise BadWeights(
                f"{what}: {theirs!r} has the shape {given[theirs].shape}, which does not make "
                f"{ours!r} of the shape {blueprint.weights[ours]}"
            )
        weights[ours] = array
    used |= _fold_scales(weights, names, given, blueprint, library)
    for name in given:
        if name not in used and not name.endswith(COUNTERS) and not name.startswith(AUXILIARY):
            raise BadWeights(f"{what}: there is also {name[:80]!r}")
    check_values(f"{source} cannot be used", blueprint, weights)
    return weights


def to_foreign(weights: Weights, blueprint: Blueprint, library: str) -> dict[str, Array]:
    """Canonical weights in a library's names and layouts."""
    names = foreign_names(blueprint, library)
    found = {}
    for ours, theirs in names.items():
        array = weights[ours]
        if library != "keras":
            layer = theirs.removesuffix(".weight")
            convolution = as_convolution(blueprint.name, layer)
            array = _to_torch(array, _flattened(blueprint, ours), convolution)
            if as_linear(blueprint.name, layer):
                array = array[:, :, 0, 0]
            elif ours.endswith("/gain"):
                array = array[:, None, None]
        found[theirs] = np.ascontiguousarray(array)
        if library != "keras" and ours.endswith("/offset"):
            # torch's batch norm always has a scale; ours may have none.
            found.setdefault(theirs.removesuffix("bias") + "weight", np.ones_like(array))
    return found


def _canonical(array: NDArray[Any], blueprint: Blueprint, ours: str, library: str) -> Array:
    if array.dtype.kind != "f":
        raise BadWeights(f"a weight is made of real numbers, not of {array.dtype} as for {ours!r}")
    with np.errstate(over="ignore"):
        array = array.astype(np.float32)
    if library != "keras":
        array = _from_torch(array, _flattened(blueprint, ours), blueprint.weights[ours])
    return np.ascontiguousarray(array)


def _from_torch(array: Array, flattened: Shape | None, shape: Shape) -> Array:
    """(out, in, height, width) becomes (height, width, in, out), and a matrix is turned."""
    if array.ndim == 4:
        array = array.transpose(2, 3, 1, 0)
        if len(shape) == 2 and (flattened or (1, 1))[:2] == array.shape[:2]:
            array = array.reshape(-1, array.shape[-1])
    elif array.ndim == 3:  # A factor for each channel.
        array = array.reshape(len(array), -1).squeeze(-1) if array.shape[1:] == (1, 1) else array
    elif array.ndim == 2:
        array = array.T
        if shape == (1, 1, *array.shape):
            array = array.reshape(shape)
        if flattened and array.shape == shape:
            height, width, channels = flattened
            by_cell = array.reshape(channels, height, width, -1)
            array = by_cell.transpose(1, 2, 0, 3).reshape(shape)
    return array


def _to_torch(array: Array, flattened: Shape | None, convolution: bool) -> Array:
    if array.ndim == 4:
        return array.transpose(3, 2, 0, 1)
    if array.ndim < 2:
        return array
    by_cell = array.reshape(*(flattened or (1, 1, array.shape[0])), -1).transpose(3, 2, 0, 1)
    return by_cell if convolution else by_cell.reshape(array.shape[::-1])


def _flattened(blueprint: Blueprint, weight: str) -> Shape | None:
    """The image that a dense layer reads as one vector."""
    nodes = {node.name: node for node in blueprint.nodes}
    node = nodes[weight.rpartition("/")[0]]
    if not isinstance(node.op, Dense):
        return None
    node = nodes[node.inputs[0]]
    while isinstance(node.op, Act | Dropout):
        node = nodes[node.inputs[0]]
    shape = blueprint.shapes[node.inputs[0]] if isinstance(node.op, Flatten) else ()
    return shape if len(shape) == 3 else None


def _fold_scales(
    weights: Weights, names: Mapping[str, str], given: Arrays, blueprint: Blueprint, library: str
) -> set[str]:
    """Where our batch norm has no scale g and theirs has: variance' + eps = (variance + eps) / g².

    The network in use is the same one; training goes on from it without the scale.
    """
    folded = set()
    for node in blueprint.nodes:
        if not isinstance(node.op, Norm) or node.op.scale:
            continue
        offset = names[f"{node.name}/offset"]
        layer = offset.removesuffix("bias").removesuffix("beta")
        theirs = layer + (KERAS if library == "keras" else TORCH)["scale"]
        if theirs not in given:
            continue
        folded.add(theirs)
        scale = given[theirs].astype(np.float64)
        variance = weights[f"{node.name}/variance"].astype(np.float64)
        if scale.shape != variance.shape:
            raise BadWeights(f"{theirs!r} has the shape {scale.shape}, not {variance.shape}")
        if not (scale > 0).all():
            raise BadWeights(
                f"{blueprint.name} has no scale in its batch norm, and one that is not positive "
                f"cannot be folded into the variance: {theirs!r} has {scale.min():.3g}"
            )
        if (scale == 1).all():
            continue
        wanted = (variance + node.op.eps) / scale**2
        new = (wanted - node.op.eps).astype(np.float32)
        if not (abs((new + node.op.eps) / wanted - 1) <= FOLDING_LOSS).all():
            raise BadWeights(
                f"{blueprint.name} has no scale in its batch norm, and {theirs!r} is too large "
                f"({scale.max():.3g}) to be folded into the variance without loss"
            )
        weights[f"{node.name}/variance"] = new
    return folded


def _tidy(arrays: Arrays) -> dict[str, NDArray[Any]]:
    return dict(zip(_tidy_names(arrays), arrays.values(), strict=True))


def _tidy_names(names: Iterable[str]) -> list[str]:
    """Without DataParallel's prefix, and with Keras's numbered layers by rank."""
    names = list(names)
    if names and all(name.startswith("module.") for name in names):
        names = [name.removeprefix("module.") for name in names]
    ranks = keras_names.ranks({name.partition("/")[0] for name in names if "/" in name})
    tidy = []
    for name in names:
        layer, slash, kind = name.partition("/")
        tidy.append(f"{ranks.get(layer, layer)}/{kind}" if slash else name)
    return tidy


def _known(library: str) -> str:
    return f"{library} has {', '.join(networks_of(library))}"

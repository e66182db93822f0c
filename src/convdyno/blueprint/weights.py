"""Initial weights, drawn once in NumPy: the same arrays for every engine.

Each weight is seeded by its own name, so that it does not depend on what else the network has.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from convdyno.blueprint.graph import Blueprint, Init
from convdyno.blueprint.ops import Shape
from convdyno.errors import Refused

Array = NDArray[np.float32]
Weights = dict[str, Array]
"""Arrays by canonical name `node/weight`, in canonical layout."""


def initial_weights(blueprint: Blueprint, seed: int = 0) -> Weights:
    """Every weight of a network, as its `init` says."""
    return {
        name: _draw(name, shape, blueprint.init, seed) for name, shape in blueprint.weights.items()
    }


def lively_weights(blueprint: Blueprint, seed: int = 0) -> Weights:
    """Weights none of which is at a special value, so that no mistake can hide behind it."""
    weights = initial_weights(blueprint, seed)
    random = np.random.default_rng([seed, 0x11FE])
    low_high = {
        "scale": (0.4, 0.6),
        "offset": (0.8, 1.2),
        "gain": (0.4, 0.6),
        "bias": (-0.1, 0.1),
        "mean": (-0.1, 0.1),
        "variance": (0.5, 1.5),
    }
    for name, array in weights.items():
        kind = name.rpartition("/")[2]
        if kind in low_high:
            weights[name] = random.uniform(*low_high[kind], array.shape).astype(np.float32)
    return weights


def check_weights(blueprint: Blueprint, weights: Weights) -> None:
    """Refuse weights that are not this network's."""
    for name, shape in blueprint.weights.items():
        if name not in weights:
            raise Refused(f"the weights are not those of {blueprint.name}: there is no {name!r}")
        if weights[name].shape != shape:
            raise Refused(
                f"the weights are not those of {blueprint.name}: {name!r} has the shape "
                f"{weights[name].shape}, not {shape}"
            )


def _draw(name: str, shape: Shape, init: Init, seed: int) -> Array:
    kind = name.rpartition("/")[2]
    if kind == "kernel":
        word = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")
        return KERNELS[init](np.random.default_rng([seed, word]), shape).astype(np.float32)
    return np.full(shape, CONSTANTS.get(kind, BIASES[init]), np.float32)


def _fans(shape: Shape) -> tuple[int, int]:
    window = math.prod(shape[:-2])
    return window * shape[-2], window * shape[-1]


def _he(random: np.random.Generator, shape: Shape) -> NDArray[np.floating]:
    """Normal with variance 2 / fan (He et al. 2015): fan out of a convolution, else fan in."""
    fan_in, fan_out = _fans(shape)
    return random.standard_normal(shape, np.float32) * math.sqrt(
        2 / (fan_out if len(shape) == 4 else fan_in)
    )


def _glorot(random: np.random.Generator, shape: Shape) -> NDArray[np.floating]:
    """Uniform within sqrt(6 / (fan in + fan out)) (Glorot and Bengio 2010)."""
    limit = math.sqrt(6 / sum(_fans(shape)))
    return random.uniform(-limit, limit, shape)


def _truncated(random: np.random.Generator, shape: Shape) -> NDArray[np.floating]:
    """Normal with deviation 0.1, drawn again beyond two deviations (the Deep MNIST tutorial)."""
    values = random.standard_normal(shape)
    while (far := np.abs(values) > 2).any():
        values[far] = random.standard_normal(int(far.sum()))
    return values * 0.1


KERNELS: dict[Init, Callable[[np.random.Generator, Shape], NDArray[np.floating]]] = {
    "he": _he,
    "glorot": _glorot,
    "deepmnist": _truncated,
}
BIASES: dict[Init, float] = {"he": 0.0, "glorot": 0.0, "deepmnist": 0.1}
CONSTANTS = {"scale": 1.0, "offset": 0.0, "mean": 0.0, "variance": 1.0, "gain": 1e-6}

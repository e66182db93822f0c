"""Keras's weight files: `.weights.h5` of Keras 3 and the older `.h5`; needs h5py."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convdyno.errors import BadWeights, NotInstalled

Named = Iterator[tuple[str, str, Any]]
"""Layer, variable, HDF5 data set."""

NORM = ("gamma", "beta", "moving_mean", "moving_variance")
OLD = {"W": "kernel", "b": "bias"}
"""Keras 1 called them so, and its VGG files are still the ones that Keras downloads."""


def read(path: Path) -> dict[str, NDArray[Any]]:
    """All variables as `layer/variable`."""
    try:
        h5py = importlib.import_module("h5py")
    except ImportError:
        raise NotInstalled("reading .h5 files needs h5py: pip install h5py") from None
    found: dict[str, NDArray[Any]] = {}
    size = path.stat().st_size
    with h5py.File(path, "r") as file:
        root = file.get("model_weights", file)
        entries = _new(root) if "layers" in root else _old(root)
        for layer, variable, data in entries:
            name = f"{layer}/{variable}"
            if name in found:
                raise BadWeights(f"{path} has two variables {name!r}")
            if not isinstance(data, h5py.Dataset) or data.external or data.is_virtual:
                raise BadWeights(f"{path}: {name!r} is not an array in this file")
            # Compressed files are not refused, but no bomb is unpacked.
            if data.nbytes > 64 * size:
                raise BadWeights(f"{path}: {name!r} claims {data.nbytes} bytes of {size}")
            found[name] = np.asarray(data[()])
    return found


def _new(root: Any) -> Named:
    """Keras 3: layers are numbered by kind and depth; their own names are attributes."""
    for key, group in root["layers"].items():
        if "vars" not in group or not len(group["vars"]):
            continue
        variables = group["vars"]
        order = sorted(variables, key=int)
        kinds = NORM[-len(order) :] if key.startswith("batch_normalization") else ("kernel", "bias")
        if "name" not in variables.attrs:
            raise BadWeights(
                "the file does not have the layers' names, so that they cannot be told apart: "
                "save it with a newer Keras 3"
            )
        for number, kind in zip(order, kinds, strict=False):
            yield _text(variables.attrs["name"]), kind, variables[number]


def _old(root: Any) -> Named:
    for layer in map(_text, root.attrs["layer_names"]):
        for name in map(_text, root[layer].attrs["weight_names"]):
            last = name.rpartition("/")[2].partition(":")[0]
            old = re.fullmatch(rf"{re.escape(layer)}_([Wb])(?:_[0-9]+)?", last)
            yield layer, OLD[old[1]] if old else last, root[layer][name]


def _text(name: Any) -> str:
    return name.decode() if isinstance(name, bytes) else str(name)

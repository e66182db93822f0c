"""Weights between their canonical layout and torch's: names, axes and the order of flattening."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from convdyno.blueprint.graph import Blueprint
from convdyno.blueprint.ops import Act, Dense, Dropout, Flatten, Scale, Shape
from convdyno.blueprint.weights import Array

ATTRIBUTES = {
    "kernel": "weight",
    "bias": "bias",
    "scale": "weight",
    "offset": "bias",
    "gain": "weight",
    "mean": "running_mean",
    "variance": "running_var",
}
ELEMENTWISE = (Act, Dropout, Scale)


@dataclass(frozen=True, slots=True)
class Slot:
    """One weight: the tensor that holds it and, after a folded Flatten, the flattened shape."""

    tensor: torch.Tensor
    flattened: Shape | None

    def put(self, array: Array, into: torch.Tensor | None = None) -> torch.Tensor:
        """Write a canonical array into the slot's tensor, or into one like it."""
        tensor = self.tensor if into is None else into
        if array.ndim == 4:
            array = array.transpose(3, 2, 0, 1)
        if array.ndim == 2:
            if self.flattened:
                by_cell = array.reshape(*self.flattened, -1)
                array = by_cell.transpose(2, 0, 1, 3).reshape(array.shape)
            array = array.T
        with torch.no_grad():
            tensor.copy_(torch.from_numpy(array if array.flags.writeable else array.copy()))
        return tensor

    def take(self, tensor: torch.Tensor) -> Array:
        """A tensor like the slot's as a canonical array."""
        array: Array = tensor.detach().float().cpu().numpy()
        if array.ndim == 4:
            array = array.transpose(2, 3, 1, 0)
        if array.ndim == 2:
            array = array.T
            if self.flattened:
                height, width, channels = self.flattened
                by_cell = array.reshape(channels, height, width, -1)
                array = by_cell.transpose(1, 2, 0, 3).reshape(array.shape)
        return np.array(array, np.float32, order="C")


def folds(blueprint: Blueprint) -> dict[str, Shape]:
    """The flattened shape, for each Flatten and Dense node between which only the order differs.

    Where a flattened image only reaches dense layers, their rows can be put into the order that
    the framework flattens in, and no activation has to be moved.
    """
    found: dict[str, Shape] = {}
    heads = {head.node for head in blueprint.heads}
    for flatten in blueprint.nodes:
        if not isinstance(flatten.op, Flatten):
            continue
        shape = blueprint.shapes[flatten.inputs[0]]
        chain, readers = {flatten.name}, []
        for node in blueprint.nodes:
            if chain.intersection(node.inputs):
                readers.append(node)
                if isinstance(node.op, ELEMENTWISE):
                    chain.add(node.name)
        ordered = all(isinstance(node.op, (Dense, *ELEMENTWISE)) for node in readers)
        if len(shape) == 3 and ordered and not heads & chain:
            denses = {node.name for node in readers if isinstance(node.op, Dense)}
            found |= dict.fromkeys({flatten.name} | denses, shape)
    return found


def slots(
    blueprint: Blueprint, modules: dict[str, nn.Module], folds: dict[str, Shape]
) -> dict[str, Slot]:
    """The slot of each weight, by its canonical name."""
    found = {}
    for name in blueprint.weights:
        node, _, kind = name.rpartition("/")
        tensor = getattr(modules[node], ATTRIBUTES[kind])
        found[name] = Slot(tensor, folds.get(node) if kind == "kernel" else None)
    return found

"""Running variances of the population, kept by a framework that keeps unbiased ones.

With n values a channel torch averages v * n / (n - 1) where the rule says v. The average is linear,
so a buffer that holds the running variance times n / (n - 1) is exact: it is converted when it is
read and when n changes, and no step costs more.
"""

from __future__ import annotations

import math

import torch
from torch import nn

from convdyno.blueprint.graph import Blueprint
from convdyno.blueprint.ops import Norm
from convdyno.errors import Refused


class RunningVariances:
    """The running variances of all batch norms of a network."""

    def __init__(self, blueprint: Blueprint, modules: dict[str, nn.Module]) -> None:
        nodes = [node for node in blueprint.nodes if isinstance(node.op, Norm)]
        self._buffers: dict[str, torch.Tensor] = {
            node.name: modules[node.name].get_buffer("running_var") for node in nodes
        }
        self._positions = {node.name: math.prod(blueprint.shapes[node.name][:-1]) for node in nodes}
        self.images: int | None = None
        """How many images a batch has for which the buffers are ready; None: they are plain."""

    def loaded(self) -> None:
        """The buffers have been filled with plain population variances."""
        self.images = None

    def check(self, images: int) -> None:
        """Refuse a batch with a single value in a channel, which has no unbiased variance."""
        for name, positions in self._positions.items():
            if images * positions == 1:
                raise Refused(
                    f"batch norm {name!r} would see one value of each channel, and torch does not "
                    "train on that: use a batch of 2 or more images"
                )

    def prepare(self, images: int) -> None:
        """Make the buffers ready for training steps with so many images."""
        self.check(images)
        for name, buffer in self._buffers.items():
            buffer.mul_(self._bias(name, self.images) / self._bias(name, images))
        self.images = images

    def population(self, name: str) -> torch.Tensor:
        """The plain running variance of one node, as a new tensor."""
        return self._buffers[name] * self._bias(name, self.images)

    def _bias(self, name: str, images: int | None) -> float:
        """Population variance / unbiased variance."""
        if images is None:
            return 1.0
        values = images * self._positions[name]
        return (values - 1) / values

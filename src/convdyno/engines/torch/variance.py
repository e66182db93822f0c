"""Running variances of the population, kept by a framework that keeps unbiased ones.

With n values a channel torch averages v * n / (n - 1) where the rule says v. The average is linear,
so a buffer that holds the running variance times n / (n - 1) is exact: it is converted when it is
read and when n changes, and no step costs more.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import nn

from convdyno.blueprint.graph import Blueprint
from convdyno.blueprint.ops import Norm
from convdyno.engines.contract import State
from convdyno.errors import Refused

BUFFER, IMAGES = "own/torch/variance/", "own/torch/images"
"""In a state: the buffer of each node, and for how many images they all are."""


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

    def populations(self) -> dict[str, torch.Tensor]:
        """The plain running variances by canonical name, as new tensors."""
        if not self._buffers:
            return {}
        biases = [self._bias(name, self.images) for name in self._buffers]
        plain = torch._foreach_mul(list(self._buffers.values()), biases)
        return {f"{n}/variance": array for n, array in zip(self._buffers, plain, strict=True)}

    def state(self) -> State:
        """The buffers as they are: a plain variance does not tell them to the last bit."""
        if self.images is None:
            return {}
        held = {f"{BUFFER}{name}": b.cpu().numpy().copy() for name, b in self._buffers.items()}
        return held | {IMAGES: np.array(self.images, np.int64)}

    def restore(self, state: State) -> None:
        """Take the buffers of a state, if they belong to the plain variances that are loaded."""
        names = {name: f"{BUFFER}{name}" for name in self._buffers}
        if not state.keys() >= {IMAGES, *names.values()}:
            return
        images = int(state[IMAGES])
        held = {n: torch.from_numpy(np.array(state[key], np.float32)) for n, key in names.items()}
        for name, buffer in held.items():
            plain = self._buffers[name].cpu() * self._bias(name, self.images)
            if not torch.equal(buffer * self._bias(name, images), plain):
                return
        for name, buffer in held.items():
            self._buffers[name].copy_(buffer)
        self.images = images

    def _bias(self, name: str, images: int | None) -> float:
        """Population variance / unbiased variance."""
        if images is None:
            return 1.0
        values = images * self._positions[name]
        return (values - 1) / values

"""PyTorch as an engine."""

from __future__ import annotations

from convdyno.blueprint.graph import Blueprint
from convdyno.blueprint.weights import Weights
from convdyno.engines.contract import Engine, Material, Session, Trial, World
from convdyno.engines.frameworks.torch import device, ranks
from convdyno.engines.torch import data_parallel, loader
from convdyno.engines.torch.step import TorchSession


class TorchEngine:
    """PyTorch, imported."""

    def versions(self) -> dict[str, str]:
        """Versions of torch and of the libraries that do its arithmetic."""
        return device.versions()

    def join(self, world: World, trial: Trial) -> None:
        """Form a group of processes; `--exchange horovod` leaves that to Horovod."""
        data_parallel.join(world, trial, device.choose(trial.device))

    def leave(self) -> None:
        """End the group of processes."""
        ranks.leave()

    def open(self, blueprint: Blueprint, trial: Trial, weights: Weights) -> Session:
        """Load a network on a device."""
        return TorchSession(blueprint, trial, weights)

    def batches(self, material: Material) -> loader.Batches:
        """A DataLoader with Pillow."""
        return loader.batches(material)

    def out_of_memory(self, error: BaseException) -> bool:
        """Whether the memory of the host or the GPU did not suffice."""
        return device.out_of_memory(error)


def engine() -> Engine:
    """The engine of PyTorch."""
    return TorchEngine()

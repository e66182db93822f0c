"""PyTorch as an engine."""

from __future__ import annotations

from convdyno.blueprint.graph import Blueprint
from convdyno.engines.contract import Engine, Material, Session, Trial, Weights, World
from convdyno.engines.frameworks.torch import OnTorch, device
from convdyno.engines.torch import data_parallel, loader
from convdyno.engines.torch.step import TorchSession


class TorchEngine(OnTorch):
    """PyTorch, imported."""

    def join(self, world: World, trial: Trial) -> None:
        """Form a group of processes; `--exchange horovod` leaves that to Horovod."""
        data_parallel.join(world, trial, device.choose(trial.device))

    def open(self, blueprint: Blueprint, trial: Trial, weights: Weights) -> Session:
        """Load a network on a device."""
        return TorchSession(blueprint, trial, weights)

    def batches(self, material: Material) -> loader.Batches:
        """A DataLoader with Pillow."""
        return loader.batches(material)


def engine() -> Engine:
    """The engine of PyTorch."""
    return TorchEngine()

"""PyTorch as an engine."""

from __future__ import annotations

import re

import torch

from convdyno.blueprint.graph import Blueprint
from convdyno.blueprint.weights import Weights
from convdyno.engines.contract import Engine, Material, Session, Trial, World
from convdyno.engines.torch import device, loader, spread
from convdyno.engines.torch.step import TorchSession

LIBRARIES = {"onednn": r"MKL-DNN v([\d.]+)", "mkl": r"Math Kernel Library Version ([\d.]+)"}
NO_MEMORY = ("can't allocate memory", "out of memory", "not enough memory")


class TorchEngine:
    """PyTorch, imported."""

    def versions(self) -> dict[str, str]:
        """Versions of torch and of the libraries that do its arithmetic."""
        built_with = torch.__config__.show()
        found = {name: re.search(line, built_with) for name, line in LIBRARIES.items()}
        versions = {"torch": str(torch.__version__)}
        versions |= {name: match[1] for name, match in found.items() if match}
        if torch.cuda.is_available():
            versions |= {
                "cuda": str(torch.version.cuda),
                "cudnn": str(torch.backends.cudnn.version()),
            }
        return versions

    def join(self, world: World, trial: Trial) -> None:
        """Form a group of processes; `--exchange horovod` leaves that to Horovod."""
        spread.join(world, trial, device.choose(trial.device))

    def leave(self) -> None:
        """End the group of processes."""
        spread.leave()

    def open(self, blueprint: Blueprint, trial: Trial, weights: Weights) -> Session:
        """Load a network on a device."""
        return TorchSession(blueprint, trial, weights)

    def batches(self, material: Material) -> loader.Batches:
        """A DataLoader with Pillow."""
        return loader.batches(material)

    def out_of_memory(self, error: BaseException) -> bool:
        """Whether the memory of the host or the GPU did not suffice."""
        return isinstance(error, MemoryError | torch.OutOfMemoryError) or (
            isinstance(error, RuntimeError) and any(text in str(error) for text in NO_MEMORY)
        )


def engine() -> Engine:
    """The engine of PyTorch."""
    return TorchEngine()

"""TensorFlow, imported."""

from __future__ import annotations

from contextlib import AbstractContextManager

from convdyno.blueprint.graph import Blueprint
from convdyno.blueprint.weights import Weights
from convdyno.engines.contract import Material, Session, Trial, World
from convdyno.engines.frameworks.tensorflow import device
from convdyno.engines.frameworks.tensorflow.ranks import WorkerStrategy
from convdyno.engines.tensorflow import loader
from convdyno.engines.tensorflow.step import TensorflowSession, check


class TensorflowEngine:
    """TensorFlow, imported."""

    _ranks: WorkerStrategy | None = None

    def versions(self) -> dict[str, str]:
        """Versions of TensorFlow and of the libraries that do its arithmetic."""
        return device.versions()

    def join(self, world: World, trial: Trial) -> None:
        """Start TensorFlow as one of several workers."""
        on = device.choose(trial.device)
        check(trial, on)
        device.start(trial, on)
        self._ranks = WorkerStrategy(world, on_gpu=on != "cpu")

    def leave(self) -> None:
        """TensorFlow parts from the others when the process ends."""

    def open(self, blueprint: Blueprint, trial: Trial, weights: Weights) -> Session:
        """Load a network on a device."""
        return TensorflowSession(blueprint, trial, weights, self._ranks)

    def batches(self, material: Material) -> loader.Batches:
        """Batches that tf.data makes."""
        return loader.batches(material)

    def op_by_op(self) -> AbstractContextManager[object]:
        """Functions are not traced."""
        return device.op_by_op()

    def out_of_memory(self, error: BaseException) -> bool:
        """Whether the memory of the host or the GPU did not suffice."""
        return device.out_of_memory(error)

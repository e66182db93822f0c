"""TensorFlow, imported."""

from __future__ import annotations

from convdyno.blueprint.graph import Blueprint
from convdyno.engines.contract import Material, Session, Trial, Weights, World
from convdyno.engines.frameworks.tensorflow import OnTensorflow, device
from convdyno.engines.frameworks.tensorflow.ranks import WorkerStrategy
from convdyno.engines.tensorflow import loader
from convdyno.engines.tensorflow.step import TensorflowSession, check


class TensorflowEngine(OnTensorflow):
    """TensorFlow, imported."""

    _ranks: WorkerStrategy | None = None

    def join(self, world: World, trial: Trial) -> None:
        """Start TensorFlow as one of several workers."""
        on = device.choose(trial.device)
        check(trial, on)
        device.start(trial, on)
        self._ranks = WorkerStrategy(world, on_gpu=on != "cpu")

    def open(self, blueprint: Blueprint, trial: Trial, weights: Weights) -> Session:
        """Load a network on a device."""
        return TensorflowSession(blueprint, trial, weights, self._ranks)

    def batches(self, material: Material) -> loader.Batches:
        """Batches that tf.data makes."""
        return loader.batches(material)

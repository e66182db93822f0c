"""TensorFlow, imported."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import tensorflow as tf

from convdyno.blueprint.graph import Blueprint
from convdyno.blueprint.weights import Weights
from convdyno.engines.contract import Material, Session, Trial, World
from convdyno.engines.tensorflow import device, loader
from convdyno.engines.tensorflow.spread import Spread, check
from convdyno.engines.tensorflow.step import TensorflowSession

NO_MEMORY = ("OOM when allocating", "RESOURCE_EXHAUSTED", "bad_alloc", "exception:Status: 1,")
"""The last one is oneDNN's `dnnl_out_of_memory`."""


class TensorflowEngine:
    """TensorFlow, imported."""

    _spread: Spread | None = None

    def versions(self) -> dict[str, str]:
        """Versions of TensorFlow and of the libraries that do its arithmetic."""
        built_with = tf.sysconfig.get_build_info()
        versions = {"tensorflow": str(tf.__version__)}
        if tf.config.list_physical_devices("GPU"):
            versions |= {
                "cuda": str(built_with["cuda_version"]),
                "cudnn": str(built_with["cudnn_version"]),
            }
        return versions

    def join(self, world: World, trial: Trial) -> None:
        """Start TensorFlow as one of several workers."""
        on = device.choose(trial.device)
        check(trial, on_gpu=on != "cpu")
        device.start_runtime(device.threads(trial), on)
        self._spread = Spread(world, on_gpu=on != "cpu")

    def leave(self) -> None:
        """TensorFlow parts from the others when the process ends."""

    def open(self, blueprint: Blueprint, trial: Trial, weights: Weights) -> Session:
        """Load a network on a device."""
        return TensorflowSession(blueprint, trial, weights, self._spread)

    def batches(self, material: Material) -> loader.Batches:
        """tf.data."""
        return loader.batches(material)

    @contextmanager
    def op_by_op(self) -> Iterator[None]:
        """Functions are not traced."""
        tf.config.run_functions_eagerly(True)
        try:
            yield
        finally:
            tf.config.run_functions_eagerly(False)

    def out_of_memory(self, error: BaseException) -> bool:
        """Whether the memory of the host or the GPU did not suffice."""
        return isinstance(error, MemoryError | tf.errors.ResourceExhaustedError) or (
            isinstance(error, tf.errors.OpError) and any(text in str(error) for text in NO_MEMORY)
        )

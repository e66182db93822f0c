"""TensorFlow as the native engine and Keras both use it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import tensorflow as tf

NO_MEMORY = ("OOM when allocating", "RESOURCE_EXHAUSTED", "bad_alloc", "exception:Status: 1,")
"""The last one is oneDNN's `dnnl_out_of_memory`."""


class OnTensorflow:
    """What every engine on TensorFlow does alike."""

    def versions(self) -> dict[str, str]:
        """Versions of TensorFlow and of the libraries that do its arithmetic."""
        versions = {"tensorflow": str(tf.__version__)}
        if tf.config.list_physical_devices("GPU"):
            built_with = tf.sysconfig.get_build_info()
            versions["cuda"] = str(built_with["cuda_version"])
            versions["cudnn"] = str(built_with["cudnn_version"])
        return versions

    def leave(self) -> None:
        """TensorFlow parts from the others when the process ends."""

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

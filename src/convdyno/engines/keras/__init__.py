"""Keras 3 as three engines: on torch, on JAX and on TensorFlow, one of them in a process."""

from __future__ import annotations

import os
import tempfile

from convdyno.engines.contract import Engine
from convdyno.errors import Refused


def engine(backend: str) -> Engine:
    """The engine of Keras on "torch", "jax" or "tensorflow"."""
    import_keras(backend)
    match backend:
        case "torch":
            from convdyno.engines.keras.on_torch import TorchBackend

            return TorchBackend()
        case "jax":
            from convdyno.engines.keras.on_jax import JaxBackend

            return JaxBackend()
        case _:
            from convdyno.engines.keras.on_tensorflow import TensorflowBackend

            return TensorflowBackend()


def import_keras(backend: str) -> None:
    """Import Keras on a backend, whatever the user's own configuration says, and leave that alone.

    Keras reads `keras.json` from its home while it is imported, and writes one if there is none.
    """
    os.environ["KERAS_BACKEND"] = backend
    # TensorFlow reads it once, while it is imported; errors are raised all the same.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    home = os.environ.get("KERAS_HOME")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["KERAS_HOME"] = folder
        try:
            import keras
        finally:
            del os.environ["KERAS_HOME"]
            if home is not None:
                os.environ["KERAS_HOME"] = home
    if keras.backend.backend() != backend:
        raise Refused(
            f"Keras already runs on {keras.backend.backend()} in this process and cannot change to "
            f"{backend}: open this trial in a process of its own"
        )

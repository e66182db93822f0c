"""TensorFlow as an engine."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from convdyno.engines.contract import Engine


def engine() -> Engine:
    """The engine of TensorFlow."""
    # TensorFlow reads it once, while it is imported; errors are raised all the same.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    with _keras_at_home():
        from convdyno.engines.tensorflow.framework import TensorflowEngine

    return TensorflowEngine()


@contextmanager
def _keras_at_home() -> Iterator[None]:
    """Leave the user's Keras alone.

    TensorFlow imports Keras, which reads `keras.json` from its home and writes one if there is
    none; what it says of backends is not for us.
    """
    before = {name: os.environ.get(name) for name in ("KERAS_HOME", "KERAS_BACKEND")}
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"KERAS_HOME": folder, "KERAS_BACKEND": "tensorflow"}
        try:
            yield
        finally:
            for name, was in before.items():
                del os.environ[name]
                if was is not None:
                    os.environ[name] = was

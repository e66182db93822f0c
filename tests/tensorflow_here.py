"""TensorFlow in the process of the tests, with the one thread that all tests share."""

from typing import Any

from convdyno.engines import registry


def tensorflow() -> Any:
    """TensorFlow, which takes its threads once in a process."""
    registry.load("tensorflow")
    import tensorflow as framework

    from convdyno.engines.frameworks.tensorflow.device import start_runtime

    start_runtime(1, "cpu")
    return framework

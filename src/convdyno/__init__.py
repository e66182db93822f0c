"""A dynamometer for convolutional networks.

From Python: `bench` measures, `load` gives the records of a folder as rows, `errors` has every
exception, and the other functions are the commands of the same names. They are imported when they
are first used, so that importing convdyno costs nothing.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # Importing `typing` would cost as much as all of the rest.
if TYPE_CHECKING:
    from typing import Any

    from convdyno import errors as errors
    from convdyno.api import Result as Result
    from convdyno.api import Table as Table
    from convdyno.api import bench as bench
    from convdyno.api import certify as certify
    from convdyno.api import compare as compare
    from convdyno.api import evaluate as evaluate
    from convdyno.api import gate as gate
    from convdyno.api import load as load
    from convdyno.api import sweep as sweep
    from convdyno.api import train as train
    from convdyno.api import tune as tune
    from convdyno.errors import ConvdynoError as ConvdynoError

__version__ = "0.2.0.dev0"
__all__ = [
    "ConvdynoError", "Result", "Table", "bench", "certify", "compare", "errors", "evaluate",
    "gate", "load", "sweep", "train", "tune",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name == "errors":
        return import_module("convdyno.errors")
    if name == "ConvdynoError":
        return import_module("convdyno.errors").ConvdynoError
    if name in __all__:
        return getattr(import_module("convdyno.api"), name)
    raise AttributeError(f"module 'convdyno' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *__all__]

"""Libraries of the `data` extra, imported when they are used."""

from __future__ import annotations

import functools
import importlib
from typing import Any

from convdyno.errors import NotInstalled


@functools.cache
def need(module: str) -> Any:
    """A module of the extra; one sentence says how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise NotInstalled(
            f"real data needs {module!r}, which is not installed: pip install 'convdyno[data]'"
        ) from None

"""The options of `convdyno bench` by name, for whoever gives them otherwise: sweeps, and Python."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from convdyno.errors import UnknownName, UsageError

FLAGS = frozenset({"ladder", "auxiliary", "latency"})
"""Either on or off."""
MEASURING = ("within", "budget", "rounds", "watchdog", "rank_timeout")
"""How precisely and how long it is measured."""
LISTS = frozenset({"slurm", "slurm_module", "label"})
"""Options that are given again and again, rather than with commas."""
WHOLE = frozenset({"seed", "rounds", "per_node", "max_devices"})
"""Whole numbers that cannot be an axis of `bench`."""
PATHS = frozenset({"nodes", "ssh_config", "slurm_setup", "out"})
_OTHERWISE = {"networks": "network", "compiled": "compile", "as_json": "json"}
"""Parameters that are not called as their option is."""


@cache
def defaults() -> dict[str, Any]:
    """Every option of `bench` and what it is when it is not given, as `bench` itself has them."""
    from convdyno.cli.bench import bench

    found = {name: p.default for name, p in inspect.signature(bench).parameters.items()}
    return {_OTHERWISE.get(name, name): default for name, default in found.items()}


def given(values: Mapping[str, Any], *, quiet: bool = True) -> dict[str, Any]:
    """What `bench` is given if its options have these values; a list is several of one option."""
    from convdyno.cli.preset import with_preset

    known = defaults()
    for name in values:
        if name not in known or name == "json":
            raise UnknownName("option", name, sorted(known.keys() - {"json"}))
    words = known | {
        name: as_given(name, value) for name, value in values.items() if value is not None
    }
    return with_preset(words | {"networks": words["network"], "as_json": quiet}, words=())


def as_given(name: str, value: Any) -> Any:
    """A value as the command line has it after it was read."""
    if name in FLAGS:
        if not isinstance(value, bool):
            raise UsageError(f"{name} is True or False, not {value!r}")
        return value
    if name in LISTS:
        return [value] if isinstance(value, str) else [word(one) for one in value]
    if name in WHOLE:
        return _whole(name, value)
    if name in PATHS:
        return Path(value)
    if name == "image_size" and isinstance(value, tuple):
        return word(value, name)
    if isinstance(value, list | tuple | set | frozenset | range):
        if not value:
            raise UsageError(f"{name} is an empty list, so nothing would run")
        return ",".join(word(one, name) for one in value)
    return word(value)


def word(value: Any, name: str = "") -> str:
    """A value as one types it."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if name == "image_size" and isinstance(value, Iterable) and not isinstance(value, str):
        return "x".join(map(str, value))
    if isinstance(value, float):
        return repr(int(value)) if value.is_integer() else repr(value)
    return str(value)


def _whole(name: str, value: Any) -> int:
    try:
        number = int(value)
    except (TypeError, ValueError):
        number = -1
    low = 0 if name == "seed" else 1
    if number < low or isinstance(value, bool) or (not isinstance(value, str) and number != value):
        raise UsageError(f"{name} must be a whole number from {low} up, not {value!r}")
    return number

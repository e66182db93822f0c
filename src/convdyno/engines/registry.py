"""The engines by name: which are installed, and how to get the others. Imports no framework."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from importlib import metadata
from typing import TYPE_CHECKING, NamedTuple

from convdyno.errors import NotInstalled, UnknownName

if TYPE_CHECKING:
    from convdyno.engines.contract import Engine


class _Row(NamedTuple):
    module: str
    """Has a function `engine()`."""
    distribution: str
    """What must be installed for the module to work."""
    extra: str = ""
    """The extra of convdyno that installs it; none for what comes with the core."""
    precisions: tuple[str, ...] = ()


_ENGINES = {
    "torch": _Row("convdyno.engines.torch", "torch", "torch", ("fp32", "bf16", "fp16", "tf32")),
    "reference": _Row("convdyno.engines.reference", "numpy"),
    "clockwork": _Row("convdyno.engines.clockwork", "convdyno"),
}


@dataclass(frozen=True, slots=True)
class EngineInfo:
    """What can be said of an engine without importing it."""

    name: str
    installed: bool
    version: str | None
    """Of the framework."""
    install: str
    """The command that installs it."""
    precisions: tuple[str, ...]
    """What a framework has on one device or another; none for what is not a framework."""


def engines() -> dict[str, EngineInfo]:
    """Every engine by its name, the best one first."""
    return {name: _info(name, row) for name, row in _ENGINES.items()}


def check(name: str) -> EngineInfo:
    """What is known of an engine; a sentence says so if there is none or it is not installed."""
    if name not in _ENGINES:
        raise UnknownName("engine", name, _ENGINES)
    info = _info(name, _ENGINES[name])
    if not info.installed:
        raise NotInstalled(f"the engine {name!r} is not installed: {info.install}")
    return info


def load(name: str) -> Engine:
    """Import an engine; a sentence says what to do if that is not possible."""
    info = check(name)
    try:
        module = importlib.import_module(_ENGINES[name].module)
    except ImportError as wrong:
        raise NotInstalled(
            f"the engine {name!r} is installed but cannot be imported ({wrong}); "
            f"try again: {info.install}"
        ) from wrong
    engine: Engine = module.engine()
    return engine


def best_installed() -> str:
    """The framework that is used when none is named."""
    frameworks = {n: info for n, info in engines().items() if _ENGINES[n].extra}
    for name, info in frameworks.items():
        if info.installed:
            return name
    choices = " or ".join(info.install for info in frameworks.values())
    raise NotInstalled(f"no framework is installed: {choices}")


def _info(name: str, row: _Row) -> EngineInfo:
    try:
        version = metadata.version(row.distribution)
    except metadata.PackageNotFoundError:
        version = None
    install = f"pip install 'convdyno[{row.extra}]'" if row.extra else "pip install convdyno"
    return EngineInfo(name, version is not None, version, install, row.precisions)

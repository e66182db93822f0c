"""The engines by name: which are installed, and how to get the others. Imports no framework."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from importlib import metadata
from typing import TYPE_CHECKING, Any, NamedTuple

from convdyno.errors import NotInstalled, UnknownName
from convdyno.trial import parse

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from convdyno.engines.contract import Engine


class _Row(NamedTuple):
    module: str
    """Has a function `engine()`, or `engine(backend)` where there is a choice of backends."""
    distribution: str
    """What must be installed for the module to work."""
    extra: str = ""
    """The extra of convdyno that installs it; none for what comes with the core."""
    precisions: tuple[str, ...] = ()
    backend: str = ""
    """The framework that this one runs on: a distribution and an extra of the same name."""


_ALL = ("fp32", "bf16", "fp16", "tf32")
_KERAS = _Row("convdyno.engines.keras", "keras", "keras", _ALL)
_ENGINES = {
    "torch": _Row("convdyno.engines.torch", "torch", "torch", _ALL),
    "jax": _Row("convdyno.engines.jax", "jax", "jax", _ALL),
    "tensorflow": _Row("convdyno.engines.tensorflow", "tensorflow", "tensorflow", _ALL),
    "keras/torch": _KERAS._replace(backend="torch"),
    "keras/jax": _KERAS._replace(backend="jax"),
    "keras/tensorflow": _KERAS._replace(backend="tensorflow"),
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
    return {name: _known(name) for name in _ENGINES}


def chosen(words: str | None) -> list[str]:
    """The engines of a comma list, `all` installed ones, or the best; one at least is installed."""
    if words is None:
        return [best_installed()]
    if words == "all":
        return installed_frameworks() or [best_installed()]
    names = list(dict.fromkeys(parse.engine(word.strip()) for word in words.split(",")))
    known = [_known(name) for name in names]
    if not any(info.installed for info in known):
        check(names[0])
    return names


def check(name: str) -> EngineInfo:
    """What is known of an engine; a sentence says so if there is none or it is not installed."""
    info = _known(name)
    if not info.installed:
        raise NotInstalled(f"the engine {name!r} is not installed: {info.install}")
    return info


def load(name: str) -> Engine:
    """Import an engine; a sentence says what to do if that is not possible."""
    info, row = check(name), _ENGINES[name]
    try:
        module = importlib.import_module(row.module)
        engine: Engine = module.engine(row.backend) if row.backend else module.engine()
    except ImportError as wrong:
        raise NotInstalled(
            f"the engine {name!r} is installed but cannot be imported ({wrong}); "
            f"try again: {info.install}"
        ) from wrong
    return engine


def read_state_dict(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of one of torch's own files by name; this imports torch."""
    check("torch")
    reader = importlib.import_module("convdyno.engines.torch.state_dict")
    found: dict[str, NDArray[Any]] = reader.read(path)
    return found


def installed_frameworks() -> list[str]:
    """The engines that can be compared: every framework that is installed."""
    return [name for name, info in engines().items() if _ENGINES[name].extra and info.installed]


def best_installed() -> str:
    """The framework that is used when none is named."""
    frameworks = {n: info for n, info in engines().items() if _ENGINES[n].extra}
    for name, info in frameworks.items():
        if info.installed:
            return name
    choices = " or ".join(info.install for info in frameworks.values())
    raise NotInstalled(f"no framework is installed: {choices}")


def _known(name: str) -> EngineInfo:
    if name not in _ENGINES:
        raise UnknownName("engine", name, _ENGINES)
    row = _ENGINES[name]
    try:
        version, *_ = [metadata.version(one) for one in (row.distribution, row.backend) if one]
    except metadata.PackageNotFoundError:
        version = None
    extras = ",".join(filter(None, (row.extra, row.backend)))
    install = f"pip install 'convdyno[{extras}]'" if extras else "pip install convdyno"
    return EngineInfo(name, version is not None, version, install, row.precisions)

"""`bench --preset NAME`: settings that were found by `tune`, where the command line gives none."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import typer

from convdyno.errors import UsageError

WORK = ("mode", "precision", "devices")
"""What a preset was found for, besides its network and engine."""


def with_preset(given: dict[str, Any], words: Iterable[str] | None = None) -> dict[str, Any]:
    """The options with those of their preset, if they name one; what is given wins.

    `words` are those of the command line, where they are not the program's own.
    """
    if not given.get("preset"):
        return given
    from convdyno.results import facts, machines
    from convdyno.results.preset import find_preset

    out: Path = given["out"]
    preset = find_preset(given["preset"], out)
    named = explicit(given, sys.argv[1:] if words is None else words)
    network = given["networks"] or given["network"]
    if network not in (None, preset.network):
        raise UsageError(f"the preset {preset.name} is for {preset.network}, not for {network}")
    if "engine" in named and given["engine"] != preset.engine:
        raise UsageError(
            f"the preset {preset.name} is for {preset.engine}, not for {given['engine']}"
        )
    found = {
        name: str(value)
        for name, value in preset.settings.model_dump(exclude_none=True).items()
        if name not in named
    }
    found |= {name: str(getattr(preset, name)) for name in WORK if name not in named}
    machine = facts.machine()
    here = {"host": preset.host, "kind": preset.machine}
    if not given["as_json"] and here != {"host": machine["host"], "kind": machines.kind(machine)}:
        typer.echo(
            f"mind: the preset {preset.name} was found on {preset.host} ({preset.machine})",
            err=True,
        )
    changes = {"networks": preset.network, "network": None, "engine": preset.engine}
    if "compile" in found:
        changes["compiled"] = found["compile"]
    return given | found | changes | {"used_preset": preset.name}


def explicit(given: dict[str, Any], words: Iterable[str]) -> set[str]:
    """The options that were given: they are on the command line, or are not as they are without."""
    from convdyno.cli.options import defaults

    said = {
        word.partition("=")[0].removeprefix("--").replace("-", "_")
        for word in words
        if word.startswith("--")
    }
    usual = defaults()
    return {
        name
        for name, default in usual.items()
        if name in said or given.get(name, default) != default
    }

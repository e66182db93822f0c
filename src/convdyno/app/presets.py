"""Settings that `tune` has found, where a request gives none."""

from __future__ import annotations

from dataclasses import replace

from convdyno.app.requests import BenchRequest
from convdyno.errors import UsageError
from convdyno.machine import facts, kinds
from convdyno.stage.progress import Narrator
from convdyno.store.preset import find_preset
from convdyno.trial import axes

WORK = ("mode", "precision", "devices")
"""What a preset was found for, besides its network and engine."""


def with_preset(request: BenchRequest, narrator: Narrator) -> BenchRequest:
    """The request with the settings of its preset, if it names one; what is given wins."""
    if not request.preset:
        return request
    preset = find_preset(request.preset, request.out)
    for name, ours in (("network", request.network), ("engine", request.axes.get("engine"))):
        theirs = getattr(preset, name)
        if ours is not None and axes.find(name).values(ours) != [theirs]:
            raise UsageError(f"the preset {preset.name} is for {theirs}, not for {ours}")
    machine = facts.machine()
    if (preset.host, preset.machine) != (machine["host"], kinds.kind(machine)):
        narrator.tell(
            f"mind: the preset {preset.name} was found on {preset.host} ({preset.machine})"
        )
    found = preset.settings.model_dump(exclude_none=True)
    found |= {name: getattr(preset, name) for name in (*WORK, "engine")}
    return replace(
        request, network=preset.network, axes=found | dict(request.axes), preset=preset.name
    )

"""Over how many devices a command is spread, and what each of them has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from convdyno.trial import parse

if TYPE_CHECKING:
    from convdyno.launch.crew import Launcher


def shared_out(there: Launcher, devices: str | None, cores: str, device: str) -> dict[str, Any]:
    """The fields of a trial that say so: what was asked for, or what is there."""
    wanted = None if devices is None else [parse.whole("--devices")(devices)]
    (count,) = there.counts(wanted)
    own = None if cores == "auto" else parse.whole("--cores")(cores)
    if own is None:
        own = there.cores(count, device)
    return {"devices": count, "hosts": there.hosts(count), "cores": own}

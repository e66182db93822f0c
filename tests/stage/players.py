"""Teams without processes, which say at once what a worker would have said."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from convdyno.errors import TrialFailed
from convdyno.launch.launcher import Team
from convdyno.store.record import Rank
from convdyno.trial.spec import Trial

NETWORK = {
    "digest": "d", "parameters": 1, "macs": 1, "image": (1, 1, 1), "classes": 2, "nodes": 1,
}  # fmt: skip


@dataclass
class Troupe:
    """Starts players, so many at the same time as have room, up to the largest batch that fits."""

    room: int = 100
    crowd: int = 100
    """How many at the same time have room for a turn."""
    largest: int = 10**9
    versions: dict[str, str] = field(default_factory=lambda: {"made-up": "1"})
    alive: list[Player] = field(default_factory=list)
    opened: list[Trial] = field(default_factory=list)
    most: int = 0
    turns: int = 0
    at_turn: dict[int, Any] = field(default_factory=dict)
    """What to call when a turn of that number, counted from 1, is being measured."""

    def start(self, trial: Trial) -> Player:
        self.alive.append(player := Player(self, trial))
        return player


class Player(Team):
    """One made-up worker."""

    ranks: tuple[Rank, ...] = ()

    def __init__(self, troupe: Troupe, trial: Trial) -> None:
        self._troupe, self._trial = troupe, trial

    def ask(self, do: str, *, silence: float, until: float | None = None, **more: Any) -> Any:
        troupe = self._troupe
        match do:
            case "open":
                if len(troupe.alive) > troupe.room or self._trial.batch > troupe.largest:
                    raise TrialFailed("oom", f"no room for a batch of {self._trial.batch}")
                troupe.most = max(troupe.most, len(troupe.alive))
                troupe.opened.append(self._trial)
                return {
                    "settings": {"device": "cpu", "warnings": []},
                    "network": NETWORK,
                    "input": None,
                    "versions": troupe.versions,
                    "host": "a",
                    "pid": len(troupe.opened),
                    "import_seconds": 0.1,
                    "build_seconds": 0.1,
                    "first_step_seconds": 0.1,
                    "first_loss": 1.0,
                }
            case "warm":
                return {"steady": True, "warmup_seconds": 0.1, "warmup": [_block(0)]}
            case "measure":
                troupe.turns += 1
                if len(troupe.alive) > troupe.crowd:
                    raise TrialFailed("oom", f"no room for a turn of {self._trial.batch}")
                troupe.at_turn.get(troupe.turns, lambda: None)()
                return {"blocks": [_block(more["turn"])], "last_loss": 1.0, "recompilations": 0}
            case "probe":
                return {"peaks": [{"kind": "matmul", "per_second": 1.0}]}
        return {"peak_memory_bytes": 1, "device_memory_bytes": None}

    def events(self, do: str, **more: Any) -> Iterator[dict[str, Any]]:
        raise NotImplementedError

    def nudge(self) -> None:
        pass

    def pause(self) -> None:
        pass

    def end(self, *, kindly: bool = False) -> None:
        if self in self._troupe.alive:
            self._troupe.alive.remove(self)


def _block(turn: int) -> dict[str, Any]:
    return {"seconds": 1.0, "steps": 10, "turn": turn}

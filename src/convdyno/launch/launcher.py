"""What every way of running trials offers: where they run, and what runs them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from convdyno.launch.transport import DOING
from convdyno.machine import facts
from convdyno.store.record import Rank
from convdyno.trial.spec import Trial


class OutOfTime(Exception):
    """The budget ended while a worker was at work; nothing is wrong with the worker."""

    def __init__(self, doing: str) -> None:
        super().__init__(DOING[doing])


class Team(Protocol):
    """What runs a trial: one worker, or a group of workers."""

    ranks: tuple[Rank, ...] = ()
    """Everybody in a group of workers, as far as they have come; nobody for a plain worker."""
    _begun: Mapping[str, Any] = {}

    def ask(
        self, do: str, *, silence: float, until: float | None = None, **more: Any
    ) -> dict[str, Any]:
        """Send one command and sleep until its answer."""

    def begin(self, do: str, **more: Any) -> None:
        """Send one command whose answer `finish` waits for; as it stands, `finish` sends it too."""
        self._begun = more

    def finish(self, do: str, *, silence: float, until: float | None = None) -> dict[str, Any]:
        """Sleep until the answer of what was begun."""
        return self.ask(do, silence=silence, until=until, **self._begun)

    def events(
        self, do: str, *, silence: float, until: float | None = None, **more: Any
    ) -> Iterator[dict[str, Any]]:
        """Send one command and give every line of its answer."""

    def nudge(self) -> None:
        """Ask for an early, orderly end of what is being done."""

    def pause(self) -> None:
        """Let nobody's threads spin until the next command, where that is possible."""
        return

    def end(self, *, kindly: bool = False) -> None:
        """End every process; a second time does nothing."""


class Room(Protocol):
    """What there is to run trials on."""

    def counts(self, wanted: Sequence[int] | None) -> list[int]:
        """How many devices cells have, if these were asked for; says so if there are fewer."""

    def hosts(self, devices: int) -> int:
        """Over how many machines so many devices are spread."""

    def cores(self, most: int, device: str) -> int | None:
        """CPU cores for each of up to so many devices of a kind; None: no fixed share."""


class Launcher(Room, Protocol):
    """Where trials run: this machine, hosts over ssh, or ranks that somebody else has made.

    Whoever inherits it, as it stands, runs on this machine, needs nothing and keeps nothing.
    """

    def check(self, trials: Sequence[Trial]) -> None:
        """Make ready whatever these trials need; says what is missing."""
        return

    def machine(self) -> dict[str, Any]:
        """What trials run on, once checked; of several hosts the first, which stands for all."""
        return facts.machine()

    def alone(self, trial: Trial) -> bool:
        """Whether a trial's processes cannot be stopped while others are measured."""
        return True

    def start(self, trial: Trial, rank_seconds: float) -> Team:
        """Start what runs a trial."""

    def close(self) -> None:
        """Nothing more is started."""
        return

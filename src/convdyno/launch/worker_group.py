"""Several workers that run one trial together, spoken to as one.

A command goes to all ranks, and its answer is there when all have answered. Every few seconds each
rank says that it is alive: whoever is silent for longer, has died or has failed is named, with its
host, and the whole group is ended.
"""

from __future__ import annotations

import secrets
import selectors
import signal
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from convdyno import __version__
from convdyno.errors import TrialFailed
from convdyno.launch.joint_answer import joint_answer
from convdyno.launch.launcher import OutOfTime, Team
from convdyno.launch.transport import DOING, Link, died_while
from convdyno.store.record import Rank
from convdyno.trial.spec import Trial
from convdyno.trial.world import World

STARTING = 3
"""Times as long while it starts: importing a framework may leave it no breath."""
PING_SECONDS = 5.0
"""How often far workers hear that somebody still wants them."""
STRUCK = ("SIGKILL", "SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE")
"""Signals that end a rank for a reason of its own, not because another one is gone."""
LAST_WORDS_SECONDS = 1.5
"""How long the others are listened to once one has failed: the cause may speak last."""


@dataclass(frozen=True)
class Place:
    """Where one rank runs."""

    host: str
    """As it is reached by the others; empty for this machine alone."""
    local_rank: int
    local_size: int
    cores: int | None
    """How many CPU cores it has to itself."""
    interface: str | None = None
    name: str = ""
    """What people call the host, where that is not its address."""
    apart: bool = False
    """Whether it is allowed other cores than the ranks beside it already."""

    @property
    def called(self) -> str:
        """The host in a sentence."""
        return self.name or self.host or "this machine"

    @property
    def pins(self) -> list[int] | None:
        """The numbers of its cores among those that its host allows."""
        if self.cores is None:
            return None
        first = 0 if self.apart else self.local_rank * self.cores
        return list(range(first, first + self.cores))


class WorkerGroup(Team):
    """The ranks of one trial; every failure is a `TrialFailed` that names rank and host.

    A rank that is silent for `rank_seconds` counts as lost. Crews are never paused: engines would
    take that for a lost rank.
    """

    def __init__(
        self,
        connect: Callable[[Place], Link],
        places: Sequence[Place],
        trial: Trial,
        rank_seconds: float,
    ) -> None:
        self._places, self._trial, self._rank_seconds = places, trial, rank_seconds
        self._links: list[Link] = []
        self._ended = False
        self._selector = selectors.DefaultSelector()
        self._joined = False
        try:
            for rank, place in enumerate(places):
                self._links.append(connect(place))
                self._selector.register(self._links[rank], selectors.EVENT_READ, rank)
        except BaseException:
            self.end()
            raise
        self._unread: list[deque[dict[str, Any]]] = [deque() for _ in places]
        self._heard = [time.monotonic()] * len(places)
        self._closed: set[int] = set()
        """Ranks that have said all they had to say, and end."""
        self._said = [0] * len(places)
        """How often each rank had spoken in the meeting when it was last heard of."""
        self._pinged = time.monotonic()

    def ask(
        self, do: str, *, silence: float, until: float | None = None, **more: Any
    ) -> dict[str, Any]:
        """Send one command to all and sleep until all have answered; answers are made one."""
        if not self._joined:
            self._meet(silence, until)
        self._tell(do, **more)
        return self._merged(self._answers(do, silence, until))

    def events(
        self, do: str, *, silence: float, until: float | None = None, **more: Any
    ) -> Iterator[dict[str, Any]]:
        """Send one command to all and give every line of rank 0's answer; only rank 0 speaks."""
        if not self._joined:
            self._meet(silence, until)
        self._tell(do, **more)
        while True:
            yield self._event(0, do, silence, until)
            for unread in self._unread[1:]:
                unread.clear()

    def nudge(self) -> None:
        """Ask all to finish what they are doing."""
        for link in self._links:
            link.nudge()

    def end(self, *, kindly: bool = False) -> None:
        """End every rank and everything that it started; a second time does nothing."""
        if self._ended:
            return
        self._ended = True
        if not kindly:
            for link in self._links:  # All at once, so that none waits for another's end.
                link.signal(signal.SIGKILL)
        for link in self._links:
            link.end(kindly=kindly)
        self._selector.close()

    def _meet(self, silence: float, until: float | None) -> None:
        """Let everybody say where they are, tell all of all, and let their engines connect."""
        self._joined = True
        self._tell_each("greet", [
            {
                "pins": place.pins,
                "local_rank": place.local_rank,
                "local_size": place.local_size,
                "device": self._trial.device,
            }
            for place in self._places
        ])  # fmt: skip
        greeted = self._answers("greet", silence, until)
        for rank, one in enumerate(greeted):
            if one["convdyno"] != __version__:
                raise TrialFailed(
                    "refused",
                    f"{self._who(rank)} has convdyno {one['convdyno']}, and this is {__version__}: "
                    "install the same on all hosts",
                )
        hosts = [place.host or "127.0.0.1" for place in self._places]
        common: dict[str, Any] = {
            "size": len(hosts),
            "peers": [f"{h}:{one['ports'][0]}" for h, one in zip(hosts, greeted, strict=True)],
            "meeting": f"{hosts[0]}:{greeted[0]['ports'][1]}",
            "token": secrets.token_hex(16),
            "timeout_seconds": 3 * self._rank_seconds,
        }
        trial = self._trial.model_dump(mode="json")
        orders = []
        for rank, place in enumerate(self._places):
            own = {name: getattr(place, name) for name in ("local_rank", "local_size", "interface")}
            world = World(rank=rank, **own, **common)
            orders.append({"world": world.model_dump(mode="json"), "trial": trial})
        self._tell_each("join", orders)
        self._answers("join", silence, until)
        self.ranks = tuple(
            Rank(
                rank=rank,
                host=place.name or one["host"],
                local_rank=place.local_rank,
                pid=one["pid"],
                visible=one["visible"],
                allocated=one["allocated"],
                cores=tuple(one["cores"]),
                clock_skew_seconds=one["skew"] if place.host else None,
            )
            for rank, (place, one) in enumerate(zip(self._places, greeted, strict=True))
        )

    def _tell(self, do: str, **more: Any) -> None:
        self._tell_each(do, [more] * len(self._links))

    def _tell_each(self, do: str, each: Sequence[dict[str, Any]]) -> None:
        self._heard = [time.monotonic()] * len(self._links)
        for link, more in zip(self._links, each, strict=True):
            link.send(do, **more)

    def _answers(self, do: str, silence: float, until: float | None) -> list[dict[str, Any]]:
        """One answer from each rank, in their order."""
        found: list[dict[str, Any]] = []
        for rank in range(len(self._links)):
            answer = {"event": "progress"}
            while answer["event"] == "progress":
                answer = self._event(rank, do, silence, until)
            found.append(answer)
        return found

    def _event(self, rank: int, doing: str, silence: float, until: float | None) -> dict[str, Any]:
        """The next line of one rank, while all are listened to."""
        last = time.monotonic()
        while not self._unread[rank]:
            ended = [n for n, link in enumerate(self._links) if link.ended()]
            # Before anybody is called silent: this process itself may have been stopped for long.
            if self._listen(doing, 0.0, until):
                last = time.monotonic()
                continue
            if gone := [n for n in ended if n not in self._closed]:
                raise self._cause(doing, gone[0], None)
            now = time.monotonic()
            if until is not None and now >= until:
                raise OutOfTime(doing)
            if now - last > silence:
                raise TrialFailed(
                    "timeout",
                    f"{self._awaited(rank)}: no answer for {silence:.0f} s ({DOING[doing]}); "
                    "all ranks were ended",
                )
            limit = self._rank_seconds * (STARTING if doing in ("greet", "join") else 1)
            silent = [n for n, heard in enumerate(self._heard) if now - heard > limit]
            if lost := [n for n in silent if n not in self._closed]:
                raise TrialFailed(
                    "failed",
                    f"{self._who(lost[0])} was lost: no sign of life for {limit:.0f} s while "
                    f"{DOING[doing]}; all ranks were ended",
                )
            if self._listen(doing, 1.0, until):
                last = time.monotonic()
        return self._unread[rank].popleft()

    def _listen(self, doing: str, seconds: float, until: float | None) -> bool:
        """Take in what ranks say; whether it was more than a sign of life."""
        if until is not None:
            seconds = min(seconds, max(0.0, until - time.monotonic()))
        progress = False
        for key, _ in self._selector.select(seconds):
            rank = key.data
            received = self._links[rank].receive()
            if received is None:
                if rank not in self._closed:
                    raise self._cause(doing, rank, None)
                self._selector.unregister(self._links[rank])
                continue
            self._heard[rank] = time.monotonic()
            for event in received:
                if event["event"] == "failed":
                    raise self._cause(doing, rank, event)
                if event["event"] == "alive":
                    self._said[rank] = event["said"]
                else:
                    if event["event"] == "greeted":
                        event["skew"] = event["time"] - time.time()
                    progress = True
                    self._unread[rank].append(event)
                    if event["event"] == "closed":
                        self._closed.add(rank)
        if time.monotonic() - self._pinged > PING_SECONDS:
            self._pinged = time.monotonic()
            for link in self._links:
                link.ping()
        return progress

    def _cause(self, doing: str, rank: int, failed: dict[str, Any] | None) -> TrialFailed:
        """Who is to blame: a rank's end makes the others fail too, sometimes a little earlier.

        Whoever was killed comes before whoever gave a reason, and both before whoever was only
        ended by its framework because another rank was gone.
        """
        found = {rank: failed}
        deadline = time.monotonic() + LAST_WORDS_SECONDS
        while len(found) < len(self._links) and (left := deadline - time.monotonic()) > 0:
            for key, _ in self._selector.select(left):
                if key.data in found:
                    self._selector.unregister(key.fileobj)
                    continue
                received = self._links[key.data].receive()
                if received is None:
                    found[key.data] = None
                for event in received or ():
                    if event["event"] == "failed":
                        found[key.data] = event
        for n, link in enumerate(self._links):
            if n not in found and n not in self._closed and link.ended():
                found[n] = None
        deaths = {n: self._links[n].death() for n, event in found.items() if event is None}
        killed = [
            n
            for n, (status, how) in deaths.items()
            if status == "oom" or any(name in how for name in STRUCK)
        ]
        spoke = [n for n, event in found.items() if event is not None]
        refused = [n for n in spoke if found[n]["status"] != "failed"]  # type: ignore[index]
        guilty = (killed or refused or [n for n in deaths if n == rank] or spoke or [rank])[0]
        event = found[guilty]
        if event is not None:
            return TrialFailed(event["status"], f"{self._who(guilty)}: {event['reason']}")
        status, how = deaths[guilty]
        said = f": {how}" if status == "oom" else f" {died_while(how, doing)}"
        return TrialFailed(status, f"{self._who(guilty)}{said}")

    def _awaited(self, rank: int) -> str:
        """Who keeps the others waiting, as far as can be told, when a rank's answer is missing.

        A rank may only wait in the meeting for another one, which has not got there.
        """
        silent = [n for n in range(rank, len(self._links)) if not self._unread[n]]
        least = min(self._said[n] for n in silent)
        return " and ".join(self._who(n) for n in silent if self._said[n] == least)

    def _who(self, rank: int) -> str:
        return f"rank {rank} on {self._places[rank].called}"

    def _merged(self, answers: list[dict[str, Any]]) -> dict[str, Any]:
        """All answers as one; what is each rank's own is noted."""
        match answers[0]["event"]:
            case "opened":
                self._same_network(answers)
                self._note(device=[a["settings"]["device"] for a in answers])
            case "measured":
                times = [tuple(b["seconds"] for b in a["blocks"]) for a in answers]
                self._note(
                    seconds=[r.seconds + t for r, t in zip(self.ranks, times, strict=True)],
                    last_loss=[a["last_loss"] for a in answers],
                )
            case "closed":
                for name in ("peak_memory_bytes", "device_memory_bytes"):
                    self._note(**{name: [a[name] for a in answers]})
        independent = self._trial.exchange == "independent" or self._trial.mode == "infer"
        return joint_answer(answers, independent)

    def _same_network(self, answers: list[dict[str, Any]]) -> None:
        first = answers[0]["network"]["digest"]
        for rank, answer in enumerate(answers):
            if (other := answer["network"]["digest"]) != first:
                raise TrialFailed(
                    "refused",
                    f"{self._who(rank)} makes another network of {self._trial.network!r} than "
                    f"rank 0 ({other[:12]}, there {first[:12]})",
                )

    def _note(self, **columns: Sequence[Any]) -> None:
        self.ranks = tuple(
            one.but(**{name: values[n] for name, values in columns.items()})
            for n, one in enumerate(self.ranks)
        )

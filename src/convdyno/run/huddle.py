"""Small agreements between the ranks of a trial, outside whatever is timed.

JSON lines over TCP to rank 0: every rank says something, and all hear what everybody said. Engines
exchange gradients their own way; this is for decisions that all ranks must take alike, whichever
the engine.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import socket
import time
from typing import Any, TextIO, TypeVar

from convdyno.errors import TrialFailed
from convdyno.trial.world import World

T = TypeVar("T")
RETRY_SECONDS = 0.1
INTRODUCTION_SECONDS = 5.0
"""How long a caller may take to say who it is."""


class Huddle:
    """The ranks of one trial; one alone agrees with itself."""

    def __init__(self, world: World, patience: float = 60.0) -> None:
        self._world = world
        self.said = 0
        """How often this rank has spoken; who has least often is who the others wait for."""
        self._lines: list[TextIO] = []
        """Rank 0 has one line to each other rank, in their order; another rank has one to it."""
        if world.alone:
            return
        host, _, port = world.huddle.rpartition(":")
        if world.rank == 0:
            self._lines = _received(host, int(port), world, patience)
        else:
            self._lines = [_called(host, int(port), world, patience)]

    def gather(self, value: T) -> list[T]:
        """What every rank said, in their order; all ranks ask at the same point."""
        self.said += 1
        if self._world.alone:
            return [value]
        if self._world.rank:
            _write(self._lines[0], value)
            return list(_read(self._lines[0], 0))
        said = [value, *(_read(line, rank) for rank, line in enumerate(self._lines, 1))]
        for line in self._lines:
            _write(line, said)
        return said

    def agree(self, value: T) -> T:
        """What rank 0 said."""
        return self.gather(value)[0]

    def worst(self, value: int) -> int:
        """The largest that anybody said."""
        return max(self.gather(value))

    def close(self) -> None:
        """Hang up."""
        for line in self._lines:
            line.close()
        self._lines = []


def _received(host: str, port: int, world: World, patience: float) -> list[TextIO]:
    """As rank 0: a line from each of the others; strangers are not listened to."""
    deadline, found = time.monotonic() + patience, dict[int, TextIO]()
    with socket.create_server((host, port), backlog=world.size) as server:
        while missing := sorted(set(range(1, world.size)) - found.keys()):
            server.settimeout(max(0.01, deadline - time.monotonic()))
            try:
                caller, _ = server.accept()
            except TimeoutError:
                raise TrialFailed("failed", _silent(missing, patience)) from None
            caller.settimeout(INTRODUCTION_SECONDS)
            line, said = _line(caller), ""
            with contextlib.suppress(OSError):
                said = line.readline().rstrip("\n")
            rank, _, token = said.partition(" ")
            known = hmac.compare_digest(token.encode(), world.token.encode())
            if known and rank in map(str, missing):
                caller.settimeout(None)
                found[int(rank)] = line
            else:
                line.close()
                caller.close()
    return [found[rank] for rank in sorted(found)]


def _called(host: str, port: int, world: World, patience: float) -> TextIO:
    """As another rank: the line to rank 0, as soon as it listens."""
    deadline = time.monotonic() + patience
    while True:
        try:
            connection = socket.create_connection((host, port), timeout=patience)
            break
        except OSError as wrong:
            if time.monotonic() > deadline:
                raise TrialFailed(
                    "failed", f"rank 0 cannot be reached at {host}:{port}: {wrong}"
                ) from None
            time.sleep(RETRY_SECONDS)
    connection.settimeout(None)
    line = _line(connection)
    line.write(f"{world.rank} {world.token}\n")
    line.flush()
    return line


def _line(connection: socket.socket) -> TextIO:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection.makefile("rw", encoding="utf-8", errors="replace", newline="\n")


def _write(line: TextIO, value: Any) -> None:
    line.write(json.dumps(value) + "\n")
    line.flush()


def _read(line: TextIO, rank: int) -> Any:
    said = line.readline()
    if not said:
        raise TrialFailed("failed", f"rank {rank} hung up")
    return json.loads(said)


def _silent(ranks: list[int], patience: float) -> str:
    who = f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {', '.join(map(str, ranks))}"
    return f"{who} did not call rank 0 within {patience:.0f} s"

"""The ranks of a trial and what they tell each other, outside whatever is timed.

JSON lines over TCP to rank 0: every rank says something, and all hear what everybody said. Engines
exchange gradients their own way; this is for decisions that all ranks must take alike, whichever
the engine, and for what one rank has and the others need.
"""

from __future__ import annotations

import base64
import hashlib
import json
import socket
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TextIO, TypeVar

from convdyno.errors import ConvdynoError, TrialFailed
from convdyno.rendezvous import Meeting, call, listen
from convdyno.trial.world import World

if TYPE_CHECKING:
    from numpy.typing import NDArray

T = TypeVar("T")
Packed = dict[str, tuple[str, list[int], str]]
"""Arrays as JSON has them: type, shape and bytes of each."""
CHUNK = 8 << 20
"""Bytes of a file that are told at a time."""
RETRY_SECONDS = 0.1


class Ranks:
    """One rank and its line to the others; one alone agrees with itself."""

    def __init__(self, world: World | None = None, patience: float = 60.0) -> None:
        self.world = world = world or World()
        self.said = 0
        """How often this rank has spoken; who has least often is who the others wait for."""
        self._lines: list[TextIO] = []
        """Rank 0 has one line to each other rank, in their order; another rank has one to it."""
        if world.alone:
            return
        host, _, port = world.meeting.rpartition(":")
        if self.first:
            self._lines = _received(host, int(port), world, patience)
        else:
            self._lines = [_called(host, int(port), world, patience)]

    @property
    def alone(self) -> bool:
        """Whether there is no other rank."""
        return self.world.alone

    @property
    def first(self) -> bool:
        """Whether this is rank 0, which writes and speaks for all."""
        return self.world.rank == 0

    def gather(self, value: T) -> list[T]:
        """What every rank said, in their order; all ranks ask at the same point."""
        self.said += 1
        if self.alone:
            return [value]
        if not self.first:
            _write(self._lines[0], value, 0)
            return list(_read(self._lines[0], 0))
        said = [value, *(_read(line, rank) for rank, line in enumerate(self._lines, 1))]
        for rank, line in enumerate(self._lines, 1):
            _write(line, said, rank)
        return said

    def agree(self, value: T) -> T:
        """What rank 0 said."""
        return self.gather(value)[0]

    @contextmanager
    def file_of_first(self, path: Path) -> Iterator[Path]:
        """A file of rank 0, on every rank: itself where it is seen, else a copy for a while."""
        digests = [None] if self.alone else self.gather(_digest(path))
        if all(digest == digests[0] for digest in digests):
            yield path
            return
        with tempfile.TemporaryDirectory(prefix="convdyno-") as folder:
            here = path if self.first else Path(folder) / path.name
            size = self.agree(path.stat().st_size if self.first else 0)
            with here.open("rb" if self.first else "wb") as file:
                for _ in range(0, size, CHUNK):
                    text = base64.b64encode(file.read(CHUNK)).decode() if self.first else ""
                    told = self.agree(text)
                    if not self.first:
                        file.write(base64.b64decode(told))
            yield here

    def fail_together(self, problem: ConvdynoError) -> NoReturn:
        """Raise what all ranks have found alike: rank 0 says it, the others wait for it to end."""
        if not self.first:
            self.agree(None)
        raise problem

    def close(self) -> None:
        """Close the lines to the others."""
        for line in self._lines:
            with suppress(OSError):  # What was not sent would be sent now.
                line.close()
        self._lines = []


def pack(arrays: Mapping[str, NDArray[Any]]) -> Packed:
    """Arrays as ranks tell them each other."""
    return {
        name: (str(array.dtype), list(array.shape), base64.b64encode(array.tobytes()).decode())
        for name, array in arrays.items()
    }


def unpack(packed: Packed) -> dict[str, NDArray[Any]]:
    """The same arrays, to the bit."""
    import numpy as np  # Not before a worker is pinned: it would make threads for all cores.

    return {
        name: np.frombuffer(base64.b64decode(text), np.dtype(kind)).reshape(shape).copy()
        for name, (kind, shape, text) in packed.items()
    }


def _digest(path: Path) -> str | None:
    """Of what a file says; None where there is none."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


def _received(host: str, port: int, world: World, patience: float) -> list[TextIO]:
    """As rank 0: a line from each of the others; strangers are not listened to."""
    meeting = Meeting(listen(host, port), world.token.encode(), world.size)
    try:
        if missing := meeting.missing(patience):
            who = ("rank " if len(missing) == 1 else "ranks ") + ", ".join(map(str, missing))
            raise TrialFailed("failed", f"{who} did not call rank 0 within {patience:.0f} s")
        return [_line(meeting.take(rank).line) for rank in range(1, world.size)]
    finally:
        meeting.close()


def _called(host: str, port: int, world: World, patience: float) -> TextIO:
    """As another rank: the line to rank 0, as soon as it listens."""
    deadline = time.monotonic() + patience
    while True:
        try:
            return _line(call(host, port, world.token.encode(), world.rank, world.size))
        except OSError as wrong:
            if time.monotonic() > deadline:
                raise TrialFailed(
                    "failed", f"rank 0 cannot be reached at {host}:{port}: {wrong}"
                ) from None
            time.sleep(RETRY_SECONDS)


def _line(connection: socket.socket) -> TextIO:
    with connection:  # The file keeps it open.
        return connection.makefile("rw", encoding="utf-8", errors="replace", newline="\n")


def _write(line: TextIO, value: Any, rank: int) -> None:
    try:
        line.write(json.dumps(value) + "\n")
        line.flush()
    except ConnectionError:
        raise _gone(rank) from None


def _read(line: TextIO, rank: int) -> Any:
    said = ""
    with suppress(ConnectionError):
        said = line.readline()
    if not said:
        raise _gone(rank)
    return json.loads(said)


def _gone(rank: int) -> TrialFailed:
    return TrialFailed("failed", f"rank {rank} hung up")

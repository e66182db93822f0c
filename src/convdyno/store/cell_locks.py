"""Claims: which process is measuring which cell of a results folder now.

A claim is a small file `.claims/CELL` that says who holds it. On this machine its lock tells
whether the holder lives, however it ended; where locks do not work or do not reach (another host, a
file system without them), its process number and the time until which it may last do.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from convdyno.errors import BadStore
from convdyno.files import closing, lock, open_lock

FOLDER = ".claims"
WAIT_SECONDS = 1.0
"""How long apart it is looked whether another process is done with a cell."""
LOOKS, LOOK_SECONDS = 10, 0.02
"""How often, and how long apart, a lock is tried whose holder cannot be told."""


@dataclass(frozen=True)
class Holder:
    """Who measures a cell."""

    host: str
    pid: int
    started: float
    """When that process was started, which tells it from a later one of the same number."""
    since: float
    until: float
    """When it will have ended, at the latest."""

    def __str__(self) -> str:
        since = time.strftime("%H:%M:%S", time.localtime(self.since))
        return f"process {self.pid} on {self.host} since {since}"

    @property
    def here(self) -> bool:
        """Whether it runs on this machine."""
        return self.host == socket.gethostname()

    @property
    def ours(self) -> bool:
        """Whether it is this very process."""
        return self.here and self.pid == os.getpid()

    @property
    def alive(self) -> bool:
        """Whether it may still be at work, as far as can be told without its lock."""
        if not self.here:
            return time.time() < self.until
        try:
            return abs(psutil.Process(self.pid).create_time() - self.started) < 1
        except psutil.Error:
            return False


class Claim:
    """A cell that this process has to itself until it lets go, or ends."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path, self._descriptor = path, descriptor

    def release(self) -> None:
        """Let others have it; a second time does nothing."""
        if self._descriptor >= 0:
            with suppress(OSError):
                self._path.unlink()
            os.close(self._descriptor)
            self._descriptor = -1


def cell_name(digest: str, kind: str) -> str:
    """What a trial on a kind of machine is claimed by."""
    return f"{digest[:24]}-{hashlib.sha256(kind.encode()).hexdigest()[:8]}"


def claim(folder: Path, cell: str, seconds: float) -> Claim | Holder:
    """Take a cell for so long at the most; if somebody has it, who that is."""
    path = folder / FOLDER / cell
    while True:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = open_lock(path)
        except OSError as wrong:
            raise BadStore(
                f"results cannot be written to {str(folder)!r}: {wrong.strerror}. "
                "Choose another folder with --out."
            ) from None
        taken = _take(descriptor, seconds)
        if taken is None and not _replaced(path, descriptor):
            return Claim(path, descriptor)
        os.close(descriptor)
        if taken is not None:
            return taken


def claim_in_turn(
    folder: Path, cell: str, seconds: float, tell: Callable[[Holder], None]
) -> Claim | None:
    """Take a cell as soon as whoever measures it on this machine is done; `tell` is told who.

    None if it is ours already, or measured on another machine, which disturbs nobody here.
    """
    told = False
    while isinstance(found := claim(folder, cell, seconds), Holder):
        if found.ours:
            return None
        if not told:
            tell(found)
        told = True
        if not found.here:
            return None
        time.sleep(WAIT_SECONDS)
    return found


def holders(folder: Path) -> Iterator[tuple[str, Holder]]:
    """The cells that somebody measures now, and who."""
    for path in sorted((folder / FOLDER).glob("*")):
        with suppress(OSError), closing(open_lock(path, create=False)) as descriptor:
            locked = lock(descriptor)
            holder = _holder(descriptor)
            if holder and (locked is False or (holder.alive and not (locked and holder.here))):
                yield path.name, holder


def _take(descriptor: int, seconds: float) -> Holder | None:
    """Lock the file and write our name into it; or whoever has it."""
    for _ in range(LOOKS):
        locked = lock(descriptor)
        holder = _holder(descriptor)
        if locked is not False or (holder and holder.alive):
            break
        time.sleep(LOOK_SECONDS)  # Somebody only looks, or has not written its name yet.
    if locked is False:
        return holder or Holder("an unknown host", 0, 0.0, time.time(), time.time())
    if holder and holder.alive and not (locked and holder.here):
        return holder
    now, started = time.time(), psutil.Process().create_time()
    mine = Holder(socket.gethostname(), os.getpid(), started, now, now + seconds)
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, json.dumps(asdict(mine)).encode(), 0)
    return None


def _holder(descriptor: int) -> Holder | None:
    """Who wrote its name into a claim; anything else that stands there is nobody."""
    try:
        match json.loads(os.pread(descriptor, 4096, 0)):
            case {
                "host": str(host),
                "pid": int(pid),
                "started": int() | float() as started,
                "since": int() | float() as since,
                "until": int() | float() as until,
            } if 0 < pid < 1 << 31 and all(0 <= when < 1e11 for when in (started, since, until)):
                return Holder(host, pid, started, since, until)
    except (ValueError, RecursionError):
        pass
    return None


def _replaced(path: Path, descriptor: int) -> bool:
    """Whether the file was taken away by its former holder just before we locked it."""
    try:
        return os.fstat(descriptor).st_ino != path.stat().st_ino
    except FileNotFoundError:
        return True

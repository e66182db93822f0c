"""Where ranks meet: rank 0 listens, the others call, and each side proves that it belongs.

Both know a secret, and neither sends it. A caller says which rank it is and a fresh random number;
rank 0 answers with a number of its own and a proof (HMAC-SHA256 with the secret over both numbers,
the rank, how many there are, and the address and port of this connection); the caller checks it
and answers with its own proof over the same and what it has to say of itself. A recorded
conversation proves nothing, as the numbers differ, and one that somebody passes on to another port
does not either. Whoever cannot prove itself is turned away and counted, and keeps nobody waiting.
"""

from __future__ import annotations

import hmac
import json
import secrets
import selectors
import socket
import struct
import threading
import time
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

ANSWER_SECONDS = 5.0
"""How long a caller may take to prove itself."""
PATIENT_SECONDS = 2 * ANSWER_SECONDS
"""How long a caller waits for rank 0, which may have others to hear."""
CONNECT_SECONDS = 3.0
MOST_HEARD = 128
"""How many may be heard at once; the oldest is turned away for one more."""
KEEPALIVE = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}
"""How soon a rank that waits notices that the other's machine is gone."""

_MAGIC = b"convdyno ranks 1"
_HELLO = struct.Struct(f"!{len(_MAGIC)}sII32s")
"""What a caller says first: which rank of how many, and its random number."""
_NUMBER = _PROOF = 32
_LENGTH = struct.Struct("!I")
_MOST_FACTS = 1 << 16
_WELCOME = b"+"


class Unproven(OSError):
    """Somebody listens who does not know the secret."""


@dataclass(frozen=True)
class Caller:
    """A rank that has called and proven itself."""

    line: socket.socket
    facts: dict[str, Any]
    """What it says of itself."""
    host: str
    """The address that it calls from."""
    mine: str
    """Our own address, as it sees us."""


@dataclass
class _Hearing:
    """A call that has proven nothing yet."""

    line: socket.socket
    steps: Generator[int, bytes, tuple[int, Caller]]
    wanted: int
    """How many bytes it has to say next."""
    until: float
    said: bytes = b""


class Meeting:
    """As rank 0: every other rank that has called; they may call again whenever they like.

    Calls are heard by a thread of its own, so that they are answered whatever rank 0 does.
    """

    def __init__(self, server: socket.socket, secret: bytes, size: int) -> None:
        self.strangers = 0
        """How many calls could not prove that they belong."""
        self._server, self._secret, self._size = server, secret, size
        self._here: dict[int, Caller] = {}
        self._changed = threading.Condition()
        self._heard: dict[socket.socket, _Hearing] = {}
        self._selector = selectors.DefaultSelector()
        self._closing, self._close = socket.socketpair()
        server.setblocking(False)
        for one in (server, self._closing):
            self._selector.register(one, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def missing(self, seconds: float) -> list[int]:
        """Wait for all ranks to be here, but only so long; which are not."""

        def absent() -> list[int]:
            return sorted(set(range(1, self._size)) - self._here.keys())

        with self._changed:
            self._changed.wait_for(lambda: not absent(), seconds)
            return absent()

    def look(self, rank: int) -> Caller:
        """A rank that is here."""
        with self._changed:
            return self._here[rank]

    def take(self, rank: int) -> Caller:
        """A rank that is here, and then is not any more until it calls again."""
        with self._changed:
            return self._here.pop(rank)

    def close(self) -> None:
        """Hear nobody any more, and hang up on who is here; a second time does nothing."""
        self._close.close()
        self._thread.join()
        self._server.close()
        for caller in self._here.values():
            caller.line.close()
        self._here = {}

    def _serve(self) -> None:
        with self._closing, self._selector:
            while True:
                now = time.monotonic()
                for late in [one for one in self._heard.values() if one.until <= now]:
                    self._turn_away(late)
                first = min((one.until for one in self._heard.values()), default=None)
                for key, _ in self._selector.select(None if first is None else first - now):
                    if key.fileobj is self._closing:
                        for line in self._heard:
                            line.close()
                        return
                    if key.fileobj is self._server:
                        self._accept()
                    elif isinstance(key.data, _Hearing) and key.data.line in self._heard:
                        self._hear(key.data)

    def _accept(self) -> None:
        if len(self._heard) >= MOST_HEARD:
            self._turn_away(next(iter(self._heard.values())))
        try:
            line, _ = self._server.accept()
        except OSError:  # It has hung up already, or there are too many open files.
            time.sleep(0.01)
            return
        line.setblocking(False)
        steps = self._proven(line)
        hearing = _Hearing(line, steps, next(steps), time.monotonic() + ANSWER_SECONDS)
        self._heard[line] = hearing
        self._selector.register(line, selectors.EVENT_READ, hearing)

    def _hear(self, hearing: _Hearing) -> None:
        """Take in what has come, and not a byte more than was wanted."""
        try:
            chunk = hearing.line.recv(hearing.wanted - len(hearing.said))
            hearing.said += chunk
            if len(hearing.said) == hearing.wanted:
                said, hearing.said = hearing.said, b""
                hearing.wanted = hearing.steps.send(said)
            elif not chunk:
                self._turn_away(hearing)
        except BlockingIOError:
            return
        except (OSError, ValueError):
            self._turn_away(hearing)
        except StopIteration as done:
            self._forget(hearing)
            self._welcome(*done.value)

    def _welcome(self, rank: int, caller: Caller) -> None:
        with self._changed:  # Who is welcome is here, as soon as it knows.
            try:
                caller.line.sendall(_WELCOME)
                _tune(caller.line)
            except OSError:
                caller.line.close()
                return
            if rank in self._here:  # It had given up waiting, and calls again.
                self._here[rank].line.close()
            self._here[rank] = caller
            self._changed.notify_all()

    def _turn_away(self, hearing: _Hearing) -> None:
        self.strangers += 1
        self._forget(hearing)
        hearing.line.close()

    def _forget(self, hearing: _Hearing) -> None:
        del self._heard[hearing.line]
        self._selector.unregister(hearing.line)

    def _proven(self, line: socket.socket) -> Generator[int, bytes, tuple[int, Caller]]:
        """Our half of the conversation: gives how many bytes must come next, and is sent them."""
        magic, rank, size, theirs = _HELLO.unpack((yield _HELLO.size))
        if magic != _MAGIC or size != self._size or not 0 < rank < size:
            raise ValueError("no rank of ours")
        ours = secrets.token_bytes(_NUMBER)
        here, peer = line.getsockname(), line.getpeername()
        about = (theirs, ours, rank, size, here)
        line.sendall(ours + _proof(self._secret, b"rank 0", *about))
        given = yield _PROOF + _LENGTH.size
        (length,) = _LENGTH.unpack(given[_PROOF:])
        if not 0 < length <= _MOST_FACTS:
            raise ValueError("too much")
        facts = yield length
        if not hmac.compare_digest(
            given[:_PROOF], _proof(self._secret, b"caller", *about, facts=facts)
        ):
            raise ValueError("no proof")
        (host, _), (mine, _) = _plain(peer), _plain(here)
        return rank, Caller(line, json.loads(facts), host, mine)


def listen(host: str, port: int = 0, backlog: int = 1024) -> socket.socket:
    """A server at one address of this machine; by default at a port that nobody can guess."""
    family, *_, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    return socket.create_server(place[:2], family=family, backlog=backlog)


def reserve() -> socket.socket:
    """A port that no other program is given while this is open; its number is `getsockname()[1]`.

    Whoever binds it by its number and may reuse addresses, as frameworks and `listen` do, can
    listen there all the same, on Linux.
    """
    held = socket.socket()
    for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
        held.setsockopt(socket.SOL_SOCKET, option, 1)
    held.bind(("", 0))
    return held


def call(
    host: str, port: int, secret: bytes, rank: int, size: int, facts: dict[str, Any] | None = None
) -> socket.socket:
    """A line to rank 0 when both sides have proven themselves; an `OSError` if that fails."""
    line = socket.create_connection((host, port), timeout=CONNECT_SECONDS)
    try:
        until, mine = time.monotonic() + PATIENT_SECONDS, secrets.token_bytes(_NUMBER)
        line.sendall(_HELLO.pack(_MAGIC, rank, size, mine))
        answer = _exactly(line, _NUMBER + _PROOF, until)
        about = (mine, answer[:_NUMBER], rank, size, line.getpeername())
        if not hmac.compare_digest(answer[_NUMBER:], _proof(secret, b"rank 0", *about)):
            raise Unproven(f"{host}:{port} does not know the secret")
        text = json.dumps(facts or {}).encode()
        proof = _proof(secret, b"caller", *about, facts=text)
        line.sendall(proof + _LENGTH.pack(len(text)) + text)
        _exactly(line, len(_WELCOME), until)
        _tune(line)
    except BaseException:
        line.close()
        raise
    return line


def _proof(
    secret: bytes, role: bytes, theirs: bytes, ours: bytes, rank: int, size: int,
    place: tuple[Any, ...], *, facts: bytes = b"",
) -> bytes:  # fmt: skip
    """What only somebody with the secret can say of this conversation, in this role."""
    host, port = _plain(place)
    parts = (_MAGIC, role, theirs, ours, f"{rank} of {size} at {host} {port}".encode(), facts)
    whole = b"".join(_LENGTH.pack(len(part)) + part for part in parts)
    return hmac.digest(secret, whole, "sha256")


def _plain(place: tuple[Any, ...]) -> tuple[str, int]:
    """Address and port as both ends write them: an interface's name is only known here."""
    return str(place[0]).partition("%")[0], int(place[1])


def _exactly(line: socket.socket, count: int, until: float) -> bytes:
    said = b""
    while len(said) < count:
        left = until - time.monotonic()
        if left <= 0:
            raise TimeoutError("no answer")
        line.settimeout(left)
        chunk = line.recv(count - len(said))
        if not chunk:
            raise ConnectionResetError("hung up")
        said += chunk
    return said


def _tune(line: socket.socket) -> None:
    """For short lines both ways, and an end when the other's machine is gone."""
    line.setblocking(True)
    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    line.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEPALIVE.items():
        if hasattr(socket, name):
            line.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)

"""Where ranks meet: who belongs is let in, and everybody else learns and delays nothing."""

import secrets
import socket
import struct
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from convdyno import rendezvous
from convdyno.rendezvous import Meeting, Unproven, call, listen, reserve

SECRET = b"a secret that nobody else knows"
HELLO = struct.Struct("!16sII32s")


@pytest.fixture
def meeting() -> Iterator[Meeting]:
    one = Meeting(listen("127.0.0.1"), SECRET, 3)
    yield one
    one.close()


def place(meeting: Meeting) -> tuple[str, int]:
    host, port = meeting._server.getsockname()
    return host, port


def hello(rank: int = 1, size: int = 3, number: bytes = bytes(32)) -> bytes:
    return HELLO.pack(b"convdyno ranks 1", rank, size, number)


def test_all_who_know_the_secret_meet_and_what_they_say_arrives(meeting: Meeting) -> None:
    lines = {rank: call(*place(meeting), SECRET, rank, 3, {"name": f"n{rank}"}) for rank in (2, 1)}
    assert meeting.missing(120) == []
    for rank, line in lines.items():
        caller = meeting.take(rank)
        assert caller.facts == {"name": f"n{rank}"}
        assert (caller.host, caller.mine) == ("127.0.0.1", "127.0.0.1")
        caller.line.sendall(b"to you")
        assert line.recv(100) == b"to you"
        line.sendall(b"to me")
        assert caller.line.recv(100) == b"to me"
        line.close()
    assert meeting.missing(0) == [1, 2]
    assert meeting.strangers == 0


def test_what_follows_the_proof_at_once_is_not_lost(meeting: Meeting) -> None:
    line = call(*place(meeting), SECRET, 1, 3)
    line.sendall(b"at once\n")
    call(*place(meeting), SECRET, 2, 3)
    assert meeting.missing(120) == []
    assert meeting.take(1).line.recv(100) == b"at once\n"


def test_a_rank_that_calls_again_is_heard_again(meeting: Meeting) -> None:
    first = call(*place(meeting), SECRET, 1, 3)
    second = call(*place(meeting), SECRET, 1, 3)
    call(*place(meeting), SECRET, 2, 3)
    assert meeting.missing(120) == []
    assert first.recv(1) == b""
    meeting.take(1).line.sendall(b"you")
    assert second.recv(3) == b"you"


@pytest.mark.parametrize(
    "said",
    [
        b'{"rank": 1, "token": "guess", "name": "n1", "cores": [0, 1]}\n',
        bytes(100),
        b"x" * (1 << 20),
        hello(rank=0),
        hello(rank=3),
        hello(size=2),
        hello() + bytes(32) + struct.pack("!I", 2) + b"{}",
        hello() + bytes(32) + struct.pack("!I", 1 << 31) + b"{}",
        hello() + bytes(32) + struct.pack("!I", 0),
    ],
    ids=range(9),
)
def test_a_stranger_is_turned_away_and_counted(meeting: Meeting, said: bytes) -> None:
    with socket.create_connection(place(meeting)) as stranger:
        with suppress(ConnectionError):
            stranger.sendall(said)
        heard = _rest(stranger)
    assert len(heard) in (0, 64)  # A random number and a proof that is no use elsewhere.
    assert SECRET not in heard
    assert meeting.missing(0) == [1, 2]
    assert meeting.strangers == 1


def test_a_caller_with_another_secret_learns_that_it_does_not_belong(meeting: Meeting) -> None:
    with pytest.raises(Unproven):
        call(*place(meeting), b"a guess", 1, 3)
    assert meeting.missing(0) == [1, 2]


def test_many_who_are_silent_or_noisy_do_not_keep_ranks_out(
    meeting: Meeting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rendezvous, "MOST_HEARD", 16)
    silent = [socket.create_connection(place(meeting)) for _ in range(60)]
    for number, one in enumerate(silent):
        if number % 2:
            one.send(hello()[: number % 56])
    with ThreadPoolExecutor() as pool:
        lines = list(pool.map(lambda rank: call(*place(meeting), SECRET, rank, 3), (1, 2)))
    assert meeting.missing(120) == []
    for one in (*silent, *lines):
        one.close()
    assert meeting.strangers >= 60 - 16


def test_who_says_nothing_is_turned_away_in_time(
    meeting: Meeting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rendezvous, "ANSWER_SECONDS", 0.1)
    with socket.create_connection(place(meeting), timeout=120) as silent:
        assert silent.recv(1) == b""
    assert meeting.strangers == 1


def test_a_recorded_conversation_proves_nothing_to_rank_0(meeting: Meeting) -> None:
    """Also not if the same number of the caller's is used again."""
    sent = _record(meeting)
    assert meeting.missing(0) == [2]
    meeting.take(1)
    with socket.create_connection(place(meeting), timeout=120) as replayed:
        replayed.sendall(sent)
        assert len(_rest(replayed)) == 64  # A new number, and no welcome.
    assert meeting.missing(0) == [1, 2]
    assert meeting.strangers == 1


def test_a_recorded_conversation_proves_nothing_to_a_caller(meeting: Meeting) -> None:
    with socket.create_connection(place(meeting), timeout=120) as asked:
        asked.sendall(hello())
        recorded = _all(asked, 64)
    with _Impostor(recorded + b"+" * 100) as impostor, pytest.raises(Unproven):
        call("127.0.0.1", impostor.port, SECRET, 1, 3, {"name": "private"})
    assert len(impostor.heard) == HELLO.size  # Nothing was told.


def test_somebody_in_the_middle_cannot_pass_a_conversation_on(meeting: Meeting) -> None:
    """The proof names the port that was called: what rank 0 says for its own is no use here."""
    with socket.create_connection(place(meeting), timeout=120) as behind:

        def relayed(said: bytes) -> bytes:
            behind.sendall(said)
            return _all(behind, 64)

        with _Impostor(relayed) as impostor, pytest.raises(Unproven):
            call("127.0.0.1", impostor.port, SECRET, 1, 3)
    assert meeting.missing(0) == [1, 2]


def test_a_reserved_port_is_given_to_nobody_else() -> None:
    """As it was when ports were looked for, and closed until a framework had been imported."""
    with reserve() as held:
        port = held.getsockname()[1]
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", port))
        for options in ([socket.SO_REUSEADDR], [socket.SO_REUSEPORT]):
            with socket.socket() as framework:
                for option in options:
                    framework.setsockopt(socket.SOL_SOCKET, option, 1)
                framework.bind(("127.0.0.1", port))
                framework.listen()
                socket.create_connection(("127.0.0.1", port)).close()
        listen("127.0.0.1", port).close()


class _Impostor:
    """Somebody who holds a port at which a rank calls, answers once and listens on."""

    def __init__(self, answer: object) -> None:
        self._server, self._answer = listen("127.0.0.1"), answer
        self.port = self._server.getsockname()[1]
        self.heard = b""
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> "_Impostor":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join(120)
        self._server.close()

    def _serve(self) -> None:
        line, _ = self._server.accept()
        with line:
            self.heard = _all(line, HELLO.size)
            line.sendall(self._answer(self.heard) if callable(self._answer) else self._answer)
            self.heard += _rest(line)


def _record(meeting: Meeting) -> bytes:
    """All that a real rank sends to prove itself."""
    sent = hello(number=secrets.token_bytes(32))
    with socket.create_connection(place(meeting), timeout=120) as line:
        line.sendall(sent)
        about = (sent[-32:], _all(line, 64)[:32], 1, 3, line.getpeername())
        proof = rendezvous._proof(SECRET, b"caller", *about, facts=b"{}")
        sent += proof + struct.pack("!I", 2) + b"{}"
        line.sendall(sent[HELLO.size :])
        assert line.recv(1) == b"+"
    return sent


def _rest(line: socket.socket) -> bytes:
    """What is said until the other side hangs up."""
    said = b""
    with suppress(ConnectionError):
        while chunk := line.recv(1 << 10):
            said += chunk
    return said


def _all(line: socket.socket, count: int) -> bytes:
    said = b""
    while len(said) < count:
        chunk = line.recv(count - len(said))
        assert chunk
        said += chunk
    return said

"""Another user of the same host attacks ranks that somebody has started.

He knows every public variable and the job's name, sees every port, and may be there first. He gets
nothing, starts nothing, keeps nobody out, and the run says that he was there.
"""

import contextlib
import itertools
import json
import os
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import external
import psutil
import pytest

from convdyno import rendezvous
from convdyno.errors import TrialFailed
from convdyno.launch import external_ranks
from convdyno.launch.contact import Board, Contact, ports
from convdyno.launch.starters import found
from convdyno.rendezvous import Meeting, listen

T = TypeVar("T")
SECRET = "the secret of a run, which only its ranks know"


def wait_for(ask: Callable[[], T], seconds: float = 120) -> T:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if answer := ask():
            return answer
        time.sleep(0.05)
    raise AssertionError("it did not come to that")


def listening(process: subprocess.Popen[str]) -> list[tuple[str, int]]:
    """Where a process can be called: everybody on the host can see that."""
    seen = psutil.Process(process.pid).net_connections(kind="tcp")
    return [tuple(one.laddr) for one in seen if one.status == psutil.CONN_LISTEN]


def board(folder: Path) -> Board:
    """Where the ranks of a job look, as one of them."""
    member = found(external.variables(folder, 1, 2))
    assert member is not None
    return Board(member.job, external.variables(folder, 1, 2), local=True)


@contextlib.contextmanager
def started(*words: object) -> Iterator[subprocess.Popen[str]]:
    process = external.start(*words)  # type: ignore[arg-type]
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_he_calls_first_and_gets_nothing_while_the_ranks_meet(tmp_path: Path) -> None:
    with started(tmp_path, 0, 2, *external.BENCH, "--json") as first:
        ((host, port),) = wait_for(lambda: listening(first))
        assert host == "127.0.0.1"  # And at no other address, where all ranks are on one host.
        public = {"rank": 1, "token": tmp_path.name, "name": "n1", "cores": [0]}
        said = (b"", b"\n", b"x" * (1 << 20), json.dumps(public).encode() + b"\n", bytes(4000))
        strangers = []
        for number in range(50):
            strangers.append(socket.create_connection((host, port)))
            with contextlib.suppress(ConnectionError):
                strangers[-1].settimeout(1)
                strangers[-1].sendall(said[number % len(said)])
        with started(tmp_path, 1, 2, *external.BENCH, "--json") as second:
            done = external.finish(first)
            assert external.finish(second).returncode == 0
        assert done.returncode == 0, done.stderr
        for stranger in strangers:
            with stranger, contextlib.suppress(ConnectionError, TimeoutError):
                assert stranger.recv(1 << 10) == b""
    (cell,) = json.loads(done.stdout)["cells"]
    assert (cell["status"], cell["trial"]["devices"]) == ("ok", 2)
    assert "calls to rank 0 could not prove to belong to this run and were turned away" in (
        done.stderr
    )
    assert len(done.stderr.strip().splitlines()) == 1
    assert list((tmp_path / "cache").rglob("*")) == [tmp_path / "cache" / "convdyno"]


class Impostor:
    """He holds the port at which a rank thinks that rank 0 is, and answers each call otherwise."""

    def __init__(self, *answers: bytes) -> None:
        self.server, self._answers = listen("127.0.0.1"), itertools.cycle(answers)
        self.contact = Contact("127.0.0.1", self.server.getsockname()[1], SECRET)
        self.heard: list[bytes] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            line, _ = self.server.accept()
            with line, contextlib.suppress(OSError):
                line.settimeout(1)
                self.heard.append(line.recv(1 << 10))
                line.sendall(next(self._answers))
                self.heard[-1] += line.recv(1 << 10)


ORDER = json.dumps({"environment": {"PYTHONPATH": "/tmp"}, "limit": 60}).encode() + b"\n"
ANSWERS = (b"", ORDER, bytes(64) + b"+" + ORDER, b"x" * (1 << 20))


def test_he_is_no_rank_0_to_a_rank_that_calls_him(tmp_path: Path) -> None:
    """A file of an earlier run leads to him: the rank tells him nothing, and finds its own run."""
    impostor, earlier = Impostor(*ANSWERS), board(tmp_path)
    earlier.publish(impostor.contact)
    with started(tmp_path, 1, 2, *external.BENCH, "--json") as second:
        wait_for(lambda: len(impostor.heard) > len(ANSWERS))
        assert psutil.Process(second.pid).children() == []
        assert all(len(heard) == 56 for heard in impostor.heard[:-1])  # Rank, size, random number.
        for _, held in earlier._shown:
            os.close(held)  # As when that run was killed.
        with started(tmp_path, 0, 2, *external.BENCH, "--json") as first:
            done = external.finish(first)
            assert done.returncode == 0, done.stderr
            assert external.finish(second).returncode == 0
    assert "of other ranks met somebody who could not prove to be rank 0" in done.stderr


def test_a_rank_that_finds_only_him_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in external.variables(tmp_path, 1, 2).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(external_ranks, "CALL_SECONDS", 1.0)
    board(tmp_path).publish(Impostor(bytes(64)).contact)
    member = found()
    assert member is not None
    with pytest.raises(TrialFailed, match=r"rank 1 could not find rank 0 .* without proof"):
        external_ranks._first_call(member)


@pytest.mark.parametrize(
    "wanted",
    [
        {"PYTHONPATH": "/tmp"},
        {"LD_PRELOAD": "/tmp/x.so"},
        {"PATH": "/tmp"},
        {"GLIBC_TUNABLES": "glibc.malloc.tcache_count=1"},
        {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1", "PYTHONSTARTUP": "/tmp/x.py"},
    ],
    ids=str,
)
def test_even_with_the_secret_rank_0_may_set_next_to_nothing(
    tmp_path: Path, wanted: dict[str, str]
) -> None:
    server, ours = listen("127.0.0.1"), board(tmp_path)
    meeting = Meeting(server, SECRET.encode(), 2)
    ours.publish(Contact("127.0.0.1", server.getsockname()[1], SECRET))
    with started(tmp_path, 1, 2, *external.BENCH) as second:
        assert meeting.missing(120) == []
        external_ranks.SocketLink(meeting.take(1).line, wanted, 60.0)
        done = external.finish(second)
    assert done.returncode == 2
    assert done.stderr.startswith("convdyno: rank 0 wants to set ")
    assert done.stderr.endswith(" here, which it may not\n")
    assert meeting.missing(0) == [1]
    meeting.close()
    ours.withdraw()


def test_the_secret_is_new_each_time_and_on_no_command_line(tmp_path: Path) -> None:
    seen = []
    for _ in range(2):
        with started(tmp_path, 0, 2, *external.BENCH) as first:
            (contact,) = wait_for(
                lambda: [
                    contact
                    for contact in board(tmp_path).contacts()
                    if (contact.address, contact.port) in listening(first)
                ]
            )
            assert contact.secret not in " ".join(psutil.Process(first.pid).cmdline())
            seen.append(contact)
    assert seen[0].secret != seen[1].secret


TOKEN = "0123456789abcdef0123456789abcdef"


def test_hosts_that_share_no_folder_meet_by_a_token(tmp_path: Path) -> None:
    processes = [
        external.start(
            tmp_path, rank, 2, *external.BENCH, "--json", CONVDYNO_TOKEN=TOKEN,
            HOME="/nowhere", XDG_CACHE_HOME="/nowhere",
        )
        for rank in range(2)
    ]  # fmt: skip
    first, second = map(external.finish, processes)
    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    assert TOKEN not in first.stdout + first.stderr


def test_he_has_taken_a_port_of_the_token_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """He cannot know which, but may have taken many: the next one is used."""
    for name, value in external.variables(tmp_path, 1, 2, CONVDYNO_TOKEN=TOKEN).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(rendezvous, "PATIENT_SECONDS", 0.5)
    member = found()
    assert member is not None
    first, second, *_ = wanted = ports(TOKEN, {})
    with listen("127.0.0.1", first):
        server = external_ranks._server(member, wanted)
        assert server.getsockname() == ("127.0.0.1", second)
        meeting = Meeting(server, TOKEN.encode(), 2)
        line, contact = external_ranks._first_call(member)
        assert (contact.port, meeting.missing(0)) == (second, [])
        line.close()
        meeting.close()


def test_a_short_token_and_no_folder_at_all_are_a_sentence_each(tmp_path: Path) -> None:
    for done in external.run(tmp_path, 2, *external.BENCH, CONVDYNO_TOKEN="secret"):
        assert done.returncode == 2
        assert "CONVDYNO_TOKEN has 6 characters and could be guessed" in done.stderr
        assert len(done.stderr.splitlines()) == 1
    file = tmp_path / "file"
    file.touch()
    process = external.start(tmp_path, 0, 2, *external.BENCH, CONVDYNO_RANKS_DIR=str(file))
    done = external.finish(process)
    assert done.returncode == 2
    assert "ranks cannot find each other" in done.stderr and "CONVDYNO_TOKEN" in done.stderr
    assert len(done.stderr.splitlines()) == 1

"""Ranks: all hear the same, strangers hear nothing, what rank 0 has reaches the others."""

import io
import json
import socket
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ranks_here

from convdyno.errors import TrialFailed, UsageError
from convdyno.rendezvous import listen, reserve
from convdyno.run.ranks import Ranks, pack, unpack
from convdyno.run.worker import Worker
from convdyno.trial.world import World

ARRAYS = {
    "floats": np.array([[1.5, -0.0], [np.nan, 3e-45]], np.float32),
    "one": np.array(7, np.int64),
    "bytes": np.arange(5, dtype=np.uint8),
    "none": np.zeros((0, 3), np.float64),
}


HELD: list[socket.socket] = []
"""Ports that no other program is given meanwhile."""


def worlds(size: int) -> list[World]:
    HELD.append(reserve())
    meeting = f"127.0.0.1:{HELD[-1].getsockname()[1]}"
    return [World(rank=rank, size=size, meeting=meeting, token="secret") for rank in range(size)]


@pytest.mark.parametrize("size", [1, 2, 5])
def test_all_hear_what_everybody_said_in_the_order_of_ranks(size: int) -> None:
    heard = ranks_here.together(
        size, lambda ranks: [ranks.gather(10 * ranks.world.rank + n) for n in range(3)]
    )
    said = [[10 * rank + n for rank in range(size)] for n in range(3)]
    assert heard == [said] * size


def test_rank_0_decides() -> None:
    assert (
        ranks_here.together(3, lambda ranks: ranks.agree({"stop": ranks.first}))
        == [{"stop": True}] * 3
    )


def test_somebody_without_the_token_is_not_listened_to() -> None:
    first, second = worlds(2)
    port = int(first.meeting.rpartition(":")[2])
    found: list[Any] = []
    listening = threading.Thread(
        target=lambda: found.append(Ranks(first, 120).gather("ours")), daemon=True
    )
    listening.start()
    for said in (b"1 guess\n", b"1 secret\n", b"\xff\n"):
        with _patiently(port) as stranger, suppress(ConnectionError):
            stranger.sendall(said * 100)
            assert stranger.recv(100) == b""
    guessing = second.model_copy(update={"token": "guess"})
    with pytest.raises(TrialFailed, match="does not know the secret"):
        Ranks(guessing, 0)
    assert Ranks(second, 120).gather("theirs") == ["ours", "theirs"]
    listening.join(120)
    assert found == [["ours", "theirs"]]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere ports cannot be held and used")
def test_a_worker_holds_the_ports_that_it_tells() -> None:
    said = io.StringIO()
    worker = Worker(said)
    worker.greet(None, 0, 1, "cpu")
    for port in json.loads(said.getvalue())["ports"]:
        with socket.socket() as stranger, pytest.raises(OSError, match="in use"):
            stranger.bind(("127.0.0.1", port))
        listen("127.0.0.1", port).close()


def test_a_rank_that_never_calls_is_named() -> None:
    with pytest.raises(TrialFailed, match="rank 1 did not call rank 0"):
        Ranks(worlds(2)[0], patience=0.2)


def test_a_rank_that_hangs_up_is_named() -> None:
    def act(ranks: Ranks) -> str:
        if not ranks.first:
            ranks.close()
            return ""
        with pytest.raises(TrialFailed, match="rank 1 hung up"):
            ranks.gather(None)
        return "named"

    assert ranks_here.together(2, act)[0] == "named"


def test_arrays_are_the_same_to_the_bit() -> None:
    def told(ranks: Ranks) -> object:
        return unpack(ranks.agree(pack(ARRAYS if ranks.first else {})))

    for heard in ranks_here.together(3, told):
        assert heard.keys() == ARRAYS.keys()
        for name, array in ARRAYS.items():
            assert (heard[name].dtype, heard[name].shape) == (array.dtype, array.shape)
            assert heard[name].tobytes() == array.tobytes()


def test_a_file_reaches_ranks_that_do_not_see_it(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("convdyno.run.ranks.CHUNK", 100)
    content = bytes(range(256)) * 3
    for rank, there in enumerate([content, None, b"an older one", content]):
        (tmp_path / str(rank)).mkdir()
        if there is not None:
            (tmp_path / str(rank) / "file").write_bytes(there)

    def read(ranks: Ranks) -> tuple[bytes, Path]:
        path = tmp_path / str(ranks.world.rank) / "file"
        with ranks.file_of_first(path) as found:
            return found.read_bytes(), found

    found = ranks_here.together(4, read)
    assert [text for text, _ in found] == [content] * 4
    assert found[0][1] == tmp_path / "0" / "file"
    assert not any(path.exists() for _, path in found[1:3])
    assert (tmp_path / "2" / "file").read_bytes() == b"an older one"


def test_a_file_that_all_see_is_read_in_place(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("here")

    def where(ranks: Ranks) -> Path:
        with ranks.file_of_first(path) as found:
            return found

    assert ranks_here.together(2, where) == [path] * 2


def test_what_all_have_found_is_said_once() -> None:
    def fail(ranks: Ranks) -> None:
        ranks.fail_together(UsageError("no"))

    first, second = ranks_here.together(2, fail)
    assert isinstance(first, UsageError)
    assert isinstance(second, TrialFailed) and "hung up" in str(second)


def _patiently(port: int) -> socket.socket:
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port))
        except ConnectionRefusedError:
            continue

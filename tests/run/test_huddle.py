"""Agreements between ranks: all hear the same, strangers hear nothing."""

import socket
import threading
from collections.abc import Callable
from typing import Any

import pytest

from convdyno.errors import TrialFailed
from convdyno.run.huddle import Huddle
from convdyno.run.share import free_ports
from convdyno.trial.world import World


def worlds(size: int) -> list[World]:
    huddle = f"127.0.0.1:{free_ports(1)[0]}"
    return [World(rank=rank, size=size, huddle=huddle, token="secret") for rank in range(size)]


def together(size: int, act: Callable[[Huddle, int], Any]) -> list[Any]:
    """What each of several ranks comes to."""
    found: dict[int, Any] = {}

    def run(world: World) -> None:
        huddle = Huddle(world, patience=20)
        found[world.rank] = act(huddle, world.rank)
        huddle.close()

    threads = [threading.Thread(target=run, args=(world,), daemon=True) for world in worlds(size)]
    for thread in reversed(threads):  # Rank 0 comes last: the others must wait for it.
        thread.start()
    for thread in threads:
        thread.join(30)
    return [found[rank] for rank in range(size)]


@pytest.mark.parametrize("size", [1, 2, 5])
def test_all_hear_what_everybody_said_in_the_order_of_ranks(size: int) -> None:
    heard = together(size, lambda huddle, rank: [huddle.gather(10 * rank + n) for n in range(3)])
    said = [[10 * rank + n for rank in range(size)] for n in range(3)]
    assert heard == [said] * size


def test_rank_0_decides() -> None:
    assert (
        together(3, lambda huddle, rank: huddle.agree({"stop": rank == 0})) == [{"stop": True}] * 3
    )


def test_somebody_without_the_token_is_not_listened_to() -> None:
    first, second = worlds(2)
    port = int(first.huddle.rpartition(":")[2])
    found: list[Any] = []
    listening = threading.Thread(
        target=lambda: found.append(Huddle(first, 20).gather("ours")), daemon=True
    )
    listening.start()
    for said in (b"1 guess\n", b"1 \n", b"\xff\n", b"9 secret\n"):
        with _patiently(port) as stranger:
            stranger.sendall(said)
            assert stranger.recv(100) == b""
    assert Huddle(second, 20).gather("theirs") == ["ours", "theirs"]
    listening.join(20)
    assert found == [["ours", "theirs"]]


def test_a_rank_that_never_calls_is_named() -> None:
    with pytest.raises(TrialFailed, match="rank 1 did not call rank 0"):
        Huddle(worlds(2)[0], patience=0.2)


def test_a_rank_that_hangs_up_is_named() -> None:
    def act(huddle: Huddle, rank: int) -> str:
        if rank:
            huddle.close()
            return ""
        with pytest.raises(TrialFailed, match="rank 1 hung up"):
            huddle.gather(None)
        return "named"

    assert together(2, act)[0] == "named"


def _patiently(port: int) -> socket.socket:
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port))
        except ConnectionRefusedError:
            continue

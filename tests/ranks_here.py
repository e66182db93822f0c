"""Ranks as threads of one process, for what needs no framework."""

import threading
from collections.abc import Callable
from typing import Any

from convdyno.rendezvous import reserve
from convdyno.run.ranks import Ranks
from convdyno.trial.world import World


def together(size: int, act: Callable[[Ranks], Any]) -> list[Any]:
    """What each of several ranks comes to: a value, or the error that it ended with."""
    held = reserve()
    meeting = f"127.0.0.1:{held.getsockname()[1]}"
    found: dict[int, Any] = {}

    def run(world: World) -> None:
        ranks = Ranks(world, patience=20)
        try:
            found[world.rank] = act(ranks)
        except Exception as problem:
            found[world.rank] = problem
        finally:
            ranks.close()

    worlds = [World(rank=r, size=size, meeting=meeting, token="ours") for r in range(size)]
    threads = [threading.Thread(target=run, args=(world,)) for world in worlds]
    for thread in reversed(threads):  # Rank 0 comes last: the others must wait for it.
        thread.start()
    for thread in threads:
        thread.join(60)
    held.close()
    return [found[rank] for rank in range(size)]

"""Where the trials of a command run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from convdyno.launch.crew import Launcher

SHARED = ("bench", "train", "eval")
"""Commands that several ranks run together."""
SIGNS = {"CONVDYNO_RANK", "RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"}


def lent(words: list[str]) -> bool:
    """If this process is one of several ranks and not the first: do what the first one says."""
    if not words or words[0] not in SHARED or not SIGNS & os.environ.keys():
        return False
    from convdyno.launch import adopt

    member = adopt.found()
    if member is None or member.rank == 0:
        return False
    adopt.lend(member)
    return True


@contextmanager
def launcher() -> Iterator[Launcher]:
    """The ranks that somebody has made, or this machine."""
    from convdyno.launch import adopt
    from convdyno.launch.local import Here

    member = adopt.found()
    here = adopt.Hands(member) if member else Here()
    try:
        yield here
    finally:
        here.close()

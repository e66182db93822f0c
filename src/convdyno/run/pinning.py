"""One rank's share of its machine: cores and a GPU."""

from __future__ import annotations

import os
import socket

from convdyno.errors import Refused
from convdyno.machine.facts import visible_gpus
from convdyno.machine.processor import usable_cores


def pin(numbers: list[int]) -> None:
    """Use only these of the cores that this process may use, counted from 0."""
    if not hasattr(os, "sched_setaffinity"):
        return
    here = usable_cores()
    if numbers[-1] >= len(here):
        raise Refused(
            f"{socket.gethostname()} has {len(here)} CPU cores, too few for {numbers[-1] + 1}"
        )
    os.sched_setaffinity(0, {here[n] for n in numbers})


def choose_gpu(local_rank: int, local_size: int) -> None:
    """Let this process see the one GPU that is its own, before a framework is imported."""
    present = visible_gpus()
    if len(present) < 2 or local_size == 1:
        return
    if len(present) < local_size:
        raise Refused(
            f"{socket.gethostname()} has {len(present)} GPUs, and {local_size} devices were asked "
            "for there"
        )
    os.environ["CUDA_VISIBLE_DEVICES"] = present[local_rank]

"""Who started this process as one of several ranks, and what every rank then knows.

mpiexec, srun, torchrun, or a script of the user's own: one table says what each calls it.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass

from convdyno.errors import UsageError

LOCAL = "127.0.0.1"


@dataclass(frozen=True)
class _Starter:
    """Who starts ranks, and what it calls what every rank must know."""

    name: str
    rank: str
    size: str
    job: tuple[str, ...]
    """What tells one job of a user's from another, as far as it is given."""
    needs: tuple[str, ...] = ()
    """Variables without which it was somebody else."""
    here: str = ""
    """How many ranks are on this host."""


STARTERS = (
    _Starter("CONVDYNO_RANK", "CONVDYNO_RANK", "CONVDYNO_SIZE", ("CONVDYNO_JOB",)),
    _Starter(
        "torchrun", "RANK", "WORLD_SIZE", ("TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT"),
        ("MASTER_ADDR", "LOCAL_RANK"), "LOCAL_WORLD_SIZE",
    ),
    _Starter(
        "mpiexec", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
        ("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"), here="OMPI_COMM_WORLD_LOCAL_SIZE",
    ),
    _Starter(
        "srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", ("SLURM_JOB_ID", "SLURM_STEP_ID"),
        ("SLURM_STEP_ID",),
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Member:
    """What one rank knows of itself before anybody has spoken."""

    rank: int
    size: int
    starter: str
    job: str
    """The same for all ranks, and for no other run at the same time; no secret."""
    addresses: tuple[str, ...]
    """Where rank 0 may be; this machine alone if all ranks are here."""

    @property
    def local(self) -> bool:
        """Whether nobody is on another machine."""
        return self.addresses == (LOCAL,)


def found(variables: Mapping[str, str] | None = None) -> Member | None:
    """Which of several ranks this process is; None if it was started alone."""
    given = os.environ if variables is None else variables
    for starter in STARTERS:
        if not {starter.rank, starter.size, *starter.needs} <= given.keys():
            continue
        rank, size = (_number(name, given[name]) for name in (starter.rank, starter.size))
        if size == 1:
            return None
        if rank >= size:
            raise UsageError(f"{starter.rank} is {rank}, and there are only {size} ranks")
        addresses = tuple(dict.fromkeys(_addresses(starter, given)))
        words = [starter.name, *(given.get(name, "") for name in starter.job)]
        if addresses == (LOCAL,):  # Another machine, which shares our folders, may have such a job.
            words.append(socket.gethostname())
        return Member(rank, size, starter.name, "/".join(words), addresses)
    return None


def _addresses(starter: _Starter, given: Mapping[str, str]) -> list[str]:
    """Where rank 0 may be, as far as it is told."""
    if address := given.get("CONVDYNO_ADDRESS"):
        return [_known(address)]
    if starter.here and given.get(starter.here) == given[starter.size]:
        return [LOCAL]
    match starter.name:
        case "torchrun":
            return [_known(given["MASTER_ADDR"])]
        case "srun":
            nodes = given.get("SLURM_STEP_NODELIST") or given.get("SLURM_NODELIST", "")
            one = given.get("SLURM_STEP_NUM_NODES", given.get("SLURM_NNODES", "1")) == "1"
            return [LOCAL] if one else [first_node(nodes)]
        case "mpiexec":  # Rank 0 is on one of its nodes, or where mpiexec itself is.
            home = re.findall(r"tcp://([0-9.]+)", given.get("OMPI_MCA_orte_hnp_uri", ""))
            return [*nodes_of(given.get("OMPI_MCA_orte_node_regex", "")), *home]
    return [LOCAL]


def _known(address: str) -> str:
    return LOCAL if address in ("localhost", LOCAL, "::1") else address


def nodes_of(regex: str) -> list[str]:
    """The nodes of a list as Open MPI writes it: `head,n[2:1-3]@0(4)` is head, n01, n02, n03."""
    found = []
    for prefix, width, ranges in re.findall(
        r"([A-Za-z0-9_.-]+)(?:\[(\d+):([\d,-]+)\])?(?:@[^,]*)?(?:,|$)", regex
    ):
        if not ranges:
            found.append(prefix)
        for span in filter(None, ranges.split(",")):
            first, _, last = span.partition("-")
            numbers = range(int(first), int(last or first) + 1)
            found += [f"{prefix}{number:0{width}d}" for number in numbers]
    return found


def first_node(nodes: str) -> str:
    """The first of a list as Slurm writes it: `n[01-03,7],m2` is n01, ..."""
    found = re.match(r"([^,\[]+)(?:\[([^\],-]+)[^\]]*\]([^,\[]*))?", nodes)
    if not found:
        raise UsageError(f"Slurm's list of nodes cannot be read: {nodes!r}")
    return "".join(part or "" for part in found.groups())


def _number(name: str, word: str) -> int:
    if not word.isdecimal():
        raise UsageError(f"{name} must be a number, not {word!r}")
    return int(word)

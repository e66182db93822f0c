"""Ranks that somebody else has started: mpiexec, srun, torchrun, or a script of the user's own.

Every rank runs the same command. Rank 0 is the one that speaks: it becomes the parent and waits for
the others to call. Each of them lends it a worker, over and over, and ends when rank 0 does.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import itertools
import json
import os
import re
import selectors
import signal
import socket
import sys
import time
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from convdyno.errors import Refused, TrialFailed, UsageError
from convdyno.launch.crew import PING_SECONDS, Crew, Place, Team
from convdyno.launch.death import Death
from convdyno.launch.link import WORKER, Link, PipeLink, TetheredLines
from convdyno.launch.local import environment
from convdyno.launch.tether import Tether
from convdyno.processor import usable_cores
from convdyno.results import facts
from convdyno.trial.spec import Trial

CALL_SECONDS = 60.0
"""How long ranks wait for each other at the beginning."""
RETRY_SECONDS = 0.2
CONNECT_SECONDS = 3.0
KEEPALIVE = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}
"""How soon a rank that waits for something to do notices that rank 0's machine is gone."""
PORTS = range(20000, 30000)
"""Among them each job has one of its own, by its name."""
LOCAL = "127.0.0.1"


@dataclass(frozen=True)
class _Starter:
    """Who starts ranks, and what it calls what every rank must know."""

    name: str
    rank: str
    size: str
    job: tuple[str, ...]
    """What tells one job from another on the same machine, as far as it is given."""
    address: str | None = None
    """Where rank 0 is."""
    needs: tuple[str, ...] = ()
    """Variables without which it was somebody else."""


STARTERS = (
    _Starter(
        "CONVDYNO_RANK", "CONVDYNO_RANK", "CONVDYNO_SIZE", ("CONVDYNO_JOB",), "CONVDYNO_ADDRESS"
    ),
    _Starter(
        "torchrun", "RANK", "WORLD_SIZE", ("TORCHELASTIC_RUN_ID", "MASTER_PORT"), "MASTER_ADDR",
        ("MASTER_ADDR", "LOCAL_RANK"),
    ),
    _Starter(
        "mpiexec", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
        ("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"), "CONVDYNO_ADDRESS",
    ),
    _Starter(
        "srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", ("SLURM_JOB_ID", "SLURM_STEP_ID"),
        "CONVDYNO_ADDRESS", ("SLURM_STEP_ID",),
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Member:
    """What one rank knows of itself before anybody has spoken."""

    rank: int
    size: int
    starter: str
    addresses: tuple[str, ...]
    """Where rank 0 may be."""
    port: int
    token: str

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
        job = "/".join([starter.name, *(given.get(name, "") for name in starter.job)])
        secret = f"{job}/{os.getuid() if hasattr(os, 'getuid') else 0}"
        return Member(
            rank,
            size,
            starter.name,
            tuple(dict.fromkeys(_addresses(starter, given))),
            PORTS[zlib.crc32(job.encode()) % len(PORTS)],
            given.get("CONVDYNO_TOKEN") or hashlib.sha256(secret.encode()).hexdigest(),
        )
    return None


def lend(member: Member) -> None:
    """As any rank but 0: lend workers to rank 0 until it has ended."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # Rank 0 gets them too, and decides.
    patience = CALL_SECONDS
    while (line := _call(member, patience)) is not None:
        patience = 0.0
        with line, line.makefile("rb") as incoming, line.makefile("wb") as outgoing:
            first = b""
            with contextlib.suppress(OSError):
                first = incoming.readline()
            if not first:
                return  # Rank 0 has closed: nothing more is wanted.
            order = json.loads(first)
            given = os.environ | order["environment"]
            with contextlib.suppress(OSError):
                Tether(WORKER, incoming, outgoing, order["limit"], environment=given).hold()
            with contextlib.suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)
    if patience:
        raise TrialFailed(
            "failed",
            f"rank 0 cannot be reached at port {member.port} of {' or '.join(member.addresses)}: "
            "if it is on another host, set CONVDYNO_ADDRESS to its name on all ranks",
        )


@dataclass
class _Caller:
    """A rank that waits for something to do."""

    line: socket.socket
    host: str
    """As rank 0 sees it."""
    name: str
    cores: tuple[int, ...]
    mine: str
    """Rank 0's own address, as this rank sees it."""


class Hands:
    """As rank 0: everybody else, and where they are."""

    def __init__(self, member: Member) -> None:
        self.member = member
        self._waiting: dict[int, _Caller] = {}
        try:
            self._server = socket.create_server((LOCAL if member.local else "", member.port))
        except OSError as wrong:
            raise UsageError(
                f"port {member.port} is taken on {socket.gethostname()} ({wrong.strerror}): "
                "another run of the same job may be there"
            ) from None
        self._gather()
        others = [self._waiting[rank] for rank in range(1, member.size)]
        here = socket.gethostname()
        # Ranks beside this one see it by an address that is no use on other machines.
        mine = next((other.mine for other in others if other.name != here), others[0].mine)
        for other in others:
            other.host = mine if other.name == here else other.host
        cores = tuple(usable_cores())
        self._ranks = [
            _Caller(self._server, mine, here, cores, ""), *others
        ]  # fmt: skip

    def check(self, trials: Sequence[Trial]) -> None:
        """Everybody has called."""

    def alone(self, trial: Trial) -> bool:
        """Ranks are not stopped."""
        return True

    def counts(self, wanted: Sequence[int] | None) -> list[int]:
        """As many as there are ranks."""
        size, starter = self.member.size, self.member.starter
        if wanted and list(wanted) != [size]:
            raise UsageError(f"{starter} has made {size} ranks, so --devices can only be {size}")
        return [size]

    def hosts(self, devices: int) -> int:
        """Over how many machines the ranks are spread."""
        return len({caller.name for caller in self._ranks})

    def machine(self) -> dict[str, Any]:
        """That of rank 0."""
        return facts.machine()

    def cores(self, most: int, device: str) -> int | None:
        """CPU cores that each rank can have to itself; None if there are fewer than ranks."""
        if facts.uses_gpus(device):
            return None
        shares = []
        for name in {caller.name for caller in self._ranks}:
            there = [set(caller.cores) for caller in self._ranks if caller.name == name]
            whole = set().union(*there)
            apart = sum(map(len, there)) == len(whole)
            shares.append(min(map(len, there)) if apart else len(whole) // len(there))
        return min(shares) or None

    def start(self, trial: Trial, rank_seconds: float) -> Team:
        """What runs a trial with all ranks."""
        if trial.processes == "host":
            raise Refused(f"{self.member.starter} has made a process for each device already")
        if len(self._waiting) < self.member.size - 1:
            self._gather()
        return Crew(self._connect(trial, rank_seconds), self._places(trial), trial, rank_seconds)

    def close(self) -> None:
        """Let the others go."""
        for caller in self._waiting.values():
            caller.line.close()
        self._server.close()

    def _connect(self, trial: Trial, rank_seconds: float) -> Any:
        limit = max(rank_seconds, 4 * PING_SECONDS)
        order = iter(range(self.member.size))

        def connect(place: Place) -> Link:
            rank = next(order)
            if rank == 0:
                return PipeLink(environment=environment(trial))
            return SocketLink(self._waiting.pop(rank).line, environment(trial), limit)

        return connect

    def _places(self, trial: Trial) -> list[Place]:
        names = [caller.name for caller in self._ranks]
        places = []
        for rank, caller in enumerate(self._ranks):
            beside = [other for other in self._ranks if other.name == caller.name]
            shared = any(
                set(other.cores) & set(caller.cores) for other in beside if other is not caller
            )
            places.append(
                Place(
                    host="" if self.member.local else caller.host,
                    local_rank=names[:rank].count(caller.name),
                    local_size=len(beside),
                    cores=trial.cores,
                    apart=not shared,
                    interface="lo" if self.member.local and sys.platform == "linux" else None,
                    name=caller.name,
                )
            )
        return places

    def _gather(self) -> None:
        """Wait until every other rank has called; strangers are not listened to."""
        deadline = time.monotonic() + CALL_SECONDS
        while missing := sorted(set(range(1, self.member.size)) - self._waiting.keys()):
            self._server.settimeout(max(0.01, deadline - time.monotonic()))
            try:
                line, (host, *_) = self._server.accept()
            except TimeoutError:
                raise UsageError(
                    f"{self.member.starter} has {self.member.size} ranks, and these have not "
                    f"called rank 0 within {CALL_SECONDS:.0f} s: {', '.join(map(str, missing))}"
                ) from None
            line.settimeout(CALL_SECONDS)
            try:
                said = json.loads(_line(line))
                known = hmac.compare_digest(str(said["token"]), self.member.token)
            except (OSError, ValueError, KeyError, TypeError):
                known = False
            if known and said["rank"] in missing:
                line.settimeout(None)
                mine = line.getsockname()[0]
                self._waiting[said["rank"]] = _Caller(
                    line, host, said["name"], tuple(said["cores"]), mine
                )
            else:
                line.close()


class SocketLink:
    """A worker that another rank lends, held there by a tether."""

    def __init__(self, line: socket.socket, environment: Mapping[str, str], limit: float) -> None:
        self._line = line
        self._lines = TetheredLines()
        line.setblocking(True)
        order = {"environment": dict(environment), "limit": limit}
        line.sendall(json.dumps(order).encode() + b"\n")

    def fileno(self) -> int:
        """The connection."""
        return self._line.fileno()

    def send(self, do: str, **more: Any) -> None:
        """One command."""
        with contextlib.suppress(OSError):
            self._line.sendall(json.dumps({"do": do, **more}).encode() + b"\n")

    def ping(self) -> None:
        """To the tether."""
        self.send("ping")

    def ended(self) -> bool:
        """The tether tells."""
        return False

    def receive(self) -> list[dict[str, Any]] | None:
        """What has come; None when the worker has ended or its connection is gone."""
        try:
            chunk = self._line.recv(1 << 16)
        except OSError:
            chunk = b""
        return self._lines.feed(chunk) if chunk else None

    def signal(self, number: signal.Signals) -> None:
        """Only an end reaches so far."""
        if number == signal.SIGKILL:
            self.send("end")

    def nudge(self) -> None:
        """Through the tether."""
        self.send("nudge")

    def death(self) -> Death:
        """As the tether told it."""
        return self._lines.death or ("failed", "died (its connection was lost)")

    def end(self, *, kindly: bool = False) -> None:
        """Hang up, which ends it; kindly waits for it to have ended by itself."""
        if self._line.fileno() < 0:
            return
        if kindly:
            with selectors.DefaultSelector() as selector:
                selector.register(self._line, selectors.EVENT_READ)
                deadline = time.monotonic() + RETRY_SECONDS * 25
                while (left := deadline - time.monotonic()) > 0 and selector.select(left):
                    if self.receive() is None:
                        break
        with contextlib.suppress(OSError):
            self._line.shutdown(socket.SHUT_RDWR)
        self._line.close()


def _call(member: Member, patience: float) -> socket.socket | None:
    """A line to rank 0, or None if it does not listen any more."""
    deadline = time.monotonic() + patience
    for address in itertools.cycle(member.addresses):
        try:
            line = socket.create_connection((address, member.port), timeout=CONNECT_SECONDS)
            break
        except OSError:
            last = address == member.addresses[-1]
            if last and time.monotonic() >= deadline:
                return None
            time.sleep(RETRY_SECONDS if last else 0.0)
    line.settimeout(None)
    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    line.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEPALIVE.items():
        if hasattr(socket, name):
            line.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    cores = usable_cores()
    about = {
        "rank": member.rank, "token": member.token, "name": socket.gethostname(), "cores": cores
    }  # fmt: skip
    line.sendall(json.dumps(about).encode() + b"\n")
    return line


def _line(connection: socket.socket) -> bytes:
    """One line, and not a byte more."""
    said = b""
    while not said.endswith(b"\n") and len(said) < 1 << 16:
        byte = connection.recv(1)
        if not byte:
            break
        said += byte
    return said


def _addresses(starter: _Starter, given: Mapping[str, str]) -> list[str]:
    """Where rank 0 may be; this machine if all ranks are here."""
    if starter.address and given.get(starter.address):
        address = given[starter.address]
        return [LOCAL if address in ("localhost", LOCAL, "::1") else address]
    match starter.name:
        case "srun":
            nodes = given.get("SLURM_STEP_NODELIST") or given.get("SLURM_NODELIST", "")
            one = given.get("SLURM_STEP_NUM_NODES", given.get("SLURM_NNODES", "1")) == "1"
            return [LOCAL] if one else [first_node(nodes)]
        case "mpiexec" if given.get("OMPI_COMM_WORLD_LOCAL_SIZE") != given[starter.size]:
            # Rank 0 is on one of its nodes, or where mpiexec itself is.
            home = re.findall(r"tcp://([0-9.]+)", given.get("OMPI_MCA_orte_hnp_uri", ""))
            return [*nodes_of(given.get("OMPI_MCA_orte_node_regex", "")), *home] or [LOCAL]
    return [LOCAL]


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

"""Ranks that somebody else has started: mpiexec, srun, torchrun, or a script of the user's own.

Every rank runs the same command. Rank 0 is the one that speaks: it becomes the parent and waits for
the others to call. Each of them lends it a worker, over and over, and ends when rank 0 does. Nobody
is told anything, and nothing is started, before both sides have proven that they belong together.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import secrets
import selectors
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from convdyno.errors import Refused, TrialFailed, UsageError
from convdyno.launch.contact import ADVICE, Board, Contact, given_secret, ports
from convdyno.launch.launcher import Launcher, Team
from convdyno.launch.local import HUGE_PAGES, environment
from convdyno.launch.remote_supervisor import Supervisor
from convdyno.launch.starters import LOCAL, Member
from convdyno.launch.starters import found as found
from convdyno.launch.transport import WORKER, ExitStatus, Link, PipeLink, SupervisedLines
from convdyno.launch.worker_group import PING_SECONDS, Place, WorkerGroup
from convdyno.machine import facts
from convdyno.machine.processor import core_count, usable_cores
from convdyno.rendezvous import Meeting, Unproven, call, listen
from convdyno.trial.spec import Trial

CALL_SECONDS = 60.0
"""How long ranks wait for each other at the beginning."""
AGAIN_SECONDS = 15.0
"""How long a rank that has lent a worker tries to reach rank 0 again."""
RETRY_SECONDS = 0.2
MAY_BE_SET = HUGE_PAGES
"""The only variables, with their values, that rank 0 may set for another rank's worker."""
MOST_ORDER_BYTES = 1 << 16


def lend(member: Member) -> None:
    """As any rank but 0: lend workers to rank 0 until it has ended."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # Rank 0 gets them too, and decides.
    line: socket.socket | None
    line, contact = _first_call(member)
    while line is not None:
        # What was not sent yet when rank 0 has closed is wanted by nobody.
        with (
            contextlib.suppress(OSError),
            line,
            line.makefile("rb") as incoming,
            line.makefile("wb") as outgoing,
        ):
            first = b""
            with contextlib.suppress(OSError):
                first = incoming.readline(MOST_ORDER_BYTES)
            if not first:
                return  # Rank 0 has closed: nothing more is wanted.
            given, limit = _order(first)
            with contextlib.suppress(OSError):
                Supervisor(WORKER, incoming, outgoing, limit, environment=os.environ | given).hold()
            line.shutdown(socket.SHUT_RDWR)
        line = _call_again(member, contact)


def _first_call(member: Member) -> tuple[socket.socket, Contact]:
    """A line to rank 0, as soon as it can be found; what is published is read anew each time."""
    deadline = time.monotonic() + CALL_SECONDS
    board = Board(member.job, os.environ, local=member.local)
    token = given_secret(os.environ)
    unproven = 0
    while True:
        for contact in _by_token(member, token) if token else board.contacts():
            try:
                return _call(member, contact, unproven), contact
            except Unproven:
                unproven += 1
            except OSError:
                pass
        if time.monotonic() >= deadline:
            break
        time.sleep(RETRY_SECONDS)
    where = " or ".join(member.addresses) if token else board.said()
    raise TrialFailed(
        "failed",
        f"rank {member.rank} could not find rank 0 within {CALL_SECONDS:.0f} s ({where}): "
        + (f"{_calls(unproven)} answered without proof; " if unproven else "")
        + ("set CONVDYNO_ADDRESS to its host on all ranks" if token else ADVICE),
    )


def _by_token(member: Member, token: str) -> Iterator[Contact]:
    for port in ports(token, os.environ):
        for address in member.addresses:
            yield Contact(address, port, token)


def _call_again(member: Member, contact: Contact) -> socket.socket | None:
    """A line to the rank 0 that is known, or None if it does not listen any more."""
    deadline = time.monotonic() + AGAIN_SECONDS
    while time.monotonic() < deadline:
        try:
            return _call(member, contact)
        except ConnectionRefusedError:
            return None
        except OSError:
            time.sleep(RETRY_SECONDS)
    return None


def _call(member: Member, contact: Contact, unproven: int = 0) -> socket.socket:
    about = {"name": socket.gethostname(), "cores": usable_cores(), "unproven": unproven}
    key = contact.secret.encode()
    return call(contact.address, contact.port, key, member.rank, member.size, about)


def _order(line: bytes) -> tuple[dict[str, str], float]:
    """What rank 0 wants set for a worker, which is little, and how long it may be silent."""
    try:
        order = json.loads(line)
        given, limit = dict(order["environment"]), float(order["limit"])
    except (ValueError, KeyError, TypeError):
        raise UsageError("rank 0 has another version of convdyno: install the same") from None
    if wrong := sorted(given.keys() - {n for n, v in given.items() if MAY_BE_SET.get(n) == v}):
        raise UsageError(f"rank 0 wants to set {', '.join(wrong)} here, which it may not")
    return given, limit


@dataclass(frozen=True)
class _Whereabouts:
    """One rank's host."""

    host: str
    """As the others reach it."""
    name: str
    cores: tuple[int, ...]


class ExternalRanks(Launcher):
    """As rank 0: everybody else, and where they are."""

    def __init__(self, member: Member, tell: Callable[[str], None] = lambda line: None) -> None:
        self.member, self._tell = member, tell
        token = given_secret(os.environ)
        secret = token or secrets.token_hex(32)
        server = _server(member, ports(secret, os.environ) if token else [0])
        self._meeting = Meeting(server, secret.encode(), member.size)
        board = Board(member.job, os.environ, local=member.local)
        try:
            if not token:
                address, port, *_ = server.getsockname()
                board.publish(Contact(address, port, secret))
            self._gather(ADVICE if not token else "all need the same CONVDYNO_TOKEN")
        except BaseException:
            self._meeting.close()
            raise
        finally:
            board.withdraw()
        others = [self._meeting.look(rank) for rank in range(1, member.size)]
        self._unproven = sum(int(other.facts["unproven"]) for other in others)
        here = socket.gethostname()
        # Ranks beside this one see it by an address that is no use on other machines.
        mine = next((o.mine for o in others if o.facts["name"] != here), others[0].mine)
        self._ranks = [_Whereabouts(mine, here, tuple(usable_cores()))]
        for other in others:
            name = other.facts["name"]
            host = mine if name == here else other.host
            self._ranks.append(_Whereabouts(host, name, tuple(other.facts["cores"])))

    def counts(self, wanted: Sequence[int] | None) -> list[int]:
        """As many as there are ranks."""
        size, starter = self.member.size, self.member.starter
        if wanted and list(wanted) != [size]:
            raise UsageError(f"{starter} has made {size} ranks, so --devices can only be {size}")
        return [size]

    def hosts(self, devices: int) -> int:
        """Over how many machines the ranks are spread."""
        return len({one.name for one in self._ranks})

    def machine(self) -> dict[str, Any]:
        """This machine, with the cores of all ranks on it: each may be bound to a few."""
        here = self._ranks[0].name
        cores = {core for one in self._ranks if one.name == here for core in one.cores}
        return facts.machine() | {"cores_usable": core_count(cores)}

    def cores(self, most: int, device: str) -> int | None:
        """CPU cores that each rank can have to itself; None if there are fewer than ranks."""
        if facts.uses_gpus(device):
            return None
        shares = []
        for name in {one.name for one in self._ranks}:
            there = [set(one.cores) for one in self._ranks if one.name == name]
            whole = set().union(*there)
            apart = sum(map(len, there)) == len(whole)
            shares.append(min(map(len, there)) if apart else len(whole) // len(there))
        return min(shares) or None

    def start(self, trial: Trial, rank_seconds: float) -> Team:
        """What runs a trial with all ranks."""
        if trial.processes == "host":
            raise Refused(f"{self.member.starter} has made a process for each device already")
        self._gather()
        limit = max(rank_seconds, 4 * PING_SECONDS)
        order = iter(range(self.member.size))

        def connect(place: Place) -> Link:
            rank = next(order)
            if rank == 0:
                return PipeLink(environment=environment(trial))
            return SocketLink(self._meeting.take(rank).line, environment(trial), limit)

        return WorkerGroup(connect, self._places(trial), trial, rank_seconds)

    def close(self) -> None:
        """Let the others go, and say if somebody else has called."""
        self._meeting.close()
        if strangers := self._meeting.strangers:
            self._tell(_turned_away(strangers))
        if self._unproven:
            self._tell(
                f"{_calls(self._unproven)} of other ranks met somebody who could not prove to be "
                "rank 0 of this run; nothing was told there"
            )

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

    def _gather(self, advice: str = "") -> None:
        """Wait until every other rank has called."""
        if missing := self._meeting.missing(CALL_SECONDS):
            strangers = self._meeting.strangers
            raise UsageError(
                f"{self.member.starter} has {self.member.size} ranks, and these have not "
                f"called rank 0 within {CALL_SECONDS:.0f} s: {', '.join(map(str, missing))}"
                + (f"; {_turned_away(strangers)}" if strangers else "")
                + (f"; {advice}" if advice else "")
            )


def _turned_away(count: int) -> str:
    return (
        f"{_calls(count)} to rank 0 could not prove to belong to this run and "
        f"{'was' if count == 1 else 'were'} turned away"
    )


def _calls(count: int) -> str:
    return "1 call" if count == 1 else f"{count} calls"


def _server(member: Member, wanted: Sequence[int]) -> socket.socket:
    """Where rank 0 listens: at the one address that the others use, and no other."""
    address = LOCAL if member.local else _own_address(member)
    for port in wanted:
        try:
            return listen(address, port)
        except OSError as wrong:
            problem = wrong.strerror
    raise UsageError(
        f"rank 0 cannot listen at {address} ({problem}; tried port "
        f"{', '.join(map(str, wanted))}): set CONVDYNO_TOKEN to another secret"
    )


def _own_address(member: Member) -> str:
    """This host's address on the way to where rank 0 is said to be: its own, or a neighbour's."""
    for name in (*member.addresses, socket.gethostname()):
        with contextlib.suppress(OSError):
            family, *_, place = socket.getaddrinfo(name, 9, type=socket.SOCK_DGRAM)[0]
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.connect(place)  # Nothing is sent.
                own = str(probe.getsockname()[0])
            if not ipaddress.ip_address(own.partition("%")[0]).is_loopback:
                return own
    raise UsageError(
        f"the address of {socket.gethostname()}, where rank 0 is, is not known: set "
        "CONVDYNO_ADDRESS to it on all ranks"
    )


class SocketLink(Link):
    """A worker that another rank lends, held there by a supervisor."""

    def __init__(self, line: socket.socket, environment: Mapping[str, str], limit: float) -> None:
        self._line = line
        self._lines = SupervisedLines()
        line.setblocking(True)
        order = {"environment": dict(environment), "limit": limit}
        with contextlib.suppress(OSError):  # Whether it has arrived shows in what is received.
            line.sendall(json.dumps(order).encode() + b"\n")

    def fileno(self) -> int:
        """That of the connection."""
        return self._line.fileno()

    def send(self, do: str, **more: Any) -> None:
        with contextlib.suppress(OSError):
            self._line.sendall(json.dumps({"do": do, **more}).encode() + b"\n")

    def receive(self) -> list[dict[str, Any]] | None:
        """What has come; None when the worker has ended or its connection is gone."""
        try:
            chunk = self._line.recv(1 << 16)
        except OSError:
            chunk = b""
        return self._lines.feed(chunk) if chunk else None

    def death(self) -> ExitStatus:
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

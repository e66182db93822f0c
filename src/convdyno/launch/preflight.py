"""Are all hosts ready? Asked of all at once, before minutes are wasted.

Each can be reached, has the same convdyno and makes the same networks of it, has the engines, the
data and enough devices, and knows itself by an address that the others reach. Whatever is wrong is
one sentence that begins with the host's name.
"""

from __future__ import annotations

import ipaddress
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

from convdyno.errors import HostsNotReady
from convdyno.launch.remote_host import FarHost
from convdyno.launch.ssh_client import Conversation, HostFailed
from convdyno.trial.spec import Trial

SURVEY = "convdyno.run.host_facts"
SURVEY_SECONDS = 120.0
SKEW_SECONDS = 1.0
"""Clocks that differ by more are told."""
Facts = dict[str, Any]


def connect(hosts: Sequence[FarHost]) -> None:
    """Reach all hosts and learn what they have."""
    check = Check(hosts)
    check.each(FarHost.connect)
    check.done()


def preflight(
    hosts: Sequence[FarHost], trials: Sequence[Trial], tell: Callable[[str], None]
) -> None:
    """Make all hosts ready for these trials, and tell what should be known though it is no fault.

    Afterwards every host knows its Python, its address and interface, and what machine it is.
    """
    check = Check(hosts)
    try:
        here = check.ask([sys.executable, "-m", SURVEY], trials, "localhost", [])
        check.each(lambda host: host.settle(trials, tell))
        there = {
            host.name: check.ask(host.command(SURVEY), trials, host.name, host.folders)
            for host in check.well
        }
        check.each(lambda host: _hear(host, there[host.name]))
        try:
            expected = here.read(SURVEY_SECONDS)
        except HostFailed as wrong:
            raise HostsNotReady([f"this machine: {wrong}"]) from None
        for host in check.well:
            check.faults[host.name] += _faults(host, hosts, trials, expected)
        check.each(lambda host: _reach(host, check.well, there[host.name]))
    finally:
        for conversation in check.asked:
            conversation.close()
    check.done()
    for line in _notes(hosts):
        tell(line)


class Check:
    """What is wrong with each host so far."""

    def __init__(self, hosts: Sequence[FarHost]) -> None:
        self.hosts = hosts
        self.faults: dict[str, list[str]] = {host.name: [] for host in hosts}
        self.asked: list[Conversation] = []

    @property
    def well(self) -> list[FarHost]:
        """The hosts with nothing wrong."""
        return [host for host in self.hosts if not self.faults[host.name]]

    def each(self, do: Callable[[FarHost], object]) -> None:
        """Do something with all of them at once; one that fails has a fault."""
        well = self.well
        with ThreadPoolExecutor(max(1, len(well))) as pool:
            running = {host.name: pool.submit(do, host) for host in well}
            try:
                wait(running.values())
            except BaseException:  # Somebody is tired of waiting: nobody shall hang on.
                for host in self.hosts:
                    host.abandon()
                for conversation in self.asked:
                    conversation.abandon()
                raise
        for name, future in running.items():
            try:
                future.result()
            except HostFailed as wrong:
                self.faults[name].append(str(wrong))

    def ask(
        self, command: Sequence[str], trials: Sequence[Trial], name: str, folders: Sequence[str]
    ) -> Conversation:
        """Ask a host what is there."""
        conversation = Conversation(command)
        self.asked.append(conversation)
        plain = [trial.model_dump(mode="json") for trial in trials]
        conversation.write(trials=plain, name=name, folders=folders)
        return conversation

    def done(self) -> None:
        """Raise if anything was wrong."""
        sentences = [f"{name}: {fault}" for name, faults in self.faults.items() for fault in faults]
        if sentences:
            raise HostsNotReady(sentences)


def _hear(host: FarHost, conversation: Conversation) -> None:
    said = conversation.read(SURVEY_SECONDS)
    host.facts = {**host.facts, **said, "skew_seconds": said["time"] - time.time()}


def _reach(host: FarHost, others: Sequence[FarHost], conversation: Conversation) -> None:
    there = {other.name: other.facts for other in others if other is not host}
    places = {name: (facts["address"], facts["port"]) for name, facts in there.items()}
    conversation.write(others=places)
    wrong = conversation.read(SURVEY_SECONDS)["others"]
    silent = [f"{name} at {places[name][0]} ({why})" for name, why in wrong.items() if why]
    if silent:
        raise HostFailed(f"it cannot reach {', '.join(silent)}")


def _faults(
    host: FarHost, hosts: Sequence[FarHost], trials: Sequence[Trial], expected: Facts
) -> Iterator[str]:
    facts, first = host.facts, hosts[0]
    for trial, made, ours in zip(trials, facts["networks"], expected["networks"], strict=True):
        if "wrong" in made:
            yield made["wrong"]
        elif made != ours:
            yield (
                f"it makes another network of {trial.network!r} than this machine "
                f"({made['digest'][:12]}, here {str(ours.get('digest'))[:12]})"
            )
    for engine, version in facts["engines"].items():
        if version is None:
            yield f"the engine {engine!r} is not installed for {host.python}"
        elif version != (other := first.facts.get("engines", {}).get(engine, version)):
            yield f"it has {engine} {version}, and {first.name} has {other}"
    yield from (f"it has no {data}" for data, there in facts["data"].items() if not there)
    place = list(hosts).index(host)
    needed = [trial for trial in trials if place < trial.hosts]
    yield from dict.fromkeys(fault for trial in needed if (fault := _too_few(facts, trial)))
    if len(hosts) > 1:
        yield from _unknown(host)


def _too_few(facts: Facts, trial: Trial) -> str | None:
    """Whether a trial wants more devices of a host than it has."""
    here = trial.devices // trial.hosts
    if facts["gpus"] and trial.device != "cpu":
        if here > facts["gpus"]:
            return f"it has {_many(facts['gpus'], 'GPU')}, and {here} devices were asked for there"
        return None
    wanted = here * (trial.cores or 1)
    if wanted > facts["cores"]:
        has = _many(facts["cores"], "CPU core")
        return f"it has {has}, and {here} devices that need {wanted} were asked for there"
    return None


def _unknown(host: FarHost) -> Iterator[str]:
    """Why others cannot know the host by the address that it knows itself by."""
    address = host.facts["address"]
    stands = f"its name {host.name!r} stands for {address} there"
    if address is None:
        yield f"it does not know the name {host.name!r} that the nodes file gives it"
    elif ipaddress.ip_address(address).version == 6:
        yield f"{stands}, and ranks meet over IPv4: give the hosts IPv4 addresses"
    elif ipaddress.ip_address(address).is_loopback:
        yield (
            f"{stands}, where the other hosts cannot reach it: "
            "correct its /etc/hosts, or put its address into the nodes file"
        )
    elif host.facts["interface"] is None:
        yield f"{stands}, which no interface of it has"


def _notes(hosts: Sequence[FarHost]) -> Iterator[str]:
    places = [f"{h.name} ({h.facts['interface']}, {h.facts['address']})" for h in hosts]
    yield f"hosts: {', '.join(places)}"
    for host in hosts:
        if abs(skew := host.facts["skew_seconds"]) > SKEW_SECONDS:
            side = "ahead of" if skew > 0 else "behind"
            yield f"{host.name}: its clock is {abs(skew):.1f} s {side} this machine's"


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"

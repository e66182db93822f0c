"""Workers on far hosts over ssh, each held there by a supervisor.

nodes = read_nodes(Path("nodes.txt"), per_node=2)
with closing(SshLauncher(nodes, Remote(), logs=out / "logs")) as there:
    there.check(trials)                # every host is ready, or a sentence for each that is not
    team = there.start(trial, rank_seconds=20)
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from convdyno.errors import Refused
from convdyno.launch.launcher import Launcher, Team
from convdyno.launch.local import environment, places
from convdyno.launch.nodes import Nodes
from convdyno.launch.preflight import connect, preflight
from convdyno.launch.remote_host import FarHost, Remote
from convdyno.launch.ssh_client import LOST, Ssh
from convdyno.launch.transport import GRACE_SECONDS, ExitStatus, Link, PipeLink, SupervisedLines
from convdyno.launch.worker_group import PING_SECONDS, Place, WorkerGroup
from convdyno.machine.facts import SPEED_VARIABLES
from convdyno.trial.spec import Trial

NOT_SENT = ("CUDA_", "LD_PRELOAD")
"""Variables that change speed and belong to one machine."""


class SshLauncher(Launcher):
    """The hosts of a nodes file.

    `most` is the most devices to count up to when nobody says which numbers; every rank's own words
    go to `logs`/RUN/rank-N-HOST.log; `tell` gets a line for whatever the user waits for.
    """

    def __init__(
        self,
        nodes: Nodes,
        remote: Remote,
        *,
        logs: Path,
        most: int | None = None,
        tell: Callable[[str], None] = lambda line: None,
    ) -> None:
        self._nodes, self._most, self._logs, self._tell = nodes, most, logs, tell
        self._ssh = Ssh(remote.ssh_config)
        self._hosts = [FarHost(node, self._ssh, remote) for node in nodes.hosts]
        self._checked: set[str] = set()

    def counts(self, wanted: Sequence[int] | None) -> list[int]:
        """The numbers that were asked for, or 1, 2, 4 and so on up to all devices."""
        if not wanted:
            return self._nodes.counts(self._most)
        for devices in wanted:
            self._nodes.spread(devices)
        return list(wanted)

    def hosts(self, devices: int) -> int:
        """As few as have so many devices."""
        return len(self._nodes.spread(devices))

    def cores(self, most: int, device: str) -> int | None:
        """An equal share of the smallest host's; None if GPUs of the hosts are used."""
        used = self._hosts[: self.hosts(most)]
        connect(used)
        if device != "cpu" and all(host.facts["gpus"] for host in used):
            return None
        least = min(used, key=lambda host: int(host.facts["cores"]))
        together = min(most, self._nodes.per_node)
        if together > least.facts["cores"]:
            raise Refused(
                f"{together} devices were asked for on each host (--per-node), and {least.name} "
                f"has {least.facts['cores']} CPU cores"
            )
        return int(least.facts["cores"]) // together

    def check(self, trials: Sequence[Trial]) -> None:
        """Make every host ready that these trials use; `HostsNotReady` has a sentence for each."""
        used = self._hosts[: max((trial.hosts for trial in trials), default=1)]
        preflight(used, trials, self._tell)
        for host in used:
            host.close()  # Its scout has nothing more to do.
        self._checked |= {trial.digest for trial in trials}

    def machine(self) -> dict[str, Any]:
        """What the first host is."""
        return dict(self._hosts[0].facts["machine"])

    def start(self, trial: Trial, rank_seconds: float) -> Team:
        """One worker for each device; hosts are made ready first if they were not."""
        if trial.digest not in self._checked:
            self.check([trial])
        hosts = self._hosts[: trial.hosts]
        for host in hosts:
            host.lost = False
        there = {place: host for host in hosts for place in _places(host, trial)}
        folder = _new_folder(self._logs, trial)
        ranks = {place: rank for rank, place in enumerate(there)}
        limit = max(rank_seconds, 4 * PING_SECONDS)
        variables = _sent() | environment(trial)

        def join(place: Place) -> Link:
            log = folder / f"rank-{ranks[place]}-{place.called}.log"
            return FarLink(there[place], variables, log, limit)

        return WorkerGroup(join, list(there), trial, rank_seconds)

    def close(self) -> None:
        """Hang up everywhere; a second time does nothing."""
        for host in self._hosts:
            host.close()
        self._ssh.close()


class FarLink(PipeLink):
    """A worker on a far host: ssh, a supervisor there, and the worker."""

    ping, ended, nudge = Link.ping, Link.ended, Link.nudge

    def __init__(
        self, host: FarHost, variables: Mapping[str, str], log: Path, limit: float
    ) -> None:
        folders = [word for folder in host.folders for word in ("--in", folder)]
        held = ["--limit", f"{limit:g}", *folders]
        worker = [host.python, "-m", "convdyno.run.worker"]
        command = host.command("convdyno.launch.remote_supervisor", [*held, *worker], variables)
        super().__init__(command, log=log)
        self._host = host
        self._lines = self._far = SupervisedLines()
        self._asked: float | None = None
        """When it was asked to end."""

    def signal(self, number: signal.Signals) -> None:
        """Only an end reaches so far, and once is enough."""
        if number == signal.SIGKILL and self._asked is None:
            self._asked = time.monotonic()
            self.send("end")

    def death(self) -> ExitStatus:
        """As the supervisor told it; else it is ssh that ended."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(GRACE_SECONDS)
        end_of_ssh = "failed", f"died ({_end_of_ssh(self.process.returncode)})"
        status, how = self._far.death or end_of_ssh
        return status, self._with_last_words(how) if status == "failed" else how

    def end(self, *, kindly: bool = False) -> None:
        """End it there, and the line to it; a supervisor that is silent is ended from here."""
        if self._stderr.closed:
            return
        if kindly:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(GRACE_SECONDS)
        self.signal(signal.SIGKILL)
        asked = self._asked or time.monotonic()
        try:
            self.process.wait(max(0.0, asked + GRACE_SECONDS - time.monotonic()))
        except subprocess.TimeoutExpired:
            self._end_tether()
        PipeLink.signal(self, signal.SIGKILL)
        super().end()

    def _end_tether(self) -> None:
        """Its worker ends with it; nothing is tried twice on a host that does not answer."""
        if self._far.process is None or self._host.lost:
            return
        command = self._host.plain("kill", "-9", str(self._far.process))
        try:
            subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, timeout=GRACE_SECONDS
            )
        except subprocess.TimeoutExpired:
            self._host.lost = True


def _places(host: FarHost, trial: Trial) -> list[Place]:
    if trial.hosts == 1:
        return places(trial, "127.0.0.1", "lo", host.name)
    return places(trial, host.facts["address"], host.facts["interface"], host.name)


def _new_folder(logs: Path, trial: Trial) -> Path:
    """For the words of one group."""
    name = f"{time.strftime('%Y%m%d-%H%M%S')}-{trial.digest[:8]}"
    for ending in ("", *(f"-{n}" for n in range(2, 1000))):
        with contextlib.suppress(FileExistsError):
            (logs / (name + ending)).mkdir(parents=True)
            return logs / (name + ending)
    raise AssertionError("a thousand crews in one second")


def _sent() -> dict[str, str]:
    """What changes the speed here is to change it there."""
    return {
        name: value
        for name, value in os.environ.items()
        if name.startswith(SPEED_VARIABLES) and not name.startswith(NOT_SENT)
    }


def _end_of_ssh(code: int | None) -> str:
    if code == LOST:
        return "its ssh connection was lost"
    if code is not None and code < 0:
        return f"its ssh client was ended by {signal.Signals(-code).name}"
    return f"ssh ended with exit code {code}"

"""A host of the lab: a process with a network, a name and a process table of its own."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


def found(program: str) -> str | None:
    """Where a program is; daemons are in sbin, which not everybody's PATH has."""
    return shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


def sh(*command: str, check: bool = True, **more: Any) -> str:
    """Run a command and give what it printed; a failure tells what it said."""
    full = [found(command[0]) or command[0], *command[1:]]
    options = {"capture_output": True, "text": True, "stdin": subprocess.DEVNULL, **more}
    done = subprocess.run(full, **options)
    if check and done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def wait_for(ready: Callable[[], Any], what: str, log: str = "", seconds: float = 120) -> None:
    """Look until something is so; what was said meanwhile tells why it is not."""
    end = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > end:
            said = Path(log).read_text()[-500:] if log and Path(log).exists() else ""
            raise RuntimeError(f"waited {seconds:.0f} s for {what}. {said}")
        time.sleep(0.02)


@dataclass(frozen=True)
class Pid:
    """A process that is not mistaken for another one that got its number later."""

    number: int
    started: str

    @classmethod
    def of(cls, number: int) -> Pid:
        return cls(number, _started(number))

    @property
    def alive(self) -> bool:
        return bool(self.started) and _started(self.number) == self.started

    def kill(self, patience: float = 10.0) -> None:
        """End it, and wait until it has ended."""
        if self.alive:
            os.kill(self.number, signal.SIGKILL)
        end = time.monotonic() + patience
        while self.alive and time.monotonic() < end:
            time.sleep(0.01)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.number, os.WNOHANG)

    def write(self, path: Path) -> None:
        path.write_text(json.dumps([self.number, self.started]))

    @classmethod
    def read(cls, path: Path) -> Pid:
        return cls(*json.loads(path.read_text()))


def _started(number: int) -> str:
    """When a process started, in ticks; nothing if there is none, or only its remains."""
    try:
        state, *rest = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if state in "ZX" else rest[18]


@dataclass
class Host:
    """One host: run something there, shape its link, cut it."""

    name: str
    address: str
    port: str
    """The head's end of its link."""
    pid: Pid
    disk: Path
    """What the host sees as /srv, its home."""

    @property
    def alias(self) -> str:
        """What ssh calls it."""
        return f"to-{self.name}"

    def enter(self, *command: str) -> list[str]:
        """The command that runs a command there, as if from its console."""
        spaces = ["--net", "--uts", "--mount", "--pid"]
        return [found("nsenter") or "nsenter", "-t", str(self.pid.number), *spaces, *command]

    def run(self, *command: str, **more: Any) -> subprocess.CompletedProcess[str]:
        """Run a command there to its end."""
        options = {"capture_output": True, "text": True, "timeout": 120, **more}
        return subprocess.run(self.enter(*command), **options)

    def start(self, *command: str, **more: Any) -> subprocess.Popen[str]:
        """Start a command there."""
        return subprocess.Popen(self.enter(*command), text=True, **more)

    def processes(self, about: str = "") -> dict[int, str]:
        """The command lines of its processes that mention something, by their number there."""
        listed = sh(*self.enter("ps", "-wweo", "pid=,stat=,args="))
        rows = (line.split(None, 2) for line in listed.splitlines())
        return {
            int(pid): command
            for pid, state, command in rows
            if about in command and not state.startswith("Z") and "ps -wweo" not in command
        }

    def kill(self, pid: int, number: int = signal.SIGKILL) -> None:
        """Send a signal to a process of the host."""
        self.run("kill", f"-{int(number)}", str(pid), check=True)

    def pin(self, cores: str) -> None:
        """Let the host have only these of the machine's cores from now on, such as 0 or 0-1."""
        for pid in self.processes():
            self.run("taskset", "-acp", cores, str(pid))

    def shape(self, rate: str) -> None:
        """Let so much through its link either way, such as 100mbit."""
        kind = ["root", "tbf", "rate", rate, "burst", "256kb", "latency", "100ms"]
        sh("tc", "qdisc", "replace", "dev", self.port, *kind)
        sh(*self.enter("tc", "qdisc", "replace", "dev", "eth0", *kind))

    def unshape(self) -> None:
        """Let everything through again."""
        sh("tc", "qdisc", "del", "dev", self.port, "root", check=False)
        sh(*self.enter("tc", "qdisc", "del", "dev", "eth0", "root"), check=False)

    def cut(self) -> None:
        """Take its link down."""
        sh(*self.enter("ip", "link", "set", "eth0", "down"))

    def mend(self) -> None:
        """Bring its link up again."""
        sh(*self.enter("ip", "link", "set", "eth0", "up"))

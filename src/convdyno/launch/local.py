"""Workers on this machine: one process, or one for each device."""

from __future__ import annotations

import os
import selectors
import signal
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from convdyno.errors import Refused, TrialFailed
from convdyno.launch.launcher import Launcher, OutOfTime, Team
from convdyno.launch.transport import DOING, WORKER, PipeLink, died_while
from convdyno.launch.worker_group import Place, WorkerGroup
from convdyno.machine import facts
from convdyno.machine.processor import usable_cores
from convdyno.trial.spec import Trial

LOOPBACK = "lo" if sys.platform == "linux" else "lo0"
HUGE_PAGES = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
"""glibc asks for huge pages then, where Linux leaves that to each program; read at its start."""


COMPILED = {"TORCHINDUCTOR_CACHE_DIR": "torch", "JAX_COMPILATION_CACHE_DIR": "jax"}
"""Where compilers keep what they have made, for the next process of the same trial."""
KEEP_ALL = {
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
}


def environment(trial: Trial, compiled: Path | None = None) -> dict[str, str]:
    """What a trial's processes need to be told before they start.

    `compiled` is a folder for what compilers make: empty at first, so that the first process
    compiles, and others take that over. What the user has set stays.
    """
    told = dict(HUGE_PAGES) if trial.kernels == "tuned" else {}
    if compiled is not None and not COMPILED.keys() & os.environ.keys():
        told |= KEEP_ALL | {name: str(compiled / folder) for name, folder in COMPILED.items()}
    return told


class LocalWorker(Team):
    """A running worker; every failure of it is a `TrialFailed` with the status of the record."""

    def __init__(
        self, environment: Mapping[str, str] | None = None, command: Sequence[str] = WORKER
    ) -> None:
        self._link = PipeLink(command, environment)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._link, selectors.EVENT_READ)
        self._unread: deque[dict[str, Any]] = deque()

    def ask(
        self, do: str, *, silence: float, until: float | None = None, **more: Any
    ) -> dict[str, Any]:
        """Send one command and sleep until its answer; `events` explains the times."""
        self.begin(do, **more)
        return self.finish(do, silence=silence, until=until)

    def begin(self, do: str, **more: Any) -> None:
        """Wake the process and send one command."""
        self._link.signal(signal.SIGCONT)
        self._link.send(do, **more)

    def finish(self, do: str, *, silence: float, until: float | None = None) -> dict[str, Any]:
        """The answer to what was begun."""
        while (answer := self._event(do, silence, until))["event"] == "progress":
            pass
        return answer

    def events(
        self, do: str, *, silence: float, until: float | None = None, **more: Any
    ) -> Iterator[dict[str, Any]]:
        """Send one command and give every line of its answer, for as long as somebody takes them.

        `silence` is how many seconds may pass without a line before the worker counts as hung;
        `until` is a `time.monotonic` moment after which the answer is no longer wanted.
        """
        self.begin(do, **more)
        while True:
            yield self._event(do, silence, until)

    def nudge(self) -> None:
        """Ask the process to finish what it is doing; training saves a checkpoint then."""
        self._link.nudge()

    def pause(self) -> None:
        """Stop the process where it is, so that its spinning threads cost the others nothing."""
        self._link.signal(signal.SIGSTOP)

    def end(self, *, kindly: bool = False) -> None:
        """End the whole process group and free what belongs to it; a second time does nothing."""
        self._link.end(kindly=kindly)
        self._selector.close()

    def _event(self, doing: str, silence: float, until: float | None) -> dict[str, Any]:
        while not self._unread:
            patience = silence if until is None else min(silence, until - time.monotonic())
            if not self._selector.select(max(0.0, patience)):
                if until is not None and time.monotonic() >= until:
                    raise OutOfTime(doing)
                raise TrialFailed(
                    "timeout",
                    f"no sign of life for {silence:.0f} s ({DOING[doing]}); the worker was ended",
                )
            received = self._link.receive()
            if received is None:
                status, how = self._link.death()
                said = how if status == "oom" else f"the worker {died_while(how, doing)}"
                raise TrialFailed(status, said)
            self._unread.extend(received)
        answer = self._unread.popleft()
        if answer["event"] == "failed":
            raise TrialFailed(answer["status"], answer["reason"])
        return answer


class Here(Launcher):
    """This machine: a plain process, or one for each device with its share of the cores.

    `command` starts a worker; another environment's Python has another one.
    """

    def __init__(self, command: Sequence[str] = WORKER) -> None:
        self._command = command
        self._compiled: tempfile.TemporaryDirectory[str] | None = None

    def alone(self, trial: Trial) -> bool:
        """Several processes are not stopped."""
        return trial.has_ranks

    def counts(self, wanted: Sequence[int] | None) -> list[int]:
        """What was asked for."""
        return list(wanted or (1,))

    def hosts(self, devices: int) -> int:
        """This machine alone."""
        return 1

    def cores(self, most: int, device: str) -> int | None:
        """An equal share for each device, in one-device cells too: devices are added to that."""
        if facts.uses_gpus(device) and most > (have := len(facts.visible_gpus())):
            many = "1 GPU" if have == 1 else f"{have} GPUs"
            raise Refused(f"{most} devices were asked for, and this machine has {many}")
        if most == 1 or facts.uses_gpus(device):
            return None
        here = len(usable_cores())
        if most > here:
            raise Refused(f"{most} devices were asked for, and this machine has {here} CPU cores")
        return here // most

    def start(self, trial: Trial, rank_seconds: float) -> Team:
        """A worker or a group of workers."""
        self._compiled = self._compiled or tempfile.TemporaryDirectory(prefix="convdyno-")
        told = environment(trial, Path(self._compiled.name, trial.digest))
        if not trial.has_ranks:
            return LocalWorker(told, self._command)
        connect = partial(PipeLink, self._command, told)
        return WorkerGroup(lambda place: connect(), places(trial), trial, rank_seconds)

    def close(self) -> None:
        """Forget what compilers have made."""
        if self._compiled is not None:
            self._compiled.cleanup()
            self._compiled = None


def places(
    trial: Trial, host: str = "", interface: str | None = LOOPBACK, name: str = ""
) -> list[Place]:
    """A place for each process of a trial on one machine, with cores of its own if it wants any."""
    count, cores = trial.processes_per_host, trial.cores_per_process
    return [Place(host, n, count, cores, interface, name) for n in range(count)]

"""A worker on this machine: its own process, spoken to in JSON lines, ended whatever happens."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from convdyno.errors import TrialFailed
from convdyno.trial.spec import Trial

GRACE_SECONDS = 5.0
"""How long a worker may take to end after its last answer."""


HUGE_PAGES = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
"""glibc asks for huge pages then, where Linux leaves that to each program; read at its start."""


def environment(trial: Trial) -> dict[str, str]:
    """What a trial's process needs to be told before it starts."""
    return HUGE_PAGES if trial.kernels == "tuned" else {}


class LocalWorker:
    """A running worker; every failure of it is a `TrialFailed` with the status of the record."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115, closed by `end`
        self._oom_kills = _oom_kills()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "convdyno.run.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            start_new_session=True,
            env=os.environ | (environment or {}),
        )
        assert self._process.stdout is not None
        self._out = self._process.stdout.fileno()
        os.set_blocking(self._out, False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._out, selectors.EVENT_READ)
        self._unread = b""

    def ask(
        self, do: str, *, silence: float, until: float | None = None, **more: Any
    ) -> dict[str, Any]:
        """Send one command and sleep until its answer; `events` explains the times."""
        for answer in self.events(do, silence=silence, until=until, **more):
            if answer["event"] != "progress":
                return answer
        raise AssertionError("events end with a failure or not at all")

    def events(
        self, do: str, *, silence: float, until: float | None = None, **more: Any
    ) -> Iterator[dict[str, Any]]:
        """Send one command and give every line of its answer, for as long as somebody takes them.

        `silence` is how many seconds may pass without a line before the worker counts as hung;
        `until` is a `time.monotonic` moment after which the answer is no longer wanted.
        """
        self._signal(signal.SIGCONT)
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps({"do": do, **more}).encode() + b"\n")
            self._process.stdin.flush()
        while True:
            answer = json.loads(self._line(do, silence, until))
            if answer["event"] == "failed":
                raise TrialFailed(answer["status"], answer["reason"])
            yield dict(answer)

    def nudge(self) -> None:
        """Ask the process to finish what it is doing; training saves a checkpoint then."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)

    def pause(self) -> None:
        """Stop the process where it is, so that its spinning threads cost the others nothing."""
        self._signal(signal.SIGSTOP)

    def end(self, *, kindly: bool = False) -> None:
        """End the whole process group and free what belongs to it; a second time does nothing."""
        if self._stderr.closed:
            return
        if kindly:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(GRACE_SECONDS)
        self._signal(signal.SIGKILL)
        self._process.wait()
        self._selector.close()
        for file in (self._process.stdin, self._process.stdout, self._stderr):
            with contextlib.suppress(OSError):
                file.close()  # type: ignore[union-attr]

    def _line(self, doing: str, silence: float, until: float | None) -> bytes:
        while b"\n" not in self._unread:
            patience = silence if until is None else min(silence, until - time.monotonic())
            if not self._selector.select(max(0.0, patience)):
                if until is not None and time.monotonic() >= until:
                    raise OutOfTime(doing)
                raise TrialFailed(
                    "timeout",
                    f"no sign of life for {silence:.0f} s ({_DOING[doing]}); the worker was ended",
                )
            chunk = os.read(self._out, 1 << 16)
            if not chunk:
                raise self._post_mortem(doing)
            self._unread += chunk
        line, _, self._unread = self._unread.partition(b"\n")
        return line

    def _post_mortem(self, doing: str) -> TrialFailed:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(GRACE_SECONDS)
        code = self._process.returncode
        if code == -signal.SIGKILL and _oom_kills() > self._oom_kills:
            return TrialFailed(
                "oom", "the system ran out of memory and ended it: try a smaller --batch"
            )
        how = f"exit code {code}" if code is None or code >= 0 else signal.Signals(-code).name
        said = f": {self._last_words()}" if self._last_words() else ""
        return TrialFailed("failed", f"the worker died ({how}) while {_DOING[doing]}{said}")

    def _last_words(self) -> str:
        self._stderr.seek(0, os.SEEK_END)
        self._stderr.seek(max(0, self._stderr.tell() - 4096))
        lines = self._stderr.read().decode(errors="replace").strip().splitlines()
        return lines[-1][:300] if lines else ""

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)


class OutOfTime(Exception):
    """The budget ended while a worker was at work; nothing is wrong with the worker."""

    def __init__(self, doing: str) -> None:
        super().__init__(_DOING[doing])


_DOING = {
    "open": "loading the network",
    "warm": "warming up",
    "measure": "being measured",
    "probe": "probing the device's peak",
    "pose": "choosing what to compute",
    "answer": "computing what the certificate asks",
    "train": "training",
    "evaluate": "evaluating",
    "close": "closing",
}


def _oom_kills() -> int:
    """How many processes the kernel has ended for memory so far."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/vmstat").read_text().splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return 0

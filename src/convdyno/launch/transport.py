"""A worker at the other end of a line: JSON both ways, and an end whatever happens."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Protocol

HERE = b"convdyno is here\n"
"""The first line of whatever was started on a far host, after what login scripts print there."""
ExitStatus = tuple[str, str]
"""The status of the record, and how the worker died."""
GRACE_SECONDS = 5.0
"""How long a worker may take to end after its last answer."""
WORKER = (sys.executable, "-m", "convdyno.run.worker")

DOING = {
    "greet": "starting",
    "join": "meeting the other ranks",
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
"""What a worker is at after each command."""

CHATTER = re.compile(r"[IW]\d{4} ")
"""What libraries of Google's put before lines that are not about errors."""


class Link(Protocol):
    """One worker, wherever it runs; as it stands, one that a supervisor there is told about."""

    def fileno(self) -> int:
        """Readable when there is something to receive."""

    def send(self, do: str, **more: Any) -> None:
        """One command; whether it arrives shows in what is received."""

    def ping(self) -> None:
        """Say that somebody is here, if the worker is held by that."""
        self.send("ping")

    def receive(self) -> list[dict[str, Any]] | None:
        """What has come in the meantime; None when nothing ever will again."""

    def ended(self) -> bool:
        """Whether the worker is known to have ended, though its line may still be open."""
        return False

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the worker and everything that it started; a supervisor only ends it."""
        if number == signal.SIGKILL:
            self.send("end")

    def nudge(self) -> None:
        """Ask the worker to finish what it is doing."""
        self.send("nudge")

    def death(self) -> ExitStatus:
        """How it died, once nothing can be received."""

    def end(self, *, kindly: bool = False) -> None:
        """End it and free what belongs to it; a second time does nothing."""


class EventLines:
    """Bytes into the events that they spell, however they are cut."""

    def __init__(self) -> None:
        self._unread = b""

    def feed(self, chunk: bytes) -> list[dict[str, Any]]:
        """The events that are complete now."""
        *whole, self._unread = (self._unread + chunk).split(b"\n")
        return [json.loads(line) for line in whole]


class SupervisedLines(EventLines):
    """The worker's events, between what login scripts say first and the supervisor last."""

    def __init__(self) -> None:
        super().__init__()
        self.process: int | None = None
        """The number of the supervisor there."""
        self.death: ExitStatus | None = None
        self._preamble: bytes | None = b""

    def feed(self, chunk: bytes) -> list[dict[str, Any]]:
        """The events that are complete now."""
        if self._preamble is not None:
            before, here, chunk = (self._preamble + chunk).partition(HERE)
            if not here:
                self._preamble = before
                return []
            self._preamble = None
            for line in before.splitlines():
                word, _, number = line.rpartition(b" ")
                if word.endswith(b"process") and number.isdigit():
                    self.process = int(number)
        events = super().feed(chunk)
        if events and events[-1]["event"] == "ended":
            last = events.pop()
            self.death = last["status"], last["how"]
        return events


class PipeLink(Link):
    """A process that was started here, which is the worker or leads to it."""

    def __init__(
        self,
        command: Sequence[str] = WORKER,
        environment: Mapping[str, str] | None = None,
        log: Path | None = None,
    ) -> None:
        # Closed by `end`.
        self._stderr: IO[bytes] = log.open("w+b") if log else tempfile.TemporaryFile()  # noqa: SIM115
        self._oom_kills = oom_kills()
        self._lines = EventLines()
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            start_new_session=True,
            env=os.environ | dict(environment or {}),
        )
        os.set_blocking(self.fileno(), False)

    def fileno(self) -> int:
        """Its standard output."""
        assert self.process.stdout is not None
        return self.process.stdout.fileno()

    def send(self, do: str, **more: Any) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps({"do": do, **more}).encode() + b"\n")
            self.process.stdin.flush()

    def ping(self) -> None:
        """It ends with its parent anyway."""

    def ended(self) -> bool:
        """Though what it has started may hold its output open."""
        return self.process.poll() is not None

    def receive(self) -> list[dict[str, Any]] | None:
        """What it has said in the meantime; None when it has closed its output."""
        try:
            chunk = os.read(self.fileno(), 1 << 16)
        except BlockingIOError:
            return []
        return self._lines.feed(chunk) if chunk else None

    def signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, number)

    def nudge(self) -> None:
        """To the process alone, not to what it started."""
        self.process.terminate()

    def death(self) -> ExitStatus:
        """By exit code or signal, with the last line that it wrote to its log."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(GRACE_SECONDS)
        code = self.process.returncode
        status, how = obituary(code, self._oom_kills)
        surprised = status == "oom" or code == -signal.SIGKILL
        return status, how if surprised else self._with_last_words(how)

    def end(self, *, kindly: bool = False) -> None:
        """End the whole process group."""
        if self._stderr.closed:
            return
        if kindly:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(GRACE_SECONDS)
        self.signal(signal.SIGKILL)
        self.process.wait()
        for file in (self.process.stdin, self.process.stdout, self._stderr):
            with contextlib.suppress(OSError):
                file.close()  # type: ignore[union-attr]

    def _with_last_words(self, how: str) -> str:
        self._stderr.seek(0, os.SEEK_END)
        self._stderr.seek(max(0, self._stderr.tell() - 4096))
        lines = self._stderr.read().decode(errors="replace").strip().splitlines()
        lines = [line for line in lines if not CHATTER.match(line)]
        return f"{how}: {lines[-1][:300]}" if lines else how


def obituary(code: int | None, oom_kills_before: int) -> ExitStatus:
    """How a process died: its exit code is negative for a signal, and None if it will not end."""
    if code == -signal.SIGKILL and oom_kills() > oom_kills_before:
        return "oom", "the system ran out of memory and ended it: try a smaller --batch"
    how = f"exit code {code}" if code is None or code >= 0 else signal.Signals(-code).name
    return "failed", f"died ({how})"


def oom_kills() -> int:
    """How many processes the kernel has ended for memory so far."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/vmstat").read_text().splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return 0


def died_while(how: str, doing: str) -> str:
    """How a worker died and at what, with its last words at the end."""
    died, colon, said = how.partition(":")
    return f"{died} while {DOING[doing]}{colon}{said}"

"""What holds a worker on a far host, and lets it live no longer than it is wanted.

    python -m convdyno.launch.remote_supervisor --limit 20 [--in FOLDER ...] COMMAND ...

Killing an ssh client does not end what it started on the other side. So this runs there: it starts
the command, passes lines both ways and, as soon as its standard input closes or has brought nothing
for so many seconds, ends the command with everything that it started, and itself.

Of the lines that come in, `{"do": "ping"}` only says that somebody is there, `{"do": "nudge"}`
sends SIGTERM to the command, and `{"do": "end"}` ends it; all others are passed on. The first line
that goes out is `HERE`, so that what login scripts print before it can be told apart; the last is
an `ended` event that says how the command died.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from convdyno.launch.transport import HERE, obituary, oom_kills

CLEANING_SECONDS = 5.0
"""How long to go on ending what a command has started."""
SPEAKING_SECONDS = 2.0
"""How long a command's last words may take when it has ended."""


class Supervisor:
    """One command, held by the lines that come in for it."""

    def __init__(
        self,
        command: Sequence[str],
        incoming: BinaryIO,
        outgoing: BinaryIO,
        limit: float,
        folder: str | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._incoming, self._outgoing, self._limit = incoming, outgoing, limit
        self._oom_kills = oom_kills()
        self._heard = time.monotonic()
        _take_in_orphans()
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=folder,
            start_new_session=True, env=environment,
        )  # fmt: skip

    def hold(self) -> int:
        """Sleep until the command has ended, by itself or not; give its exit code.

        Each direction has a thread of its own: whatever blocks, silence is noticed.
        """
        speaker = threading.Thread(target=self._speak, daemon=True)
        speaker.start()
        for task in (self._listen, self._watch):
            threading.Thread(target=task, daemon=True).start()
        code = self._process.wait()
        _end_all(self._process.pid)
        speaker.join(SPEAKING_SECONDS)
        return code

    def end(self) -> None:
        """End the command; `hold` then ends what is left of it."""
        self._process.kill()

    def _listen(self) -> None:
        stdin = self._process.stdin
        assert stdin is not None
        with contextlib.suppress(OSError, ValueError):
            for line in self._incoming:
                self._heard = time.monotonic()
                match _word(line):
                    case "ping":
                        pass
                    case "nudge":
                        self._process.terminate()
                    case "end":
                        break
                    case _:
                        with contextlib.suppress(BrokenPipeError):
                            stdin.write(line)
                            stdin.flush()
        self.end()

    def _watch(self) -> None:
        while (left := self._heard + self._limit - time.monotonic()) > 0:
            time.sleep(left)
        self.end()

    def _speak(self) -> None:
        assert self._process.stdout is not None
        try:
            self._write(HERE)
            while chunk := self._process.stdout.read1(1 << 16):  # type: ignore[attr-defined]
                self._write(chunk)
            status, how = obituary(self._process.wait(), self._oom_kills)
            ended = {"event": "ended", "status": status, "how": how}
            self._write(json.dumps(ended).encode() + b"\n")
        except (OSError, ValueError):
            self.end()  # Nobody listens any more.

    def _write(self, data: bytes) -> None:
        self._outgoing.write(data)
        self._outgoing.flush()


def _word(line: bytes) -> str:
    """What a short line asks for."""
    if len(line) < 80:
        with contextlib.suppress(ValueError, AttributeError):
            return str(json.loads(line).get("do"))
    return ""


def _take_in_orphans() -> None:
    """Become the parent of whatever loses its own below here, so that it is found (Linux)."""
    if sys.platform == "linux":
        set_child_subreaper = 36
        ctypes.CDLL(None).prctl(set_child_subreaper, 1)


def _end_all(group: int) -> None:
    """End a process group, and what has left it."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)
    deadline = time.monotonic() + CLEANING_SECONDS
    while (left := _descendants()) and time.monotonic() < deadline:
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        time.sleep(0.01)


def _descendants() -> list[int]:
    """Every process below this one; none where the system does not tell."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parent = int(entry.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(entry.parent.name))
    found, todo = list[int](), [os.getpid()]
    while todo:
        below = children.get(todo.pop(), [])
        found += below
        todo += below
    return found


def main() -> None:
    """Hold the command of the command line by this process's standard input and output."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--limit", type=float, required=True, metavar="SECONDS")
    there = "start it there, if there is such a folder; the first that is"
    parser.add_argument("--in", dest="folders", action="append", metavar="FOLDER", help=there)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    given = parser.parse_args()
    folder = next((name for name in given.folders or () if Path(name).is_dir()), None)
    supervisor = Supervisor(given.command, sys.stdin.buffer, sys.stdout.buffer, given.limit, folder)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, lambda *_: supervisor.end())
    code = supervisor.hold()
    os._exit(code if code >= 0 else 128 - code)  # Threads may be blocked for good.


if __name__ == "__main__":
    main()

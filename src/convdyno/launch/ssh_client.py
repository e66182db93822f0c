"""A far host over ssh: how commands get there unharmed, and a conversation with one of them.

The ssh program is used, so that everything in the user's own settings works. One connection to a
host carries all commands for it.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil

from convdyno.errors import UsageError
from convdyno.launch.nodes import NodeLine
from convdyno.launch.transport import HERE

LOST = 255
"""What ssh ends with when the connection was at fault."""
CONNECT_SECONDS = 10
ALIVE_SECONDS, ALIVE_COUNT = 5, 3
"""How often the other side is asked for a sign of life, and how many may be missing."""
LINGER_SECONDS = 15
"""How long a connection stays when nobody uses it; it ends by itself, even if we are killed."""
CLOSE_SECONDS = 5
PREFIX = "convdyno-ssh-"
SOCKETS = re.compile(r"[\w/.-]{1,80}")
"""Folders that ssh can keep sockets in: a short name, in which it finds nothing to replace."""


class HostFailed(Exception):
    """What is wrong with one host: a sentence without its name."""


class Ssh:
    """The ssh program with our settings, and the connections it keeps in a private folder."""

    def __init__(self, config: Path | None = None) -> None:
        program = shutil.which("ssh")
        if program is None:
            raise UsageError("ssh is not installed here; it is needed for --nodes")
        if config is not None and not config.is_file():
            raise UsageError(f"--ssh-config {config} is no file")
        self._base = [program, *(["-F", str(config)] if config else [])]
        self._folder = _private_folder()
        self._known: dict[str, int] = {}

    def command(self, node: NodeLine, words: Sequence[str]) -> list[str]:
        """The command that runs these words on a host, whatever characters they have."""
        return [*self._options(node.alias), "-T", "--", node.alias, shlex.join(words)]

    def close(self) -> None:
        """Close all connections and remove the folder."""
        for alias in self._known:
            command = [*self._options(alias), "-O", "exit", "--", alias]
            with contextlib.suppress(subprocess.TimeoutExpired):
                subprocess.run(
                    command, stdin=subprocess.DEVNULL, capture_output=True, timeout=CLOSE_SECONDS
                )
        self._known.clear()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _options(self, alias: str) -> list[str]:
        number = self._known.setdefault(alias, len(self._known))
        settings = {
            "BatchMode": "yes",
            "ConnectTimeout": CONNECT_SECONDS,
            "ServerAliveInterval": ALIVE_SECONDS,
            "ServerAliveCountMax": ALIVE_COUNT,
            "ControlMaster": "auto",
            "ControlPath": self._folder / str(number),
            "ControlPersist": LINGER_SECONDS,
            "ClearAllForwardings": "yes",
            "RemoteCommand": "none",
            "LogLevel": "ERROR",
        }
        return [*self._base, *(w for k, v in settings.items() for w in ("-o", f"{k}={v}"))]


class Conversation:
    """A command that is spoken to in JSON lines, one after the other."""

    def __init__(self, command: Sequence[str]) -> None:
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115, closed by `close`
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._stderr,
            start_new_session=True,
        )  # fmt: skip
        self._begun = False

    def read(self, within: float | None = None) -> dict[str, Any]:
        """The next line; if none comes, or not within so many seconds, that is a `HostFailed`."""
        late = threading.Event()

        def give_up() -> None:
            late.set()
            self.abandon()

        timer = threading.Timer(within or 0, give_up)
        if within:
            timer.start()
        try:
            return self._read()
        except HostFailed:
            if late.is_set():
                raise HostFailed(f"no answer within {within:.0f} s") from None
            raise
        finally:
            timer.cancel()

    def write(self, **order: Any) -> None:
        """Send one line to the other side."""
        self.send(json.dumps(order).encode() + b"\n")

    def send(self, data: bytes) -> None:
        """As it is; whether it arrives shows in what is read."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError, ValueError):
            self._process.stdin.write(data)
            self._process.stdin.flush()

    def abandon(self) -> None:
        """End it at once; whoever reads gets a `HostFailed`."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        """Let it end, and free what belongs to it; a second time does nothing."""
        with contextlib.suppress(OSError, ValueError):
            assert self._process.stdin is not None
            self._process.stdin.close()
        try:
            self._process.wait(CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            self.abandon()
            self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._stderr.close()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if self._begun:
                said: dict[str, Any] = json.loads(line)
                if said["event"] == "failed":
                    raise HostFailed(said["reason"])
                return said
            self._begun = line == HERE
        code = self._process.wait()
        self._stderr.seek(0)
        lines = self._stderr.read().decode(errors="replace").strip().splitlines()
        why = lines[-1].removeprefix("ssh: ")[:300].rstrip("\r.") if lines else ""
        if code == LOST:
            raise HostFailed(f"cannot be reached over ssh: {why or 'it said nothing'}")
        raise HostFailed(why or f"what was started there ended with exit code {code}")


def _private_folder() -> Path:
    """For sockets: nobody else can see into it. Those of processes that were killed are removed."""
    usual = Path(tempfile.gettempdir())
    root = usual if SOCKETS.fullmatch(f"{usual}/{PREFIX}") else Path("/tmp")
    for left in root.glob(f"{PREFIX}*-*"):
        number = left.name.removeprefix(PREFIX).partition("-")[0]
        gone = number.isdigit() and not psutil.pid_exists(int(number))
        with contextlib.suppress(OSError):
            if gone and left.stat().st_uid == os.getuid():
                shutil.rmtree(left)
    return Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=root))

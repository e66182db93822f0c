"""One far host: what it has, which Python runs convdyno there, and the commands that do."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from convdyno import __version__
from convdyno.launch import remote_bootstrap
from convdyno.launch.bundle import bundle
from convdyno.launch.nodes import NodeLine
from convdyno.launch.ssh_client import Conversation, HostFailed, Ssh
from convdyno.trial.spec import Trial

FOLDER = "~/.cache/convdyno"
"""Where convdyno is put on far hosts if nobody says where."""
ANSWER_SECONDS = 60.0
"""How long a host may take to say what it has."""
PYTHONS = (sys.executable, "python3")
"""Those that are tried on a far host if none is named: where ours is, then its own."""
OUR_OWN = ("reference", "clockwork")
"""Engines that need no framework."""

# Runs a text that comes on standard input under the first Python that is new enough.
_FIRST_PYTHON = (
    'for p in "$@"; do '
    'if "$p" -c "import sys; sys.exit(sys.version_info < (3, 11))" 2>/dev/null; then '
    'exec "$p" -c "import sys; exec(sys.stdin.buffer.read({size}))"; '
    "fi; done; echo no Python 3.11 or newer is there, tried: $* >&2; exit 66"
)
# Says by which number the command that it becomes can be ended.
_NUMBERED = 'echo "process $$"; exec "$@"'


@dataclass(frozen=True)
class Remote:
    """How far hosts are used."""

    folder: str = FOLDER
    """Where convdyno is put there."""
    python: str | None = None
    """The Python to use there; None finds one, or makes one in the folder."""
    ssh_config: Path | None = None


class FarHost:
    """A host of the nodes file."""

    def __init__(self, node: NodeLine, ssh: Ssh, remote: Remote) -> None:
        self.node, self._ssh, self._remote = node, ssh, remote
        self._scout: Conversation | None = None
        self.facts: dict[str, Any] = {}
        """What it has: cores, gpus; once surveyed, all that the survey says."""
        self.python, self.path = "", ""
        self.lost = False
        """Whether it has stopped answering."""

    @property
    def name(self) -> str:
        """What people call it."""
        return self.node.host

    @property
    def folders(self) -> list[str]:
        """Where things run there: in the same folder as here, if it has that."""
        return [str(Path.cwd()), *([self.path] if self.path else [])]

    def connect(self) -> None:
        """Reach it, and learn what it has."""
        if self._scout is not None:
            return
        text = Path(remote_bootstrap.__file__).read_bytes()
        find = _FIRST_PYTHON.format(size=len(text))
        also = ["python3"] if self._remote.python else []
        words = ["sh", "-c", find, "sh", *self._pythons, *also]
        self._scout = Conversation(self._ssh.command(self.node, words))
        self._scout.send(text)
        self.facts = self._scout.read(ANSWER_SECONDS)

    def settle(self, trials: Sequence[Trial], tell: Callable[[str], None]) -> None:
        """Find or make what runs these trials there."""
        self.connect()
        assert self._scout is not None
        parts = {part for trial in trials for part in trial.engine.split("/")}
        needs = sorted(parts.difference(OUR_OWN))
        real = any(not trial.data.startswith("synthetic") for trial in trials)
        ours = bundle()
        self._scout.write(
            do="settle",
            folder=self._remote.folder,
            name=ours.name,
            file=ours.file,
            size=len(ours.wheel),
            constraints=ours.constraints,
            modules=needs,
            extras=[*needs, "data"] if real else needs,
            pythons=self._pythons,
            given=self._remote.python is not None,
        )
        while (said := self._scout.read())["event"] != "settled":
            if said["event"] == "need":
                self._scout.send(ours.wheel)
            elif said["event"] == "installing":
                tell(f"{self.name}: installing {said['what']} in {said['where']}")
        self.python, self.path = said["python"], said["path"]
        if said["convdyno"] not in (None, __version__):
            raise HostFailed(
                f"{self.python} has convdyno {said['convdyno']}, and this is {__version__}: "
                "install the same, or leave out --python to have this one copied"
            )

    def command(
        self,
        module: str,
        arguments: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> list[str]:
        """The local command that runs a module of convdyno there."""
        variables = dict(environment or {})
        if self.path:
            variables["PYTHONPATH"] = self.path
        settings = [f"{name}={value}" for name, value in variables.items()]
        words = ["env", *settings, self.python, "-P", "-m", module, *arguments]
        return self._ssh.command(self.node, ["sh", "-c", _NUMBERED, "sh", *words])

    def plain(self, *words: str) -> list[str]:
        """The local command that runs any command there."""
        return self._ssh.command(self.node, words)

    def abandon(self) -> None:
        """End at once whatever is being asked."""
        if self._scout is not None:
            self._scout.abandon()

    def close(self) -> None:
        """Hang up; a second time does nothing."""
        if self._scout is not None:
            self._scout.close()
        self._scout = None

    @property
    def _pythons(self) -> list[str]:
        return [*PYTHONS] if self._remote.python is None else [self._remote.python]

"""How ranks that somebody else has started come to know where rank 0 is, and a secret.

Rank 0 draws the secret and writes it, with its address and port, to a file that only this user can
read, in a folder that all ranks see; the others look for it there. It is removed as soon as all
have called. Hosts that share no folder are given CONVDYNO_TOKEN instead, the same on all ranks: it
is the secret, and the ports follow from it.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import stat
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from convdyno.errors import UsageError
from convdyno.files import closing, lock

TOKEN, FOLDER, PORT = "CONVDYNO_TOKEN", "CONVDYNO_RANKS_DIR", "CONVDYNO_PORT"
ADVICE = (
    f"set {FOLDER} to a folder of yours that all ranks see, or {TOKEN} to the same secret on all "
    "ranks"
)
LEAST_TOKEN = 32
"""Characters: what guesses could find out is no secret."""
PORTS = range(20000, 30000)
TRIED_PORTS = 8
"""How many of them follow from a token, as others may have taken some."""
MOST_BYTES = 4096
STALE_SECONDS = 600.0
"""Ranks that have not met after so long never will: a file that is older is left over."""


@dataclass(frozen=True)
class Contact:
    """Where rank 0 can be called, and what proves that it is rank 0."""

    address: str
    port: int
    secret: str


def given_secret(variables: Mapping[str, str]) -> str | None:
    """The token that the user has given to all ranks, if there is one."""
    token = variables.get(TOKEN)
    if token and len(token) < LEAST_TOKEN:
        raise UsageError(
            f"{TOKEN} has {len(token)} characters and could be guessed: give all ranks the same "
            f"{LEAST_TOKEN} or more, as of `openssl rand -hex 16`"
        )
    return token or None


def ports(secret: str, variables: Mapping[str, str]) -> list[int]:
    """Where rank 0 listens if the secret is all that ranks share; others cannot work them out."""
    if port := variables.get(PORT):
        if not port.isdecimal() or not 0 < int(port) < 1 << 16:
            raise UsageError(f"{PORT} must be the number of a port, not {port!r}")
        return [int(port)]
    drawn = struct.unpack(f"!{TRIED_PORTS}I", hmac.digest(secret.encode(), b"ports", "sha256"))
    return [PORTS[number % len(PORTS)] for number in drawn]


class Board:
    """The folders in which the ranks of one job look for rank 0's file."""

    def __init__(self, job: str, variables: Mapping[str, str], *, local: bool) -> None:
        self._name = hashlib.sha256(job.encode()).hexdigest()[:32]
        self._local = local
        own = f"convdyno-ranks-{os.getuid()}"
        home, cache = variables.get("HOME", ""), variables.get("XDG_CACHE_HOME")
        self.folders = (
            [Path(variables[FOLDER], own)]
            if variables.get(FOLDER)
            else [Path(cache or Path(home, ".cache"), "convdyno", "ranks"), Path(f".{own}")]
        )
        self.problems: dict[Path, str] = {}
        """Why a folder is of no use."""
        self._shown: list[tuple[Path, int]] = []
        """Where our file is, held by a lock for as long as this process lives."""

    def publish(self, contact: Contact) -> None:
        """Let all processes of this user, and nobody else, know the contact."""
        for folder in self.folders:
            try:
                try:
                    held = self._write(folder, contact)
                except FileNotFoundError:  # Another run has just removed the empty folder.
                    held = self._write(folder, contact)
                self._shown.append((folder, held))
            except OSError as wrong:
                self.problems[folder] = wrong.strerror or str(wrong)
            else:
                if self._local:
                    return
        if not self._shown:
            raise UsageError(f"ranks cannot find each other: {self.said()}; {ADVICE}")

    def withdraw(self) -> None:
        """Take our file away, and the folder if it is empty."""
        while self._shown:
            folder, held = self._shown.pop()
            with suppress(OSError), _opened(folder) as inside:
                found = os.stat(self._name, dir_fd=inside, follow_symlinks=False)
                if os.path.samestat(found, os.fstat(held)):
                    os.unlink(self._name, dir_fd=inside)
                folder.rmdir()
            os.close(held)

    def contacts(self) -> list[Contact]:
        """What is published now; of an earlier job of this name, perhaps."""
        found = []
        for folder in self.folders:
            try:
                with _opened(folder) as inside:
                    file = os.open(self._name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=inside)
                    with os.fdopen(file, encoding="utf-8") as text:
                        _only_ours(os.fstat(file))
                        found.append(Contact(**json.loads(text.read(MOST_BYTES))))
            except FileNotFoundError:
                self.problems.pop(folder, None)
            except OSError as wrong:
                self.problems[folder] = wrong.strerror or str(wrong)
            except (ValueError, TypeError):
                self.problems[folder] = "its file was written by another version of convdyno"
        return found

    def said(self) -> str:
        """Every folder, with what is wrong there."""
        wrong = {folder: f" ({why})" for folder, why in self.problems.items()}
        return ", ".join(f"{folder}{wrong.get(folder, '')}" for folder in self.folders)

    def _write(self, folder: Path, contact: Contact) -> int:
        """The file, complete or not at all, and a lock on it."""
        folder.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        with _opened(folder) as inside:
            self._refuse_a_second_run(inside)
            part = f".{secrets.token_hex(8)}"
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
            held = os.open(part, flags, 0o600, dir_fd=inside)
            try:
                _only_ours(os.fstat(held))
                lock(held)
                os.write(held, json.dumps(asdict(contact)).encode())
                os.fsync(held)
                os.rename(part, self._name, src_dir_fd=inside, dst_dir_fd=inside)
                _sweep(inside, os.fstat(held).st_mtime - STALE_SECONDS)
            except BaseException:
                os.close(held)
                with suppress(OSError):
                    os.unlink(part, dir_fd=inside)
                raise
            return held

    def _refuse_a_second_run(self, inside: int) -> None:
        flags = os.O_RDWR | os.O_NOFOLLOW
        with suppress(OSError), closing(os.open(self._name, flags, dir_fd=inside)) as earlier:
            if lock(earlier) is False:
                raise UsageError(
                    "another run of the same job waits for its ranks: give each run a "
                    "CONVDYNO_JOB of its own, the same on all its ranks"
                )


@contextmanager
def _opened(folder: Path) -> Iterator[int]:
    """A folder that belongs to us alone, by its descriptor: it cannot be exchanged meanwhile."""
    with closing(os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)) as inside:
        _only_ours(os.fstat(inside))
        yield inside


def _only_ours(found: os.stat_result) -> None:
    if found.st_uid != os.geteuid():
        raise PermissionError(1, "belongs to another user")
    if stat.S_IMODE(found.st_mode) & 0o077:
        raise PermissionError(1, "others may read or write it")


def _sweep(inside: int, before: float) -> None:
    """Remove what jobs that died have left."""
    for name in os.listdir(inside):
        with suppress(OSError):
            if os.stat(name, dir_fd=inside, follow_symlinks=False).st_mtime < before:
                os.unlink(name, dir_fd=inside)

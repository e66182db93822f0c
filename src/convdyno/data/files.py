"""A folder or a tar archive as a list of named files; of each as much is read as it really has."""

from __future__ import annotations

import contextlib
import errno
import gzip
import io
import os
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from convdyno.errors import BadData

DEPTH = 3
"""How many folders deep a set's files may lie below the path that was given."""
FOLDERS = 24
"""How many folders are looked into before it is no set of a few files."""
FILES = 24
"""How many files a set of a few files may have beside it."""
IN_MEMORY = 2 << 30
"""How many bytes of a tar archive are read before it must be unpacked by hand."""
CHUNK = 1 << 20
GZIP = b"\x1f\x8b"
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@dataclass(frozen=True)
class Blob:
    """One file: on disk, or held in memory because it came out of an archive."""

    name: str
    where: str
    path: Path | None = None
    held: bytes = b""

    @property
    def size(self) -> int:
        """Bytes as stored."""
        return len(self.held) if self.path is None else self.path.stat().st_size

    def open(self) -> IO[bytes]:
        """The file's bytes as stored."""
        return io.BytesIO(self.held) if self.path is None else self.path.open("rb")

    def head(self, count: int) -> bytes:
        """The first bytes, uncompressed if the file is gzip; none where it cannot be read."""
        try:
            return next(self.pieces(count), b"")[:count]
        except (BadData, OSError):
            return b""

    def pieces(self, size: int = CHUNK) -> Iterator[bytes]:
        """The content, uncompressed if the file is gzip, piece by piece."""
        try:
            with self.open() as raw:
                zipped = raw.read(len(GZIP)) == GZIP
                raw.seek(0)
                with gzip.open(raw) if zipped else raw as file:
                    while piece := file.read(size):
                        yield piece
        except (OSError, EOFError, zlib.error) as error:
            raise BadData(f"{self.where} cannot be read: {reason(error)}") from error

    def read(self, most: int | None = None) -> bytes:
        """The content, uncompressed if the file is gzip, and no more of it than `most` bytes."""
        parts, size = [], 0
        for piece in self.pieces():
            parts.append(piece)
            size += len(piece)
            if most is not None and size >= most:
                break
        return b"".join(parts)[:most]


def reason(error: BaseException) -> str:
    """Why a file could not be read or written, without the path that is in the sentence already."""
    return (isinstance(error, OSError) and error.strerror) or str(error) or type(error).__name__


def is_tar(path: Path) -> bool:
    """Whether a file is a tar archive, compressed or not; looked at, not guessed by its name."""
    head = Blob(path.name, str(path), path).head(512)
    return len(head) == 512 and looks_like_tar(head)


def looks_like_tar(head: bytes) -> bool:
    """Whether these first 512 bytes are a tar header."""
    try:
        tarfile.TarInfo.frombuf(head[:512], "utf-8", "replace")
    except tarfile.HeaderError:
        return False
    return True


def listed(folder: Path) -> list[os.DirEntry[str]]:
    """What a folder has, sorted by name, hidden files left out."""
    try:
        with os.scandir(folder) as entries:
            return sorted(
                (entry for entry in entries if not entry.name.startswith(".")),
                key=lambda entry: entry.name,
            )
    except OSError as error:
        raise BadData(f"{folder} cannot be read: {reason(error)}") from error


def groups(path: Path) -> Iterator[list[Blob]]:
    """The files of each folder from `path` downwards, or of a tar archive or file that it is."""
    if path.is_dir():
        yield from _folders(path)
    elif is_tar(path):
        yield from _by_folder(members(path))
    else:
        yield [Blob(path.name, str(path), path)]


def members(path: Path, most: int = IN_MEMORY) -> Iterator[Blob]:
    """The regular files of a tar archive, in its order."""
    left = most
    try:
        with tarfile.open(path, "r|*") as archive:
            for member in archive:
                file = archive.extractfile(member) if member.isreg() else None
                if file is None:
                    continue
                parts = []
                while piece := file.read(CHUNK):
                    parts.append(piece)
                    left -= len(piece)
                    if left < 0:
                        raise BadData(f"{path} is too large to be read packed; unpack it first")
                yield Blob(member.name, f"{path}:{member.name}", held=b"".join(parts))
    except (tarfile.TarError, OSError, EOFError, zlib.error, ValueError) as error:
        raise BadData(f"{path} is a damaged archive: {reason(error)}") from error


def _folders(top: Path) -> Iterator[list[Blob]]:
    level, seen = [top], 0
    for _ in range(DEPTH + 1):
        below: list[Path] = []
        for folder in level:
            seen += 1
            if seen > FOLDERS:
                return
            entries = listed(folder)
            files = [entry for entry in entries if entry.is_file()]
            if 0 < len(files) <= FILES:
                yield [Blob(entry.name, entry.path, Path(entry.path)) for entry in files]
            below += [Path(entry.path) for entry in entries if entry.is_dir()]
        level = below


def _by_folder(blobs: Iterator[Blob]) -> Iterator[list[Blob]]:
    found: dict[str, list[Blob]] = {}
    for blob in blobs:
        found.setdefault(blob.name.rpartition("/")[0], []).append(blob)
    yield from found.values()


@contextlib.contextmanager
def told_if_full(folder: Path) -> Iterator[None]:
    """What could not be written is one sentence, a full disk above all."""
    try:
        yield
    except OSError as error:
        if error.errno in FULL:
            raise BadData(
                f"there is no room left to write to {folder} ({reason(error)}); "
                "what is finished stays, and the same command goes on from there"
            ) from error
        raise BadData(f"{folder} cannot be written: {reason(error)}") from error

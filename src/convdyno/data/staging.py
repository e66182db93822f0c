"""Data copied to another storage for as long as they are measured there."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from convdyno.errors import BadData


@contextmanager
def staged(data: Path, folder: Path) -> Iterator[Path]:
    """A copy of a file or folder below `folder`, written through to storage; gone afterwards."""
    try:
        if not folder.is_dir():
            raise BadData(f"{folder} is no folder: data cannot be copied there")
        place = Path(tempfile.mkdtemp(prefix="convdyno-", dir=folder))
    except OSError as wrong:
        raise BadData(f"{data} cannot be copied to {folder}: {wrong.strerror}") from None
    try:
        copy = place / data.resolve().name
        try:
            if data.is_dir():
                shutil.copytree(data, copy)
            else:
                shutil.copy2(data, copy)
            for file in _files(copy):
                with file.open("rb") as opened:
                    os.fsync(opened.fileno())
        except (OSError, shutil.Error) as wrong:
            raise BadData(f"{data} cannot be copied to {folder}: {wrong}") from None
        yield copy
    finally:
        shutil.rmtree(place, ignore_errors=True)


def forget(data: Path) -> None:
    """Ask the system to drop what it holds of these files in memory, so that storage is read."""
    if not hasattr(os, "posix_fadvise"):
        return
    for file in _files(data):
        with contextlib.suppress(OSError), file.open("rb") as opened:
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _files(data: Path) -> Iterator[Path]:
    yield from (file for file in data.rglob("*") if file.is_file()) if data.is_dir() else (data,)

"""Files that are there whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from convdyno.data.files import reason
from convdyno.errors import BadData

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextlib.contextmanager
def whole_file(path: Path, sync: bool = True) -> Iterator[BinaryIO]:
    """A file written under a hidden name beside `path`, and renamed when it is complete."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    part = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            os.fchmod(handle, 0o666 & ~_mask())
            yield file
            file.flush()
            if sync:
                os.fsync(handle)
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


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


def clear_parts(folder: Path) -> None:
    """Remove what an earlier, killed run left under hidden names."""
    for part in folder.rglob(".*.part"):
        part.unlink(missing_ok=True)


def _mask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask

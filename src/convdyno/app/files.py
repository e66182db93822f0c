"""The files that are written where one asks for them."""

from __future__ import annotations

from pathlib import Path

from convdyno.errors import UsageError
from convdyno.files import write_whole


def write_file(path: Path, content: str | bytes) -> Path:
    """Write a file whole or not at all; what is no plain file, such as /dev/stdout, directly."""
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        else:
            write_whole(path.resolve(), content, sync=False)
    except OSError as wrong:
        raise UsageError(f"{str(path)!r} cannot be written: {wrong.strerror}") from None
    return path

"""The files that commands write where they are told to."""

from __future__ import annotations

import os
from pathlib import Path

from convdyno.errors import UsageError


def write_file(path: Path, content: str | bytes) -> Path:
    """Write a file whole or not at all; what is no plain file, such as /dev/stdout, directly."""
    data = content.encode() if isinstance(content, str) else content
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(data)
        else:
            _replace(path.resolve(), data)
    except OSError as wrong:
        raise UsageError(f"{str(path)!r} cannot be written: {wrong.strerror}") from None
    return path


def _replace(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}-{os.getpid()}.part")
    try:
        part.write_bytes(data)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)

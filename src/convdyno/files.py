"""Files: read only if they are plain ones, and written whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

MOST_BYTES = 1 << 30
"""A larger file is none of ours."""
ABANDONED_SECONDS = 3600.0
"""A hidden file that nobody has written to for so long is nobody's."""


def read_plain(path: Path, most: int = MOST_BYTES) -> bytes:
    """The content of a plain file; a pipe, a device or a huge file is an `OSError`.

    Reading a pipe would wait for its writer, and a device may have no end.
    """
    with closing(os.open(path, os.O_RDONLY | os.O_NONBLOCK)) as descriptor:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode):
            raise OSError(errno.EINVAL, "it is not a plain file", str(path))
        if about.st_size > most:
            raise OSError(errno.EFBIG, f"it has {about.st_size} bytes", str(path))
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(about.st_size)


@contextlib.contextmanager
def closing(descriptor: int) -> Iterator[int]:
    """The descriptor of an open file or folder, which is closed at the end."""
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def whole_path(path: Path, *, sync: bool = True) -> Iterator[Path]:
    """A hidden name beside `path` to write a file under, which is renamed when that is done.

    A kill at any instant leaves the old file or the new one. A link of that name is replaced, not
    followed, and an earlier file's mode is kept. Without `sync` a power cut may take the content.
    """
    part = path.with_name(f".{path.name[:100]}.{secrets.token_hex(6)}.part")
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        with closing(os.open(part, flags, 0o666)) as made:
            mode = os.fstat(made).st_mode  # What new files have here.
        with contextlib.suppress(OSError):
            before = path.lstat().st_mode
            mode = before if stat.S_ISREG(before) else mode
        yield part
        with closing(os.open(part, os.O_RDWR | os.O_NOFOLLOW)) as written:
            os.fchmod(written, stat.S_IMODE(mode))
            if sync:
                os.fsync(written)
        part.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink()
        raise
    if sync:  # The rename shall be on the disk too, where a folder can be asked that.
        with contextlib.suppress(OSError), closing(os.open(path.parent, os.O_DIRECTORY)) as folder:
            os.fsync(folder)


@contextlib.contextmanager
def whole_file(path: Path, *, sync: bool = True) -> Iterator[BinaryIO]:
    """The same, opened for writing."""
    with whole_path(path, sync=sync) as part, part.open("r+b") as file:
        lock(file.fileno())  # Tells whether the writer lives: see `clear_parts`.
        yield file


def write_whole(path: Path, content: str | bytes, *, sync: bool = True) -> Path:
    """Put a file in place of an earlier one, whole or not at all; its folder is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path, sync=sync) as file:
        file.write(content.encode() if isinstance(content, str) else content)
    return path


def clear_parts(folder: Path, names: str = "*", *, older: float = ABANDONED_SECONDS) -> None:
    """Remove what killed writers of files of such names left so many seconds ago.

    What is being written stays. Who has these files to itself may say `older=0`.
    """
    for part in folder.glob(str(Path(names).with_name(f".{Path(names).name}.*.part"))):
        with contextlib.suppress(OSError), closing(open_lock(part, create=False)) as descriptor:
            idle = time.time() - os.fstat(descriptor).st_mtime
            if lock(descriptor) is not False and (not older or idle >= older):
                part.unlink()


def open_lock(path: Path, *, create: bool = True) -> int:
    """A descriptor of a file that is there to be locked, for reading and writing.

    It may stand in a folder of somebody else's: what a link points to is not ours to write to.
    """
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | (os.O_CREAT if create else 0)
    descriptor = os.open(path, flags, 0o666)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "it is not a plain file", str(path))


def lock(descriptor: int) -> bool | None:
    """Whether a file could be locked until it is closed; None where there are no locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True

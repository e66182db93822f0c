"""What one rank has and the others need: arrays, a file, the last word."""

from __future__ import annotations

import base64
import hashlib
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from convdyno.errors import ConvdynoError
from convdyno.run.huddle import Huddle
from convdyno.trial.world import World

Packed = dict[str, tuple[str, list[int], str]]
"""Arrays as JSON has them: type, shape and bytes of each."""
CHUNK = 8 << 20
"""Bytes of a file that are told at a time."""


def pack(arrays: Mapping[str, NDArray[Any]]) -> Packed:
    """Arrays as they are told in a huddle."""
    return {
        name: (str(array.dtype), list(array.shape), base64.b64encode(array.tobytes()).decode())
        for name, array in arrays.items()
    }


def unpack(packed: Packed) -> dict[str, NDArray[Any]]:
    """The same arrays, to the bit."""
    return {
        name: np.frombuffer(base64.b64decode(text), np.dtype(kind)).reshape(shape).copy()
        for name, (kind, shape, text) in packed.items()
    }


@contextmanager
def file_of_first(path: Path, world: World, huddle: Huddle) -> Iterator[Path]:
    """A file that rank 0 has, on every rank: itself where it is seen, else a copy for a while."""
    digests = [None] if world.alone else huddle.gather(_digest(path))
    if all(digest == digests[0] for digest in digests):
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="convdyno-") as folder:
        copy = Path(folder) / path.name
        size = huddle.agree(path.stat().st_size if world.rank == 0 else 0)
        with (path if world.rank == 0 else copy).open("rb" if world.rank == 0 else "wb") as file:
            for _ in range(0, size, CHUNK):
                text = base64.b64encode(file.read(CHUNK)).decode() if world.rank == 0 else ""
                told = huddle.agree(text)
                if world.rank:
                    file.write(base64.b64decode(told))
        yield copy if world.rank else path


def fail_together(problem: ConvdynoError, world: World, huddle: Huddle) -> NoReturn:
    """Raise what all ranks have found alike: rank 0 says it, the others wait for it to end."""
    if world.rank:
        huddle.agree(None)
    raise problem


def _digest(path: Path) -> str | None:
    """Of what a file says; None where there is none."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None

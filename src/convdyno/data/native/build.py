"""Compiles the native decoder once per machine and keeps it in the user's cache."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

from convdyno.data.tfrecord import cache_folder

SOURCE = Path(__file__).with_name("crop.c")
FLAGS = ("-O3", "-shared", "-fPIC")
LIBRARIES = ("-ljpeg", "-lm")
PATIENCE_SECONDS = 120


class NotBuilt(Exception):
    """Why there is no native decoder here, in one sentence."""


@functools.cache
def library() -> ctypes.CDLL:
    """The loaded library, compiled first where it is not in the cache; `NotBuilt` says why not."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        raise NotBuilt("there is no C compiler")
    try:
        file = cache_folder() / f"crop-{_key(compiler)}.so"
        if not file.exists():
            _compile(compiler, file)
        return _declare(ctypes.CDLL(str(file)))
    except (OSError, subprocess.SubprocessError) as problem:
        raise NotBuilt(f"the native decoder cannot be built: {problem}") from problem


def reason() -> str | None:
    """Why the native decoder cannot be used here; None where it can."""
    try:
        library()
    except NotBuilt as why:
        return str(why)
    return None


def _key(compiler: str) -> str:
    version = subprocess.run(
        [compiler, "--version"], capture_output=True, check=True, timeout=PATIENCE_SECONDS
    ).stdout
    machine = f"{platform.system()} {platform.machine()} {platform.libc_ver()} {FLAGS}"
    return hashlib.sha256(SOURCE.read_bytes() + version + machine.encode()).hexdigest()[:16]


def _compile(compiler: str, to: Path) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=to.parent, prefix=".building-") as folder:
        made = Path(folder) / to.name
        command = [compiler, *FLAGS, str(SOURCE), *LIBRARIES, "-o", str(made)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
        if done.returncode:
            lines = done.stderr.splitlines()
            first = next((line for line in lines if "error" in line), "the compiler failed")
            hint = " (Debian: libjpeg62-turbo-dev)" if "jpeg" in first else ""
            raise NotBuilt(f"the native decoder does not compile: {first}{hint}")
        # Another process may do the same now: the last one to rename wins, with the same bytes.
        made.replace(to)


def _declare(loaded: ctypes.CDLL) -> ctypes.CDLL:
    pointer, number = ctypes.c_void_p, ctypes.c_int
    loaded.convdyno_open.restype = pointer
    loaded.convdyno_open.argtypes = []
    loaded.convdyno_close.restype = None
    loaded.convdyno_close.argtypes = [pointer]
    loaded.convdyno_message.restype = ctypes.c_char_p
    loaded.convdyno_message.argtypes = [pointer]
    loaded.convdyno_header.argtypes = [pointer, pointer, ctypes.c_size_t, pointer]
    loaded.convdyno_crop.argtypes = [
        pointer, number, number, pointer, number, number, number, number, pointer, pointer,
    ]  # fmt: skip
    loaded.convdyno_resize.argtypes = [
        pointer, pointer, ctypes.c_ssize_t, number, number, number, number, number, number, number,
        pointer, pointer,
    ]  # fmt: skip
    return loaded

"""The same command as each of several ranks, as mpiexec and others start it."""

import os
import subprocess
import sys
from pathlib import Path

BENCH = (
    "bench", "deepmnist", "--engine", "clockwork", "--rounds", "2", "--within", "any",
    "--budget", "120s",
)  # fmt: skip
"""Short, though a busy machine may take its time."""


def variables(folder: Path, rank: int, size: int, **more: str) -> dict[str, str]:
    """What one rank is given; all of them have their cache in this folder."""
    own = {"CONVDYNO_RANK": str(rank), "CONVDYNO_SIZE": str(size), "CONVDYNO_JOB": folder.name}
    return os.environ | own | {"XDG_CACHE_HOME": str(folder / "cache")} | more


def start(folder: Path, rank: int, size: int, *words: str, **more: str) -> subprocess.Popen[str]:
    """One rank."""
    return subprocess.Popen(
        [sys.executable, "-m", "convdyno", *words], cwd=folder,
        env=variables(folder, rank, size, **more),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def finish(process: subprocess.Popen[str]) -> subprocess.CompletedProcess[str]:
    """What a rank has said when it has ended."""
    out, err = process.communicate(timeout=300)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def run(
    folder: Path, size: int, *words: str, **more: str
) -> list[subprocess.CompletedProcess[str]]:
    """All of them at once."""
    started = [start(folder, rank, size, *words, **more) for rank in range(size)]
    return [finish(process) for process in started]

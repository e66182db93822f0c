"""Tests that neither read nor write what belongs to the user.

A session of pytest has a home, caches, settings and a temporary folder of its own, which all its
processes inherit. It fails if something new is there afterwards in the real ones or in the
checkout. Other programs write while tests run, so what is looked at is what ours can make:

- in the home, in its folders of caches and settings and in the temporary folder the names that
  convdyno and the frameworks give, with all that is below them;
- in the checkout everything but what tools leave there;
- in CI, where nobody else is at the machine, every new name in the home and in those folders too.

Elsewhere somebody may use convdyno at the same time: while a process of it runs that is none of
this session's, only the checkout is looked at.

Caches that make tests quick are in `.make/cache` of the checkout.
"""

import contextlib
import os
import pwd
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

CHECKOUT = Path(__file__).parents[1]
KEPT = CHECKOUT / ".make" / "cache"
MARK = "CONVDYNO_TESTS_IN"
"""The variable that tells a session's other processes where its folder is."""
PREFIX = "convdyno-tests-"
DAY = 86_400.0
MOST = 20
"""How many paths are named."""
OWN = {
    "HOME": "home", "XDG_CACHE_HOME": "cache", "XDG_CONFIG_HOME": "config",
    "XDG_DATA_HOME": "share", "XDG_STATE_HOME": "state", "TMPDIR": "tmp",
    "HYPOTHESIS_STORAGE_DIRECTORY": "hypothesis",
}  # fmt: skip
FORGOTTEN = (
    "CONVDYNO_DATA", "CONVDYNO_SSH_CONFIG", "KERAS_HOME", "KERAS_BACKEND", "TORCH_HOME", "HF_HOME",
    "MPLCONFIGDIR",
)  # fmt: skip
"""What a user may have set; the places that follow from the home are used instead."""
GATHERING = (".", ".cache", ".config", ".local", ".local/share", ".local/state")
"""Folders of a home in which each program has a name of its own."""
OURS = (
    "convdyno", "pytest-of-", "keras", "torch", "jax", "tensorflow", "triton", "matplotlib",
    "ompi.",
)  # fmt: skip
"""How the names begin that convdyno and what it is built on give to files of a user."""
OTHERS = (PREFIX, "convdyno-lab-")
"""Sessions and labs, of which several may be up; they are removed by who made them."""
TOOLS = {
    ".git", ".venv", ".make", "__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache",
    ".hypothesis", "build", "dist",
}  # fmt: skip


def begin() -> Path:
    """Give this process, and all that it starts, the folder of the session."""
    if MARK in os.environ:
        return Path(os.environ[MARK])
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    for name, place in OWN.items():
        (folder / place).mkdir()
        os.environ[name] = str(folder / place)
    for name in FORGOTTEN:
        os.environ.pop(name, None)
    # Threads that spin while they wait take the cores from the tests beside them.
    os.environ["OMP_WAIT_POLICY"] = "passive"
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(KEPT / "inductor")
    os.environ[MARK] = str(folder)
    tempfile.tempdir = None
    return folder


def _within(folder: Path) -> Iterator[Path]:
    """All paths below a folder but those that tools leave."""
    for at, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name not in TOOLS]
        yield from (Path(at, name) for name in (*folders, *files))


def _ours(path: Path) -> bool:
    return path.name.lower().lstrip(".").startswith(OURS)


def _listed(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _others_run() -> bool:
    """Whether convdyno runs in a process that is not of this session."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
            if "convdyno" in " ".join(process.cmdline()) and process.pid != os.getpid():
                try:
                    session = process.environ().get(MARK)
                except psutil.AccessDenied:
                    session = None
                if session != str(SESSION):
                    return True
    return False


class Outside:
    """The places that no test may write to, and what was there."""

    def __init__(self) -> None:
        named = {os.environ.get(name) for name in OWN if name.startswith("XDG_")} - {None}
        homes = {Path.home(), Path(pwd.getpwuid(os.getuid()).pw_dir)}
        self._gathering = {home / place for home in homes for place in GATHERING}
        self._gathering |= {Path(name) for name in named if name}
        self._temporary = Path(tempfile.gettempdir())
        self._before = self._look()

    def _look(self) -> set[Path]:
        seen = set(_within(CHECKOUT))
        for folder in self._gathering:
            for path in _listed(folder):
                if _ours(path):
                    seen |= {path, *_within(path)}
                elif os.environ.get("CI") == "true":
                    seen.add(path)
        ours = (path for path in _listed(self._temporary) if _ours(path))
        seen.update(path for path in ours if not path.name.startswith(OTHERS))
        return seen

    def new(self) -> list[Path]:
        """What is there now and was not; of a new folder what is in it."""
        found = self._look() - self._before
        if os.environ.get("CI") != "true" and _others_run():
            found = {path for path in found if path.is_relative_to(CHECKOUT)}
        return sorted(found - {parent for path in found for parent in path.parents})

    def tidy(self) -> None:
        """Remove the folders of sessions that failed or were killed long ago."""
        for path in self._temporary.glob(f"{PREFIX}*"):
            if path.stat().st_mtime < time.time() - DAY:
                shutil.rmtree(path, ignore_errors=True)


OUTSIDE = None if MARK in os.environ else Outside()
"""Looked at by the process that began the session, before it changed anything."""
SESSION = begin()
"""The folder of the session."""
left: list[Path] = []


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail if something appeared outside; remove the session's folder if nothing failed."""
    if OUTSIDE is None:
        return
    left.extend(OUTSIDE.new())
    if left and session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    OUTSIDE.tidy()
    if session.exitstatus == pytest.ExitCode.OK:
        shutil.rmtree(SESSION, ignore_errors=True)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name what appeared outside, and where the files of failed tests are."""
    if left:
        terminalreporter.section("written outside of the session's folder", red=True)
        for path in left[:MOST]:
            terminalreporter.write_line(str(path))
        if len(left) > MOST:
            terminalreporter.write_line(f"and {len(left) - MOST} more")
    if OUTSIDE is not None and SESSION.is_dir():
        terminalreporter.write_line(f"the files of these tests are kept in {SESSION}")

"""What many tests use."""

# isort: off
from hermetic import pytest_sessionfinish, pytest_terminal_summary  # Before anything else.
# isort: on

import json
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # As in a job that a shell has in the background: what tests start must heed Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)

__all__ = ["pytest_sessionfinish", "pytest_terminal_summary"]

# The same examples every time: a test that fails, fails again; and no deadline on a busy machine.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--shuffle", type=int, help="run in another order, by this number")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if (seed := config.getoption("--shuffle")) is not None:
        random.Random(seed).shuffle(items)


class Outcome:
    """What a command did: exit code, standard output and error."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def convdyno(tmp_path: Path) -> Any:
    """Run the command line in a folder of its own, inside this process: see `in_process`."""
    from in_process import command

    def run(*words: str, timeout: float = 0, env: Any = None) -> Outcome:
        return Outcome(*command(tmp_path, *words, env=env))

    return run


@pytest.fixture
def briefly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Turns and warm-ups of `convdyno` that are too short for a figure, and long enough to run."""
    monkeypatch.setattr("convdyno.stage.rounds.TURN_SECONDS", 0.2)
    monkeypatch.setattr("convdyno.stage.rounds.WARM_UP_SECONDS", 0.5)


@pytest.fixture
def convdyno_process(tmp_path: Path) -> Any:
    """Run the command line in a folder and a process of its own, as a user does."""

    def run(*words: str, timeout: float = 400, **more: Any) -> Outcome:
        done = subprocess.run(
            [sys.executable, "-m", "convdyno", *words],
            cwd=tmp_path, capture_output=True, text=True, timeout=timeout, **more,
        )  # fmt: skip
        return Outcome(done.returncode, done.stdout, done.stderr)

    return run

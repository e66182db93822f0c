"""What many tests use."""

# isort: off
from hermetic import pytest_sessionfinish, pytest_terminal_summary  # Before anything else.
# isort: on

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

__all__ = ["pytest_sessionfinish", "pytest_terminal_summary"]

# The same examples every time: a test that fails, fails again; and no deadline on a busy machine.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")


class Outcome:
    """What a command did: exit code, standard output and error."""

    def __init__(self, done: subprocess.CompletedProcess[str]) -> None:
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def convdyno(tmp_path: Path) -> Any:
    """Run the real command line in a folder of its own."""

    def run(*arguments: str, timeout: float = 400, **more: Any) -> Outcome:
        command = [sys.executable, "-m", "convdyno", *arguments]
        return Outcome(
            subprocess.run(
                command, cwd=tmp_path, capture_output=True, text=True, timeout=timeout, **more
            )
        )

    return run

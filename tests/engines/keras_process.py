"""Tests of Keras in processes of their own: Keras has one backend in a process.

A test that uses the fixture `process` of `test_keras.py` is called in the process of one engine,
which lives as long as its tests do. Its arguments are plain data.
"""

from __future__ import annotations

import importlib
import json
import os
import selectors
import subprocess
import sys
import traceback
from typing import Any

ENGINES = ["keras/torch", "keras/jax", "keras/tensorflow"]
PATIENCE_SECONDS = 900
"""A hung process ends the test some day; a busy machine does not."""


def engine() -> str:
    """The engine of this process; none in that of pytest."""
    return sys.argv[1] if sys.argv[0] == __file__ else ""


class KerasProcess:
    """Where the tests of one engine run."""

    def __init__(self, engine: str) -> None:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            [sys.executable, __file__, engine], stdin=pipe, stdout=pipe, text=True
        )
        self._answers = selectors.DefaultSelector()
        self._answers.register(self._pipes[1], selectors.EVENT_READ)

    @property
    def _pipes(self) -> tuple[Any, Any]:
        return self._process.stdin, self._process.stdout

    def call(self, module: str, test: str, arguments: dict[str, Any]) -> str:
        """Run one test; what is wrong, or nothing."""
        questions, answers = self._pipes
        print(json.dumps([module, test, arguments]), file=questions, flush=True)
        if not self._answers.select(PATIENCE_SECONDS):
            return f"no answer for {PATIENCE_SECONDS} s"
        line = answers.readline()
        return str(json.loads(line)) if line else f"the process ended ({self._process.wait()})"

    def end(self) -> None:
        """Let the process go."""
        self._answers.close()
        self._process.kill()
        for pipe in self._pipes:
            pipe.close()
        self._process.wait()


def main() -> None:
    """Run the tests that are asked for; whatever a framework prints does not get in between."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        module, test, arguments = json.loads(line)
        try:
            getattr(importlib.import_module(module), test)(**arguments)
            wrong = ""
        except BaseException:
            wrong = traceback.format_exc()
        print(json.dumps(wrong), file=answers, flush=True)


if __name__ == "__main__":
    main()

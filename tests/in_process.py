"""The command line inside this process, and workers of the engines without a framework with it.

A command is `main` with its own words, folder, variables and output; a worker is the real `Worker`,
told what a line would tell it. No interpreter has to start for either. What needs a process of its
own, because it crashes, hangs or sleeps, and every other engine has one.
"""

import contextlib
import functools
import gc
import io
import json
import os
import signal
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from convdyno.cli.main import main
from convdyno.errors import TrialFailed
from convdyno.launch import local, transport
from convdyno.launch.launcher import Team
from convdyno.run import worker
from convdyno.trial.spec import Trial

ENGINES = ("clockwork", "reference")
OWN_PROCESS = ("fail=crash", "fail=hang", "clock=real")
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP)
HERE = local.Here.start
GET_COMMAND = functools.cache(typer.main.get_command)
"""All commands' options are made once, not for each command."""


class _Answers(io.StringIO):
    """What a worker says."""

    def taken(self) -> list[dict[str, Any]]:
        """What it has said since this was last asked."""
        events = [json.loads(line) for line in self.getvalue().splitlines()]
        self.seek(0)
        self.truncate()
        return events


class WorkerHere(Team):
    """A worker in this process, with the methods of one that has its own."""

    ranks = ()

    def __init__(self) -> None:
        self._said = _Answers()
        self._worker = worker.Worker(self._said)

    def ask(self, do: str, **more: Any) -> dict[str, Any]:
        """Do one thing and give the answer."""
        return [answer for answer in self.events(do, **more) if answer["event"] != "progress"][-1]

    def events(
        self, do: str, *, silence: float, until: float | None = None, **more: Any
    ) -> Iterator[dict[str, Any]]:
        """Do one thing and give every line of the answer."""
        try:
            getattr(self._worker, do)(**more)
        except Exception as error:
            with contextlib.redirect_stderr(io.StringIO()):
                failure = worker._failure(self._worker, error)
            raise TrialFailed(failure["status"], failure["reason"]) from None
        yield from self._said.taken()

    def nudge(self) -> None:
        """Nobody can: what it does is done when its answer is there."""

    def pause(self) -> None:
        """It does nothing between two commands."""

    def end(self, *, kindly: bool = False) -> None:
        """It has no process."""


def _start(self: local.Here, trial: Trial, rank_seconds: float) -> Team:
    plain = trial.engine in ENGINES and not trial.has_ranks and self._command == transport.WORKER
    if plain and not any(word in trial.device for word in OWN_PROCESS):
        return WorkerHere()
    return HERE(self, trial, rank_seconds)


@contextlib.contextmanager
def _as_if_alone(folder: Path, words: tuple[str, ...], environment: Any) -> Iterator[None]:
    """What a process has to itself: folder, words, variables, modules, signals."""
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    modules, before = set(sys.modules), dict(os.environ)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(sys, "argv", ["convdyno", *words])
        patch.setattr(sys.modules["__main__"], "__package__", None)  # It is in messages.
        patch.setattr(sys, "path", list(sys.path))
        patch.setattr(local.Here, "start", _start)
        patch.setattr(typer.main, "get_command", GET_COMMAND)
        gc.freeze()  # A worker collects garbage before each turn: what tests hold is none.
        try:
            if environment is not None:
                os.environ.clear()
                os.environ.update(environment)
            yield
        finally:
            gc.unfreeze()
            os.environ.clear()
            os.environ.update(before)
            for number, handler in handlers.items():
                signal.signal(number, handler)
            _forget(modules, folder)


def _forget(modules: set[str], folder: Path) -> None:
    """Leave the next command neither modules of this folder nor what commands remember."""
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None) or ""
        if name not in modules and Path(file).is_relative_to(folder):
            del sys.modules[name]
        elif name.startswith(("convdyno.cli", "convdyno.app")):
            for value in vars(module).values():
                if hasattr(value, "cache_clear"):
                    value.cache_clear()


def command(folder: Path, *words: str, env: Any = None) -> tuple[int, str, str]:
    """Run a command in a folder: its exit code, standard output and error."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    with (
        _as_if_alone(folder, words, env),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        code: Any = 0
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
        except BaseException:
            traceback.print_exc()
            code = 1
    texts = [stream.buffer.getvalue().decode() for stream in (out, err)]  # type: ignore[attr-defined]
    return int(code), texts[0], texts[1]

"""The command line: one entry, one file a command, no framework imported until it must be."""

from __future__ import annotations

import gc
import inspect
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from convdyno import __version__
from convdyno.cli import (
    bench,
    certify,
    compare,
    data,
    doctor,
    evaluate,
    gate,
    jobs,
    listing,
    report,
    results,
    show,
    sweep,
    train,
    tune,
    weights,
)
from convdyno.cli.help import GroupedCommand
from convdyno.errors import ConvdynoError, Interrupted, Stopped, UsageError, signal_of
from convdyno.terminal import Unheard, guard


class Commands(TyperGroup):
    """All commands; one that a signal ends says so in a sentence, like any other problem."""

    def make_context(self, *words: Any, **more: Any) -> Any:
        """What was asked for."""
        with _in_a_sentence():
            return super().make_context(*words, **more)

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was asked for."""
        try:
            with _in_a_sentence():
                return super().invoke(ctx)
        except KeyboardInterrupt as end:
            raise Interrupted(signal_of(end), "the same command begins anew") from None


@contextmanager
def _in_a_sentence() -> Iterator[None]:
    """What typer has to say of wrong words, as one sentence like any other; help stays help."""
    try:
        yield
    except Exception as problem:
        # Its class is click's or typer's own, by typer's version.
        said, ctx = getattr(problem, "format_message", None), getattr(problem, "ctx", None)
        if said is None or type(problem).__name__ == "NoArgsIsHelpError":
            raise
        first = str(said()).strip().rstrip(".").replace("\n", " ")
        path = ctx.command_path if ctx else "convdyno"
        see = f". See `{path} --help`" if not first.endswith("?") else f" See `{path} --help`"
        raise UsageError(f"{first[:1].lower()}{first[1:]}{see}") from None


app = typer.Typer(
    name="convdyno",
    cls=Commands,
    help="A dynamometer for convolutional networks: one network, any framework, honest numbers.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
COMMANDS = (
    bench.bench, gate.gate, tune.tune, sweep.sweep, train.train, evaluate.eval_, certify.certify,
    compare.compare, report.report, listing.list_, show.show, doctor.doctor,
)  # fmt: skip
LONG = ("bench", "gate", "tune", "train", "eval")
"""Commands whose whole help is another."""
SHARED = ("bench", "train", "eval")
"""Commands that several ranks run together."""
SIGNS = {"CONVDYNO_RANK", "RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"}
for command in COMMANDS:
    examples = inspect.unwrap(command).__globals__["EXAMPLES"]
    name = command.__name__.rstrip("_")
    kind = GroupedCommand if name in LONG else TyperCommand
    app.command(name=name, cls=kind, epilog=examples)(command)
app.add_typer(data.app, name="data")
app.add_typer(results.app, name="results")
app.add_typer(jobs.app, name="jobs")
app.add_typer(weights.app, name="weights")


@app.callback(invoke_without_command=True)
def _version(
    version: bool = typer.Option(False, "--version", help="Print the version and exit."),
) -> None:
    if version:
        typer.echo(f"convdyno {__version__}")
        raise typer.Exit


def _lent(words: list[str]) -> bool:
    """If this process is one of several ranks and not the first: do what the first one says."""
    if not words or words[0] not in SHARED or not SIGNS & os.environ.keys():
        return False
    from convdyno.app.place import lend_rank

    return lend_rank()


def _heed_signals() -> None:
    """Let what asks a process to end do what Ctrl-C does, unless somebody wants it ignored."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _stop)


def _stop(number: int, _: object) -> None:
    raise Stopped(signal.Signals(number).name)


def main() -> None:
    """Run the command line; problems are one sentence on standard error and an exit code."""
    guard()
    gc.set_threshold(100_000)  # Records have no cycles, and there may be many of them.
    try:
        try:
            if not _lent(sys.argv[1:]):
                _heed_signals()
                app()
        finally:
            sys.stdout.flush()
    except ConvdynoError as problem:
        typer.echo(f"convdyno: {problem}", err=True)
        sys.exit(problem.exit_code)
    except Unheard as why:
        if str(why):
            typer.echo(f"convdyno: standard output cannot be written: {why}", err=True)
            sys.exit(2)
        # The reader of our output left (`| head`): nothing is wrong.
        sys.exit(0)

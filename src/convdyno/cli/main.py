"""The command line: one entry, one file a command, no framework imported until it must be."""

from __future__ import annotations

import os
import sys

import typer

from convdyno import __version__
from convdyno.cli import (
    bench,
    certify,
    compare,
    data,
    data_speed,
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
from convdyno.cli.where import lent
from convdyno.errors import ConvdynoError
from convdyno.terminal import guard

app = typer.Typer(
    name="convdyno",
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
for command in COMMANDS:
    app.command(name=command.__name__.rstrip("_"), epilog=command.__globals__["EXAMPLES"])(command)
data.app.command("speed", epilog=data_speed.EXAMPLES)(data_speed.speed)
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


def main() -> None:
    """Run the command line; problems are one sentence on standard error and an exit code."""
    guard()
    try:
        if not lent(sys.argv[1:]):
            app()
    except ConvdynoError as problem:
        typer.echo(f"convdyno: {problem}", err=True)
        sys.exit(problem.exit_code)
    except BrokenPipeError:
        # The reader of our output left (`| head`): nothing is wrong.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)

"""`convdyno bench`: images per second, with an interval that can be trusted."""

from __future__ import annotations

from typing import Annotated

import typer

from convdyno import app
from convdyno.cli.help import RARE
from convdyno.cli.options import AsJson, Network, Networks, Quiet, asks, echo_json, new_screen
from convdyno.errors import Interrupted, NothingMeasured, UsageError
from convdyno.trial import parse

EXAMPLES = """\b
Examples:
  convdyno bench resnet50
  convdyno bench resnet50 --batch 16,32 --precision fp32,bf16 --budget 3m
  convdyno bench resnet50 --mode infer --latency --json
  convdyno bench resnet50 --data imagenet/ --engine torch,jax
  convdyno bench resnet50 --data imagenet/ --ladder
  convdyno bench deepmnist --data fashion-mnist --stage-from scratch=/mnt/scratch,local=/tmp
  convdyno bench resnet50 --devices 1,2,4
  convdyno bench resnet50 --nodes nodes.txt --per-node 2 --max-devices 8
  convdyno bench resnet50 --devices 1,2,4 --slurm partition=GPU,gres=gpu:k80,time=15 --detach
  convdyno bench --network mypackage.nets:tiny --image-size 64
  convdyno bench resnet50 --preset fast
  convdyno bench resnet50 --label gpu=k80 --label rack=3

\b
Exit codes: 0 done, 2 bad usage or data, 4 nothing was measured, 5 a trial failed,
130 or 143 stopped by Ctrl-C or SIGTERM (128 + the signal).
"""
STYLES = ("convdyno", "nvcnn", "tf-cnn")


@asks(app.BenchRequest, "bench")
def bench(
    request: app.BenchRequest,
    networks: Networks = None,
    network: Network = None,
    detach: Annotated[
        bool,
        typer.Option(
            "--detach",
            help="Submit and return; see `convdyno jobs`.",
            rich_help_panel="Hosts and schedulers" + RARE,
        ),
    ] = False,
    style: Annotated[
        str,
        typer.Option(
            metavar="VALUE",
            help="convdyno, or older lines: nvcnn, tf-cnn",
            rich_help_panel="Output" + RARE,
        ),
    ] = "convdyno",
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Measure how fast networks train or infer, and compare.

    Every option that names a list takes several values with commas; each combination is a cell, and
    cells that differ in one thing are compared.
    """
    parse.one_of("style", STYLES)(style)
    narrator = app.Narrator(quiet=as_json or quiet)
    if "slurm" in request.axes:
        from convdyno.cli.jobs import submit_and_report

        submit_and_report(request, narrator, as_json, detach=detach)
        return
    if request.slurm_module or request.slurm_setup or detach:
        raise UsageError("--detach and the options --slurm-... need --slurm partition=...,...")
    result = app.bench(request, narrator)
    present(result, as_json, style)
    _end(result)


def present(result: app.Result, as_json: bool, style: str = "convdyno") -> None:
    """Print what was measured, and write the files of its scaling curves."""
    from convdyno.report.legacy import STYLES

    if as_json:
        echo_json(result.document())
    elif style in STYLES:
        for cell, record in zip(result.rows, result.records, strict=True):
            typer.echo("\n".join(STYLES[style](cell, record)))
    else:
        screen = new_screen()
        result.show(screen)
        screen.ending(result.out, len(result.records))
    files = result.write_curves()
    if files and not as_json:
        typer.echo(f"\nwritten: {', '.join(map(str, files))}", err=style in STYLES)


def end_badly(result: app.Result) -> None:
    """End with the exit code that refused or failed cells deserve, if there are any."""
    if result.rows and all(row.status == "refused" for row in result.rows):
        raise typer.Exit(2)
    if any(row.status not in ("ok", "interrupted") for row in result.rows):
        raise typer.Exit(5)


def _end(result: app.Result) -> None:
    rows = result.rows
    unmeasured = sum(row.images_per_second is None for row in rows)
    if result.signal is not None:
        raise Interrupted(result.signal, _kept(result, len(rows) - unmeasured))
    end_badly(result)
    if unmeasured:
        which = "nothing" if unmeasured == len(rows) else f"nothing of {unmeasured} cells"
        raise NothingMeasured(
            f"{which} was measured: the budget of {result.budget_seconds:g} s ended before the "
            "first block. Give a longer --budget, a smaller --batch or fewer cells."
        )


def _kept(result: app.Result, measured: int) -> str:
    """What is left of a benchmark that a signal has ended, and how to go on."""
    if not measured:
        return "nothing was measured yet; the same command begins anew"
    cells = f"{measured} of {len(result.rows)} cells" if len(result.rows) > 1 else "the cell"
    return (
        f"what was measured of {cells} is kept in {result.out}, with wider intervals; "
        "the same command begins anew"
    )

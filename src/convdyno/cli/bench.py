"""`convdyno bench`: images per second, with an interval that can be trusted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from convdyno.app.requests import BenchRequest
from convdyno.cli.options import AsJson, Network, Networks, asks
from convdyno.errors import NothingMeasured, UsageError
from convdyno.trial import parse

if TYPE_CHECKING:
    from convdyno.app import Result

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
Exit codes: 0 done, 2 bad usage or data, 4 nothing was measured, 5 a trial failed.
"""
STYLES = ("convdyno", "nvcnn", "tf-cnn")


@asks(BenchRequest, "bench")
def bench(
    request: BenchRequest,
    networks: Networks = None,
    network: Network = None,
    detach: Annotated[
        bool, typer.Option("--detach", help="Submit and return; see `convdyno jobs`.")
    ] = False,
    style: Annotated[
        str, typer.Option(help="Print as: convdyno, or as older tools did: nvcnn, tf-cnn")
    ] = "convdyno",
    as_json: AsJson = False,
) -> None:
    """Measure how fast networks train or infer, and compare settings in pairs.

    Every option that names a list takes several values with commas; each combination is a cell, and
    cells that differ in one thing are compared.
    """
    from convdyno.app import Narrator
    from convdyno.app.benchmark import bench

    parse.one_of("style", STYLES)(style)
    narrator = Narrator(quiet=as_json)
    if "slurm" in request.axes:
        from convdyno.cli.jobs import submit_and_report

        submit_and_report(request, narrator, as_json, detach=detach)
        return
    if request.slurm_module or request.slurm_setup or detach:
        raise UsageError("--detach and the options --slurm-... need --slurm partition=...,...")
    result = bench(request, narrator)
    present(result, as_json, style)
    _end(result)


def present(result: Result, as_json: bool, style: str = "convdyno") -> None:
    """Print what was measured, and write the files of its scaling curves."""
    from convdyno.report.console import Screen
    from convdyno.report.document import to_json
    from convdyno.report.styles import STYLES

    if as_json:
        typer.echo(to_json(result.document()))
    elif style in STYLES:
        for one in result.rows:
            typer.echo("\n".join(STYLES[style](one)))
    else:
        result.show(Screen())
    files = result.write_curves()
    if files and not as_json:
        typer.echo(f"\nwritten: {', '.join(map(str, files))}", err=style in STYLES)


def end_badly(result: Result) -> None:
    """End with the exit code that refused or failed cells deserve, if there are any."""
    if result.rows and all(row.status == "refused" for row in result.rows):
        raise typer.Exit(2)
    if any(row.status not in ("ok", "interrupted") for row in result.rows):
        raise typer.Exit(5)


def _end(result: Result) -> None:
    end_badly(result)
    rows = result.rows
    unmeasured = [row for row in rows if row.images_per_second is None]
    if unmeasured:
        which = "nothing" if len(unmeasured) == len(rows) else f"nothing of {len(unmeasured)} cells"
        raise NothingMeasured(
            f"{which} was measured: the budget of {result.budget_seconds:g} s ended before the "
            "first block. Give a longer --budget, a smaller --batch or fewer cells."
        )

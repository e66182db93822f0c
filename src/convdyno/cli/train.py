"""`convdyno train`: a trained and evaluated network, by the step that is benchmarked."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial
from typing import Annotated

import typer

from convdyno import app
from convdyno.cli import complete
from convdyno.cli.options import AsJson, Quiet, asks, echo_json
from convdyno.errors import Interrupted, TrialFailed

EXAMPLES = """\b
Examples:
  convdyno train deepmnist --data fashion-mnist --epochs 5 --log-dir runs/fm
  convdyno train resnet50 --data imagenet/ --recipe nvcnn-resnet50 --precision fp16
  convdyno train resnet20 --data cifar10 --recipe cifar-fast --until top1=0.90 --seeds 5
  convdyno train resnet50 --data imagenet/ --devices 4

\b
The same command again goes on where it stopped. Exit codes: 0 done, 2 bad usage,
5 training failed, 130 or 143 stopped by Ctrl-C or SIGTERM after saving (128 + the signal).
"""


@asks(app.TrainRequest, "train")
def train(
    request: app.TrainRequest,
    network: Annotated[
        str,
        typer.Argument(
            metavar="NETWORK",
            help="A name, or package.module:function.",
            autocompletion=complete.networks,
        ),
    ],
    data: Annotated[
        str,
        typer.Option(
            metavar="VALUE",
            help="mnist, cifar10, ..., or a path.",
            autocompletion=complete.data,
            rich_help_panel="Data",
        ),
    ],
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Train a network on real data, evaluate and save it.

    A recipe gives every number; each can be given anew. Any engine goes on from, and evaluates, any
    other engine's checkpoints.
    """
    from convdyno.report.training import Watcher, document, kept, summary

    if sys.stderr.isatty():
        request = replace(request, display_seconds=1.0)
    watch = partial(Watcher, quiet=as_json or quiet, table=request.display_every is not None)
    done = app.train(request, watch, app.Narrator(quiet=as_json or quiet))
    if as_json:
        echo_json(document(done.training, done.runs))
    elif request.seeds > 1:
        for line in summary(done.training, done.runs):
            typer.echo(line)
    # End as the runs did: by a signal, with the first failure, or well.
    if "signal" in done.runs[-1]:
        raise Interrupted(done.runs[-1]["signal"], kept(done.runs[-1]))
    for run in done.runs:
        if run["status"] != "finished":
            raise TrialFailed(run["status"], run["reason"])

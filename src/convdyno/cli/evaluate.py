"""`convdyno eval`: what a trained network gets right, counted over all images."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from convdyno import __version__, app
from convdyno.cli.options import AsJson, Quiet, asks, echo_json, new_screen

EXAMPLES = """\b
Examples:
  convdyno eval runs/fm --data fashion-mnist --engine jax
  convdyno eval runs/r50/best.safetensors --data imagenet/ --view centre --json
  convdyno eval runs/r50 --devices 4

\b
Exit codes: 0 done, 2 bad usage, 5 the engine failed, 130 or 143 stopped (128 + the signal).
"""


@asks(app.EvaluateRequest, "eval")
def eval_(
    request: app.EvaluateRequest,
    checkpoint: Annotated[
        Path, typer.Argument(metavar="CHECKPOINT", help="A run's folder, or one of its files.")
    ],
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Evaluate a checkpoint on every test image.

    Top-1, top-5 and loss; each image counts exactly once.
    """
    done = app.evaluate(request, app.Narrator(quiet=as_json or quiet))
    if as_json:
        echo_json({"format": 1, "convdyno": __version__, **done.about, **done.found})
    else:
        done.show(new_screen())

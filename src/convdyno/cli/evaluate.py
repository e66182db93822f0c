"""`convdyno eval`: what a trained network gets right, counted over all images."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from convdyno import __version__, app
from convdyno.cli.options import AsJson, asks, echo_json, new_screen

EXAMPLES = """\b
Examples:
  convdyno eval runs/fm --data fashion-mnist --engine jax
  convdyno eval runs/r50/best.safetensors --data imagenet/ --view centre --json
  convdyno eval runs/r50 --devices 4

\b
Exit codes: 0 done, 2 bad usage, 5 the engine failed.
"""


@asks(app.EvaluateRequest, "eval")
def eval_(
    request: app.EvaluateRequest,
    checkpoint: Annotated[Path, typer.Argument(help="A run's folder, or one of its files.")],
    as_json: AsJson = False,
) -> None:
    """Evaluate a checkpoint: top-1, top-5 and loss over every test image exactly once."""
    done = app.evaluate(request, app.Narrator(quiet=as_json))
    trial = done.trial
    if as_json:
        about = {name: getattr(trial, name) for name in ("network", "engine", "precision", "data")}
        head = {"format": 1, "convdyno": __version__, "checkpoint": str(done.checkpoint)}
        echo_json(head | about | done.found)
    else:
        new_screen().evaluation(str(done.checkpoint), trial, done.found)

"""`convdyno eval`: what a trained network gets right, counted over all images."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from convdyno import __version__
from convdyno.cli import parse
from convdyno.errors import BadWeights, TrialFailed, UsageError

if TYPE_CHECKING:
    from convdyno.launch.crew import Team
    from convdyno.trial.spec import Trial

KEPT = ("network", "image_size", "classes", "width", "resize", "on_bad")
"""What evaluation takes over from training besides what can be given anew."""
EXAMPLES = """\b
Examples:
  convdyno eval runs/fm --data fashion-mnist --engine jax
  convdyno eval runs/r50/best.safetensors --data imagenet/ --view centre --json
  convdyno eval runs/r50 --devices 4

\b
Exit codes: 0 done, 2 bad usage, 5 the engine failed.
"""


def eval_(
    checkpoint: Annotated[Path, typer.Argument(help="A run's folder, or one of its files.")],
    data: Annotated[
        str | None, typer.Option(help="A name or a path; default: what it was trained on.")
    ] = None,
    network: Annotated[
        str | None, typer.Option(help="Your own network, if it is one: package.module:function.")
    ] = None,
    engine: Annotated[
        str | None, typer.Option(help="Any engine; default: the one that trained it.")
    ] = None,
    batch: Annotated[
        int | None, typer.Option(help="Images at a time on each device.", min=1)
    ] = None,
    precision: Annotated[
        str, typer.Option(help="fp32, bf16, fp16; weights are stored in float32.")
    ] = "fp32",
    view: Annotated[
        str | None, typer.Option(help="squash, centre, centre-1.145, whole; default: as trained.")
    ] = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="The weights themselves, not their moving average.")
    ] = False,
    full: Annotated[
        bool, typer.Option("--full", help="Also each class, and which are confused.")
    ] = False,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, mps")] = "auto",
    devices: Annotated[
        str | None, typer.Option(help="How many share the images; the counts are the same.")
    ] = None,
    cores: Annotated[
        str, typer.Option(help="CPU cores of each device; auto: an equal share of all.")
    ] = "auto",
    watchdog: Annotated[str, typer.Option(help="A worker silent for so long has hung.")] = "10m",
    rank_timeout: Annotated[
        str, typer.Option(help="One of several devices that is silent for so long is lost.")
    ] = "20s",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Evaluate a checkpoint: top-1, top-5 and loss over every test image exactly once."""
    from convdyno.blueprint.weight_file import read_header
    from convdyno.cli.cells import look_into
    from convdyno.cli.ranks import shared_out
    from convdyno.cli.where import launcher
    from convdyno.engines import registry
    from convdyno.report.bench_json import to_json
    from convdyno.report.console import Screen
    from convdyno.run.checkpoint import latest, standing_of
    from convdyno.trial.spec import make_trial

    file = latest(checkpoint) if checkpoint.is_dir() else checkpoint
    if file is None:
        raise BadWeights(f"there is no checkpoint in {checkpoint}")
    trained = standing_of(read_header(file)).training.trial
    if (network or trained.network) != trained.network:
        raise BadWeights(f"{file} is a checkpoint of {trained.network}, not of {network}")
    if network is None and ":" in trained.network:
        # A file from elsewhere must not choose which code runs here.
        raise BadWeights(
            f"{file} is a checkpoint of {trained.network}, a network that is not convdyno's: "
            "repeat that name with --network"
        )
    engines = registry.chosen(engine or trained.engine)
    if len(engines) != 1:
        raise UsageError(f"evaluation is by one engine, not by {', '.join(engines)}")
    values: dict[str, Any] = {name: getattr(trained, name) for name in KEPT} | {
        "engine": engines[0],
        "mode": "infer",
        "data": data or trained.data,
        "batch": batch or trained.batch,
        "precision": precision,
        "view": view or trained.view,
        "device": device,
    }
    silence = parse.duration("--watchdog")(watchdog)
    patience = parse.duration("--rank-timeout")(rank_timeout)
    with launcher() as there:
        trial = make_trial(**values, **shared_out(there, devices, cores, device))
        look_into(trial.data, "validation")
        team = there.start(trial, patience)
        found = _evaluate(team, file, trial, silence, not raw, full)
    if as_json:
        about = {name: getattr(trial, name) for name in ("network", "engine", "precision", "data")}
        head = {"format": 1, "convdyno": __version__, "checkpoint": str(file)}
        typer.echo(to_json(head | about | found))
    else:
        Screen().evaluation(str(file), trial, found)


def _evaluate(
    team: Team, file: Path, trial: Trial, silence: float, averaged: bool, full: bool
) -> dict[str, Any]:
    try:
        found = team.ask(
            "evaluate",
            silence=silence,
            checkpoint=str(file),
            trial=trial.model_dump(mode="json"),
            averaged=averaged,
            full=full,
        )
    except TrialFailed as failure:
        if failure.status == "refused":
            raise UsageError(str(failure)) from None
        raise
    finally:
        team.end()
    return {key: value for key, value in found.items() if key != "event"}

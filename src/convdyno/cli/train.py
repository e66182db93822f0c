"""`convdyno train`: a trained and evaluated network, by the step that is benchmarked."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from convdyno.cli import complete, parse
from convdyno.errors import TrialFailed, UsageError

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


def train(
    network: Annotated[
        str,
        typer.Argument(
            help="A name, or package.module:function.", autocompletion=complete.networks
        ),
    ],
    data: Annotated[str, typer.Option(help="mnist, fashion-mnist, cifar10, or a path.")],
    engine: Annotated[
        str | None,
        typer.Option(help="Default: the best installed.", autocompletion=complete.engines),
    ] = None,
    recipe: Annotated[
        str | None,
        typer.Option(
            help="`convdyno list recipes` shows all; default: what is usual.",
            autocompletion=complete.recipes,
        ),
    ] = None,
    log_dir: Annotated[
        Path | None, typer.Option(help="Checkpoints, history, TensorBoard; default: runs/NETWORK.")
    ] = None,
    epochs: Annotated[str | None, typer.Option(help="How often all images are seen.")] = None,
    batch: Annotated[str | None, typer.Option(help="Images per device and step.")] = None,
    precision: Annotated[str | None, typer.Option(help="fp32, bf16, fp16, tf32")] = None,
    loss_scale: Annotated[
        str | None, typer.Option(help="For fp16: a number, or dynamic (the default).")
    ] = None,
    rate: Annotated[
        str | None, typer.Option(help="The base learning rate, as it is (not scaled).")
    ] = None,
    optimiser: Annotated[str | None, typer.Option(help="sgd, adam")] = None,
    momentum: Annotated[str | None, typer.Option(help="Of SGD.")] = None,
    nesterov: Annotated[bool | None, typer.Option(help="Nesterov's momentum.")] = None,
    weight_decay: Annotated[str | None, typer.Option(help="L2.")] = None,
    decay_on: Annotated[
        str | None, typer.Option(help="all, or kernels: no batch norm, no biases")
    ] = None,
    label_smoothing: Annotated[str | None, typer.Option(help="0 to 1.")] = None,
    ema: Annotated[
        str | None, typer.Option(help="Keep of a moving average of the weights: 0.999, or off.")
    ] = None,
    clip_norm: Annotated[
        str | None, typer.Option(help="The largest norm of gradients, or off.")
    ] = None,
    larc_eta: Annotated[str | None, typer.Option(help="LARC's trust coefficient, or off.")] = None,
    larc_mode: Annotated[str | None, typer.Option(help="clip, scale")] = None,
    schedule: Annotated[
        str | None,
        typer.Option(help="constant, cosine, poly, poly:1, or steps:30=0.1;60=0.01"),
    ] = None,
    warmup: Annotated[str | None, typer.Option(help="Epochs in which the rate rises.")] = None,
    warmup_from: Annotated[
        str | None, typer.Option(help="The share of the rate that it begins with.")
    ] = None,
    auxiliary: Annotated[
        bool, typer.Option("--auxiliary", help="Train with the auxiliary heads.")
    ] = False,
    crop: Annotated[str | None, typer.Option(help="nvcnn, inception, torch, pad, whole")] = None,
    view: Annotated[
        str | None, typer.Option(help="In evaluation: squash, centre, centre-1.145, whole")
    ] = None,
    colour: Annotated[str | None, typer.Option(help="off, folded, exact")] = None,
    resize: Annotated[str, typer.Option(help="plain, antialiased")] = "plain",
    image_size: Annotated[str | None, typer.Option(help="224 or 224x160.")] = None,
    num_classes: Annotated[
        str | None, typer.Option("--num-classes", help="Default: what the data have.")
    ] = None,
    width: Annotated[str, typer.Option(help="Multiplies every channel count.")] = "1",
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, mps")] = "auto",
    kernels: Annotated[str, typer.Option(help="native, tuned")] = "native",
    threads: Annotated[str, typer.Option(help="CPU threads; auto: one a core.")] = "auto",
    on_bad: Annotated[str, typer.Option(help="Damaged images: error, skip")] = "error",
    devices: Annotated[
        str | None, typer.Option(help="How many train together, --batch images on each.")
    ] = None,
    cores: Annotated[
        str, typer.Option(help="CPU cores of each device; auto: an equal share of all.")
    ] = "auto",
    exchange: Annotated[str, typer.Option(help="Of gradients: default, horovod")] = "default",
    bucket_mb: Annotated[
        str | None, typer.Option(help="Gradients exchanged at a time, in MB (torch).")
    ] = None,
    compress: Annotated[str, typer.Option(help="Gradients on the wire: none, bf16")] = "none",
    accumulate: Annotated[
        str, typer.Option(help="Parts of a batch that are computed before one exchange.")
    ] = "1",
    seed: Annotated[int, typer.Option(help="Of weights, order and crops.", min=0)] = 0,
    seeds: Annotated[int, typer.Option(help="Repeat with so many seeds.", min=1)] = 1,
    until: Annotated[str | None, typer.Option(help="Stop there: top1=0.90.")] = None,
    eval_every: Annotated[str, typer.Option(help="Epochs between evaluations.")] = "1",
    display_every: Annotated[int | None, typer.Option(help="Steps between lines.", min=1)] = None,
    save_interval: Annotated[str, typer.Option(help="Time between checkpoints.")] = "10m",
    summary_interval: Annotated[str, typer.Option(help="Time between TensorBoard images.")] = "10m",
    keep: Annotated[int, typer.Option(help="Latest checkpoints that stay.", min=1)] = 3,
    watchdog: Annotated[str, typer.Option(help="A worker silent for so long has hung.")] = "10m",
    rank_timeout: Annotated[
        str, typer.Option(help="One of several devices that is silent for so long is lost.")
    ] = "20s",
    resume: Annotated[
        bool, typer.Option("--resume", help="Only go on: an error where nothing was begun.")
    ] = False,
    label: Annotated[
        list[str] | None, typer.Option(help="NAME=VALUE: kept in run.json; may be given again.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Train a network on real data, evaluate it on all test images and save it.

    A recipe gives every number; each can be given anew. Any engine goes on from, and evaluates, any
    other engine's checkpoints.
    """
    from convdyno.cli.follow import run
    from convdyno.cli.recipe import make_training
    from convdyno.cli.where import launcher
    from convdyno.report.bench_json import to_json
    from convdyno.report.training import Watcher, document, summary
    from convdyno.trial.training import Watching

    given = dict(locals())
    watching = Watching(
        display_every=display_every,
        display_seconds=1.0 if sys.stderr.isatty() else 10.0,
        save_seconds=parse.duration("--save-interval")(save_interval),
        summary_seconds=parse.duration("--summary-interval")(summary_interval),
        keep=keep,
    )
    labels = parse.labels(label or ())
    silence = parse.duration("--watchdog")(watchdog)
    patience = parse.duration("--rank-timeout")(rank_timeout)
    whole = log_dir or Path("runs") / network.replace(":", "-")
    numbers = range(seed, seed + seeds)
    folders = {n: whole / f"seed-{n}" if seeds > 1 else whole for n in numbers}
    if resume and not any(list(one.glob("checkpoint-*.safetensors")) for one in folders.values()):
        raise UsageError(f"there is nothing to resume in {whole}")
    runs: list[dict[str, Any]] = []
    with launcher() as there:
        training = make_training(there, given)
        start = partial(there.start, rank_seconds=patience)
        for number, folder in folders.items():
            trial = training.trial.model_copy(update={"seed": number})
            wanted = training.model_copy(update={"trial": trial})
            watcher = Watcher(folder, quiet=as_json, table=display_every is not None)
            runs.append(run(wanted, watching, folder, silence, watcher, start, labels))
            if "signal" in runs[-1]:
                break
    if as_json:
        typer.echo(to_json(document(training, runs)))
    elif seeds > 1:
        for line in summary(training, runs):
            typer.echo(line)
    _exit(runs)


def _exit(runs: list[dict[str, Any]]) -> None:
    """End as the runs did: by a signal, with the first failure, or well."""
    if "signal" in runs[-1]:
        raise typer.Exit(128 + runs[-1]["signal"])
    for run in runs:
        if run["status"] != "finished":
            raise TrialFailed(run["status"], run["reason"])

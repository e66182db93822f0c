"""`convdyno bench`: images per second, with an interval that can be trusted."""

from __future__ import annotations

import shlex
import sys
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from convdyno.cli import complete, parse
from convdyno.cli.preset import with_preset
from convdyno.errors import NothingMeasured, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from convdyno.launch.crew import Launcher
    from convdyno.report import cell as report_cell
    from convdyno.report.comparisons import Certificates
    from convdyno.results.record import Record
    from convdyno.stage.rounds import Cell, Limits
    from convdyno.stats.plan import Goal
    from convdyno.trial.spec import Trial

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
FAR = ("nodes", "per_node", "max_devices", "remote_dir", "python", "ssh_config")
"""Options that say on which hosts it runs."""
ONLY_HERE = (
    "--stage-from copies data on this machine, and --nodes runs elsewhere: copy them there, and "
    "give --data PATH"
)


def bench(
    networks: Annotated[
        str | None,
        typer.Argument(
            metavar="NETWORK",
            help="A name, or a comma list of names.",
            autocompletion=complete.networks,
        ),
    ] = None,
    network: Annotated[
        str | None, typer.Option("--network", help="The same; also package.module:function.")
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(
            help="A comma list, or all; default: the best installed.",
            autocompletion=complete.engines,
        ),
    ] = None,
    mode: Annotated[str, typer.Option(help="train, infer")] = "train",
    batch: Annotated[
        str | None,
        typer.Option(help="Images per device, or max; default: what suits the network."),
    ] = None,
    precision: Annotated[str, typer.Option(help="fp32, bf16, fp16, tf32")] = "fp32",
    layout: Annotated[str, typer.Option(help="auto, nchw, nhwc")] = "auto",
    compiled: Annotated[str, typer.Option("--compile", help="auto, on, off")] = "auto",
    kernels: Annotated[
        str, typer.Option(help="native (what users write), tuned (our fastest form; JAX on CPU)")
    ] = "native",
    feed: Annotated[
        str, typer.Option(help="For Keras: batch (train_on_batch), fit (model.fit)")
    ] = "batch",
    threads: Annotated[str, typer.Option(help="CPU threads; auto: one a core.")] = "auto",
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, mps")] = "auto",
    image_size: Annotated[
        str | None, typer.Option(help="224 or 224x160; default: the network's own.")
    ] = None,
    classes: Annotated[str | None, typer.Option(help="Number of classes.")] = None,
    width: Annotated[str, typer.Option(help="Multiplies every channel count.")] = "1",
    data: Annotated[
        str, typer.Option(help="synthetic, synthetic-host, mnist, cifar10, ..., or a path.")
    ] = "synthetic",
    ladder: Annotated[
        bool, typer.Option("--ladder", help="With real data: where the time goes, part by part.")
    ] = False,
    stage_from: Annotated[
        str | None,
        typer.Option(help="LABEL=FOLDER,...: copy the data there first; storage as an axis."),
    ] = None,
    loader: Annotated[
        str, typer.Option(help="own, native (tf.data, or torch's DataLoader with PIL)")
    ] = "own",
    decoder: Annotated[str, typer.Option(help="auto, native, simplejpeg")] = "auto",
    crop: Annotated[
        str, typer.Option(help="In training: auto, nvcnn, inception, torch, pad, whole")
    ] = "auto",
    view: Annotated[
        str, typer.Option(help="In inference: auto, squash, centre, centre-1.145, whole")
    ] = "auto",
    resize: Annotated[str, typer.Option(help="plain, antialiased")] = "plain",
    colour: Annotated[str, typer.Option(help="Random colours: off, folded, exact")] = "off",
    input_threads: Annotated[
        str, typer.Option(help="Threads that decode; auto: one a core.")
    ] = "auto",
    prefetch: Annotated[str, typer.Option(help="Batches that may be ready ahead.")] = "4",
    on_bad: Annotated[str, typer.Option(help="Damaged images: error, skip")] = "error",
    optimiser: Annotated[
        str | None, typer.Option(help="sgd, adam; default: the network's own.")
    ] = None,
    rate: Annotated[str | None, typer.Option(help="The learning rate.")] = None,
    loss_scale: Annotated[
        str | None, typer.Option(help="For fp16: a number, or dynamic (the default).")
    ] = None,
    auxiliary: Annotated[
        bool, typer.Option("--auxiliary", help="Train with the auxiliary heads.")
    ] = False,
    latency: Annotated[
        bool, typer.Option("--latency", help="Wait after, and time, every single step.")
    ] = False,
    devices: Annotated[
        str | None, typer.Option(help="How many run together; a list gives the scaling curve.")
    ] = None,
    scaling: Annotated[
        str, typer.Option(help="weak: --batch is each device's; strong: all devices'.")
    ] = "weak",
    exchange: Annotated[
        str, typer.Option(help="Of gradients: default, independent (none), horovod")
    ] = "default",
    bucket_mb: Annotated[
        str | None, typer.Option(help="Gradients exchanged at a time, in MB (torch).")
    ] = None,
    compress: Annotated[str, typer.Option(help="Gradients on the wire: none, bf16")] = "none",
    accumulate: Annotated[
        str, typer.Option(help="Parts of a batch that are computed before one exchange.")
    ] = "1",
    processes: Annotated[
        str, typer.Option(help="One for each device, or for each host: device, host")
    ] = "device",
    cores: Annotated[
        str, typer.Option(help="CPU cores of each device; auto: an equal share of all.")
    ] = "auto",
    seed: Annotated[int, typer.Option(help="Of weights and images.", min=0)] = 0,
    within: Annotated[str, typer.Option(help="Stop when the interval is so narrow.")] = "3%",
    budget: Annotated[str, typer.Option(help="Stop after this time: 90s, 5m, 1h.")] = "5m",
    rounds: Annotated[int, typer.Option(help="Fresh processes per cell, at least.", min=1)] = 3,
    watchdog: Annotated[
        str, typer.Option(help="A worker that is silent for so long has hung.")
    ] = "5m",
    rank_timeout: Annotated[
        str, typer.Option(help="One of several devices that is silent for so long is lost.")
    ] = "20s",
    nodes: Annotated[
        Path | None, typer.Option(help="A file of hosts, `NAME SSH-ALIAS` a line: run there.")
    ] = None,
    per_node: Annotated[int, typer.Option(help="Devices of each host.", min=1)] = 1,
    max_devices: Annotated[
        int | None, typer.Option(help="Count devices 1, 2, 4, ... up to this.", min=1)
    ] = None,
    remote_dir: Annotated[
        str | None, typer.Option(help="Where convdyno is put there; default ~/.cache/convdyno.")
    ] = None,
    python: Annotated[
        str | None, typer.Option(help="The Python to use there; default: found or made.")
    ] = None,
    ssh_config: Annotated[
        Path | None, typer.Option(help="What ssh reads instead of ~/.ssh/config.")
    ] = None,
    slurm: Annotated[
        list[str] | None,
        typer.Option(help="partition=P,gres=gpu:k80,time=15,...: cells as jobs; again: an axis."),
    ] = None,
    slurm_module: Annotated[
        list[str] | None, typer.Option(help="A module that jobs load; may be given again.")
    ] = None,
    slurm_setup: Annotated[
        Path | None, typer.Option(help="A file of bash that jobs read first.")
    ] = None,
    detach: Annotated[
        bool, typer.Option("--detach", help="Submit and return; see `convdyno jobs`.")
    ] = False,
    preset: Annotated[
        str | None, typer.Option(help="Settings that `tune` has found, where none are given.")
    ] = None,
    label: Annotated[
        list[str] | None, typer.Option(help="NAME=VALUE: kept in the records; may be given again.")
    ] = None,
    out: Annotated[Path, typer.Option(help="The folder of the records.")] = Path("results"),
    style: Annotated[
        str, typer.Option(help="Print as: convdyno, or as older tools did: nvcnn, tf-cnn")
    ] = "convdyno",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Measure how fast networks train or infer, and compare settings in pairs.

    Every option that names a list takes several values with commas; each combination is a cell, and
    cells that differ in one thing are compared.
    """
    given = with_preset(dict(locals()) | {"compile": compiled})
    given["networks"] = one_of_two(given["networks"], given["network"])
    parse.one_of("style", ("convdyno", "nvcnn", "tf-cnn"))(style)
    if slurm or slurm_module or slurm_setup or detach:
        from convdyno.cli.slurm import bench_jobs

        how(given)
        bench_jobs(given)
        return
    cells, certificates, limits = measured(given, shlex.join(["convdyno", *sys.argv[1:]]))
    _report(cells, certificates, limits, out, as_json, style)


def measured(given: dict[str, Any], command: str) -> tuple[list[Cell], Certificates, Limits]:
    """Measure what the options say; `command` is what repeats it."""
    from convdyno.cli.largest import trials_that_fit
    from convdyno.cli.where import launcher

    goal, limits, patience = how(given)
    labels, out, quiet = parse.labels(given["label"] or ()), given["out"], given["as_json"]
    with launcher(**{name: given[name] for name in FAR}, out=out, quiet=quiet) as there:
        trials = trials_that_fit(there, given)
        certificates = certificates_of(trials, out, quiet)
        far = given["nodes"] is not None
        with _staged(trials, given["stage_from"], quiet, far) as placed:
            there.check(placed)
            about = {"command": command, "labels": labels, "preset": given.get("used_preset")}
            cells = _run(placed, goal, limits, there, patience, out, quiet, about)
    return cells, certificates, limits


def how(given: dict[str, Any]) -> tuple[Goal, Limits, float]:
    """How precisely and how long to measure, and how long one of several devices may be silent."""
    from convdyno.stage.rounds import Limits
    from convdyno.stats.plan import Goal

    parse.labels(given["label"] or ())
    goal = Goal(parse.share("--within")(given["within"]), minimum_rounds=given["rounds"])
    seconds = [parse.duration(f"--{name}")(given[name]) for name in ("budget", "watchdog")]
    return goal, Limits(*seconds), parse.duration("--rank-timeout")(given["rank_timeout"])


def one_of_two(positional: str | None, option: str | None) -> str:
    """The network, which is given in one of two ways."""
    if positional and option:
        raise UsageError(f"the network is given twice: {positional!r} and --network {option!r}")
    if not (positional or option):
        raise UsageError("which network? `convdyno list networks` shows all; try resnet50")
    return positional or option or ""


@contextmanager
def _staged(
    trials: list[Trial], words: str | None, quiet: bool, far: bool
) -> Iterator[list[Trial]]:
    """The cells once for each storage, their data copied there for as long as they run."""
    if words is None:
        yield trials
        return
    from convdyno.cli.cells import look_into, split_of
    from convdyno.data import SOURCES
    from convdyno.data.staging import staged

    folders = parse.labelled("--stage-from", words)
    if far:
        raise UsageError(ONLY_HERE)
    if any(trial.data in SOURCES for trial in trials):
        raise UsageError("--stage-from copies real data: give them with --data PATH")
    paths = {trial: look_into(trial.data, split_of(trial))[0].path for trial in trials}
    with ExitStack() as kept:
        copies = {}
        for path in dict.fromkeys(paths.values()):
            for label, folder in folders.items():
                if not quiet:
                    typer.echo(f"copying {path} to {folder} ({label}) ...", err=True)
                copies[path, label] = kept.enter_context(staged(path, Path(folder)))
        yield [
            trial.model_copy(update={"staged": f"{label}={copies[path, label]}"})
            for trial, path in paths.items()
            for label in folders
        ]


def _run(
    trials: list[Trial], goal: Goal, limits: Limits, there: Launcher, patience: float, out: Path,
    quiet: bool, about: dict[str, Any],
) -> list[Cell]:  # fmt: skip
    """Measure the cells; Ctrl-C ends the workers and keeps what was measured."""
    from convdyno.results.record import new_record
    from convdyno.results.store import Store
    from convdyno.stage.progress import Narrator
    from convdyno.stage.rounds import Cell, Stage

    store = Store(out)
    store.prepare()
    machine = there.machine()
    cells = [
        Cell(new_record(trial, machine=machine, **about), there.alone(trial)) for trial in trials
    ]
    start = partial(there.start, rank_seconds=patience)
    narrator = Narrator()
    if not quiet:
        narrator.plan(len(cells), goal.minimum_rounds, goal.within, limits.budget_seconds)
    try:
        Stage(cells, goal, limits, store, narrator, start).run()
    except KeyboardInterrupt:
        narrator.say("interrupted: the workers were ended, finished turns are kept")
    finally:
        narrator.clear()
    return cells


def certificates_of(trials: list[Trial], out: Path, quiet: bool) -> Certificates:
    """Before engines are compared: the proofs that they compute the same, stored or made now."""
    from convdyno.cli.certify import certificates
    from convdyno.engines import registry
    from convdyno.results.store import Store

    store = Store(out)
    store.prepare()
    able = set(registry.installed_frameworks())
    wanted: dict[str, set[tuple[str, str]]] = {}
    for trial in trials:
        if trial.engine in able:
            wanted.setdefault(trial.network, set()).add((trial.engine, trial.kernels))
    found = {}
    for network, pairs in wanted.items():
        for kernels in sorted({kernels for _, kernels in pairs}) if len(pairs) > 1 else ():
            engines = sorted(engine for engine, kind in pairs if kind == kernels)
            if not quiet:
                typer.echo(f"certifying {network}: {', '.join(engines)} ...", err=True)
            (found[network, kernels],) = certificates([network], engines, kernels, store)
    return found


def _report(
    cells: list[Cell], certificates: Certificates, limits: Limits, out: Path, as_json: bool,
    style: str,
) -> None:  # fmt: skip
    rows = present([cell.record for cell in cells], certificates, out, as_json, style)
    if all(row.status == "refused" for row in rows):
        raise typer.Exit(2)
    if any(row.status not in ("ok", "interrupted") for row in rows):
        raise typer.Exit(5)
    unmeasured = [row for row in rows if row.images_per_second is None]
    if unmeasured:
        which = "nothing" if len(unmeasured) == len(rows) else f"nothing of {len(unmeasured)} cells"
        raise NothingMeasured(
            f"{which} was measured: the budget of {limits.budget_seconds:g} s ended before the "
            "first block. Give a longer --budget, a smaller --batch or fewer cells."
        )


def present(
    records: list[Record], certificates: Certificates, out: Path, as_json: bool,
    style: str = "convdyno",
) -> list[report_cell.Cell]:  # fmt: skip
    """Print what was measured, and write the files of its scaling curves."""
    from convdyno.report.bench_json import bench_document, to_json
    from convdyno.report.cell import cell_of
    from convdyno.report.comparisons import compare_cells
    from convdyno.report.console import Screen
    from convdyno.report.ladders import climbed
    from convdyno.report.legacy import STYLES
    from convdyno.report.scaling import curves
    from convdyno.report.scaling_files import write_curves

    shown = [cell_of(record) for record in records]
    compared = compare_cells(shown, certificates)
    ladders, scaled = climbed(shown), curves(shown)
    if as_json:
        typer.echo(to_json(bench_document(shown, compared, ladders, out, scaled)))
    elif style in STYLES:
        for cell, record in zip(shown, records, strict=True):
            typer.echo("\n".join(STYLES[style](cell, record)))
    else:
        Screen().bench(shown, compared, ladders, scaled)
    files = [str(file) for file in write_curves(scaled, out) if file.suffix in (".svg", ".csv")]
    if files and not as_json:
        typer.echo(f"\nwritten: {', '.join(files)}", err=style in STYLES)
    return shown

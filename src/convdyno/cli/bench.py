"""`convdyno bench`: images per second, with an interval that can be trusted."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from convdyno.cli import parse
from convdyno.errors import NothingMeasured, UsageError

if TYPE_CHECKING:
    from convdyno.report.document import Certificates
    from convdyno.stage.rounds import Cell, Limits
    from convdyno.stats.plan import Goal
    from convdyno.trial.spec import Trial

EXAMPLES = """\b
Examples:
  convdyno bench resnet50
  convdyno bench resnet50 --batch 16,32 --precision fp32,bf16 --budget 3m
  convdyno bench resnet50 --mode infer --latency --json
  convdyno bench --network mypackage.nets:tiny --image-size 64
\b
Exit codes: 0 done, 2 bad usage, 4 nothing was measured, 5 a trial failed.
"""


def bench(
    networks: Annotated[
        str | None, typer.Argument(metavar="NETWORK", help="A name, or a comma list of names.")
    ] = None,
    network: Annotated[
        str | None, typer.Option("--network", help="The same; also package.module:function.")
    ] = None,
    engine: Annotated[
        str | None, typer.Option(help="A comma list, or all; default: the best installed.")
    ] = None,
    mode: Annotated[str, typer.Option(help="train, infer")] = "train",
    batch: Annotated[
        str | None, typer.Option(help="Images per device; default: what suits the network.")
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
    data: Annotated[str, typer.Option(help="synthetic, synthetic-host")] = "synthetic",
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
    seed: Annotated[int, typer.Option(help="Of weights and images.", min=0)] = 0,
    within: Annotated[str, typer.Option(help="Stop when the interval is so narrow.")] = "3%",
    budget: Annotated[str, typer.Option(help="Stop after this time: 90s, 5m, 1h.")] = "5m",
    rounds: Annotated[int, typer.Option(help="Fresh processes per cell, at least.", min=1)] = 3,
    watchdog: Annotated[
        str, typer.Option(help="A worker that is silent for so long has hung.")
    ] = "5m",
    out: Annotated[Path, typer.Option(help="The folder of the records.")] = Path("results"),
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Measure how fast networks train or infer, and compare settings in pairs.

    Every option that names a list takes several values with commas; each combination is a cell, and
    cells that differ in one thing are compared.
    """
    from convdyno.stage.rounds import Limits
    from convdyno.stats.plan import Goal

    goal = Goal(within=parse.share("--within")(within), minimum_rounds=rounds)
    limits = Limits(parse.duration("--budget")(budget), parse.duration("--watchdog")(watchdog))
    trials = _trials(
        networks=_one_of_two(networks, network),
        engine=engine,
        mode=mode,
        batch=batch,
        precision=precision,
        layout=layout,
        compile=compiled,
        kernels=kernels,
        feed=feed,
        threads=threads,
        device=device,
        image_size=image_size,
        classes=classes,
        width=width,
        data=data,
        optimiser=optimiser,
        rate=rate,
        loss_scale=loss_scale,
        auxiliary=auxiliary,
        latency=latency,
        seed=seed,
    )
    certificates = _certificates(trials, out, as_json)
    _report(_run(trials, goal, limits, out, as_json), certificates, limits, out, as_json)


def _one_of_two(positional: str | None, option: str | None) -> str:
    if positional and option:
        raise UsageError(f"the network is given twice: {positional!r} and --network {option!r}")
    if not (positional or option):
        raise UsageError("which network? `convdyno list networks` shows all; try resnet50")
    return positional or option or ""


def _trials(**words: Any) -> list[Trial]:
    """The cells that the options make, each checked as far as it can be without a framework."""
    from convdyno.data import SOURCES
    from convdyno.engines import registry
    from convdyno.trial import spec
    from convdyno.trial.sweep import expand
    from convdyno.zoo.registry import build, find

    def choice(name: str, kind: Any) -> list[str]:
        return parse.several(words[name], parse.one_of(name, get_args(kind)))

    def optional(name: str, read: Any) -> list[Any]:
        return parse.several(words[name], read) if words[name] is not None else [None]

    cells = []
    for name in dict.fromkeys(parse.several(words["networks"], str)):
        network = find(name)
        axes = {
            "network": [name],
            "engine": registry.chosen(words["engine"]),
            "mode": choice("mode", spec.Mode),
            "batch": optional("batch", parse.whole("--batch")),
            "precision": choice("precision", spec.Precision),
            "layout": choice("layout", spec.Layout),
            "compile": choice("compile", spec.Switch),
            "kernels": choice("kernels", spec.Kernels),
            "feed": choice("feed", spec.Feed),
            "threads": parse.several(
                words["threads"], lambda w: None if w == "auto" else parse.whole("--threads")(w)
            ),
            "device": parse.several(words["device"], str),
            "image_size": optional("image_size", parse.image_size),
            "classes": optional("classes", parse.whole("--classes", 2)),
            "width": parse.several(words["width"], parse.number("--width")),
            "data": parse.several(words["data"], parse.one_of("data source", list(SOURCES))),
            "optimiser": [_optimiser(words, network.optimiser)],
            "loss_scale": optional("loss_scale", _loss_scale),
            "auxiliary": [words["auxiliary"]],
            "latency": [words["latency"]],
            "seed": [words["seed"]],
        }
        if axes["batch"] == [None]:
            axes["batch"] = [network.batch]
        cells += expand(axes)
    for trial in cells:
        build(trial.network, trial.image_size, trial.classes, trial.width, trial.auxiliary)
    return cells


def _optimiser(words: dict[str, Any], own: str) -> dict[str, Any]:
    kind = parse.one_of("optimiser", ("sgd", "adam"))(words["optimiser"] or own)
    rate = parse.number("--rate")(words["rate"]) if words["rate"] is not None else None
    default = {"sgd": 1e-3, "adam": 1e-4}[kind]
    return {"kind": kind, "rate": default if rate is None else rate}


def _loss_scale(word: str) -> float | str:
    return word if word == "dynamic" else parse.number("--loss-scale")(word)


def _run(trials: list[Trial], goal: Goal, limits: Limits, out: Path, quiet: bool) -> list[Cell]:
    """Measure the cells; Ctrl-C ends the workers and keeps what was measured."""
    from convdyno.results import facts
    from convdyno.results.record import new_record
    from convdyno.results.store import Store
    from convdyno.stage.narrator import Narrator
    from convdyno.stage.rounds import Cell, Stage

    store = Store(out)
    store.prepare()
    machine, command = facts.machine(), shlex.join(["convdyno", *sys.argv[1:]])
    cells = [Cell(new_record(trial, machine=machine, command=command)) for trial in trials]
    narrator = Narrator()
    if not quiet:
        narrator.plan(len(cells), goal.minimum_rounds, goal.within, limits.budget_seconds)
    try:
        Stage(cells, goal, limits, store, narrator).run()
    except KeyboardInterrupt:
        narrator.say("interrupted: the workers were ended, finished turns are kept")
    finally:
        narrator.clear()
    return cells


def _certificates(trials: list[Trial], out: Path, quiet: bool) -> Certificates:
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
    cells: list[Cell], certificates: Certificates, limits: Limits, out: Path, as_json: bool
) -> None:
    from convdyno.report.console import Screen
    from convdyno.report.document import bench_document, compare_records, to_json
    from convdyno.report.rows import row

    rows = [row(cell.record) for cell in cells]
    compared = compare_records([cell.record for cell in cells], certificates)
    if as_json:
        typer.echo(to_json(bench_document(rows, compared, out)))
    else:
        Screen().bench(rows, compared)
    if any(row.status not in ("ok", "interrupted") for row in rows):
        raise typer.Exit(5)
    unmeasured = [row for row in rows if row.images_per_second is None]
    if unmeasured:
        which = "nothing" if len(unmeasured) == len(rows) else f"nothing of {len(unmeasured)} cells"
        raise NothingMeasured(
            f"{which} was measured: the budget of {limits.budget_seconds:g} s ended before the "
            "first block. Give a longer --budget, a smaller --batch or fewer cells."
        )

"""`convdyno train`: a trained and evaluated network, by the step that is benchmarked."""

from __future__ import annotations

import shlex
import signal
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from convdyno.cli import parse
from convdyno.errors import BadStore, TrialFailed, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from convdyno.launch.local import LocalWorker
    from convdyno.report.training import Watcher
    from convdyno.results.runs import RunRecord, Status
    from convdyno.trial.recipes import Recipe
    from convdyno.trial.schedule import Schedule
    from convdyno.trial.training import Training, Watching

EXAMPLES = """\b
Examples:
  convdyno train deepmnist --data fashion-mnist --epochs 5 --log-dir runs/fm
  convdyno train resnet50 --data imagenet/ --recipe nvcnn-resnet50 --precision fp16
  convdyno train resnet20 --data cifar10 --recipe cifar-fast --until top1=0.90 --seeds 5
\b
The same command again goes on where it stopped. Exit codes: 0 done, 2 bad usage,
5 training failed, 130 or 143 stopped by Ctrl-C or SIGTERM after saving (128 + the signal).
"""


def train(
    network: Annotated[str, typer.Argument(help="A name, or package.module:function.")],
    data: Annotated[str, typer.Option(help="mnist, fashion-mnist, cifar10, or a path.")],
    engine: Annotated[str | None, typer.Option(help="Default: the best installed.")] = None,
    recipe: Annotated[
        str | None, typer.Option(help="`convdyno list recipes` shows all; default: what is usual.")
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
    seed: Annotated[int, typer.Option(help="Of weights, order and crops.", min=0)] = 0,
    seeds: Annotated[int, typer.Option(help="Repeat with so many seeds.", min=1)] = 1,
    until: Annotated[str | None, typer.Option(help="Stop there: top1=0.90.")] = None,
    eval_every: Annotated[str, typer.Option(help="Epochs between evaluations.")] = "1",
    display_every: Annotated[int | None, typer.Option(help="Steps between lines.", min=1)] = None,
    save_interval: Annotated[str, typer.Option(help="Time between checkpoints.")] = "10m",
    summary_interval: Annotated[str, typer.Option(help="Time between TensorBoard images.")] = "10m",
    keep: Annotated[int, typer.Option(help="Latest checkpoints that stay.", min=1)] = 3,
    watchdog: Annotated[str, typer.Option(help="A worker silent for so long has hung.")] = "10m",
    resume: Annotated[
        bool, typer.Option("--resume", help="Only go on: an error where nothing was begun.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Train a network on real data, evaluate it on all test images and save it.

    A recipe gives every number; each can be given anew. Any engine goes on from, and evaluates, any
    other engine's checkpoints.
    """
    from convdyno.report.document import to_json
    from convdyno.report.training import Watcher, document, summary
    from convdyno.trial.training import Watching

    given = dict(locals())
    training = make_training(given)
    watching = Watching(
        display_every=display_every,
        display_seconds=1.0 if sys.stderr.isatty() else 10.0,
        save_seconds=parse.duration("--save-interval")(save_interval),
        summary_seconds=parse.duration("--summary-interval")(summary_interval),
        keep=keep,
    )
    silence = parse.duration("--watchdog")(watchdog)
    whole = log_dir or Path("runs") / network.replace(":", "-")
    numbers = range(seed, seed + seeds)
    folders = {n: whole / f"seed-{n}" if seeds > 1 else whole for n in numbers}
    if resume and not any(list(one.glob("checkpoint-*.safetensors")) for one in folders.values()):
        raise UsageError(f"there is nothing to resume in {whole}")
    runs: list[dict[str, Any]] = []
    for number, folder in folders.items():
        trial = training.trial.model_copy(update={"seed": number})
        wanted = training.model_copy(update={"trial": trial})
        watcher = Watcher(folder, quiet=as_json, table=display_every is not None)
        runs.append(_run(wanted, watching, folder, silence, watcher))
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


def make_training(given: dict[str, Any]) -> Training:
    """The recipe with everything that was given anew, fitted to the data."""
    from convdyno.cli.cells import look_into
    from convdyno.data.recognise import splits
    from convdyno.engines import registry
    from convdyno.trial import recipes
    from convdyno.trial.spec import make_trial
    from convdyno.trial.training import Training
    from convdyno.zoo.registry import build, find

    entry = find(given["network"])
    chosen = (
        recipes.find(given["recipe"])
        if given["recipe"]
        else recipes.suitable(given["network"], given["data"])
    )
    facts, _ = look_into(given["data"], "train")
    engines = registry.chosen(given["engine"])
    if len(engines) != 1:
        raise UsageError(f"training is by one engine, not by {', '.join(engines)}")
    words = {
        name: given[name] if given[name] is not None else getattr(chosen, name)
        for name in ("precision", "crop", "view", "colour")
    }
    batch = _read(given, "batch", parse.whole("--batch")) or chosen.batch or entry.batch
    classes = _read(given, "num_classes", parse.whole("--num-classes", 2))
    if classes is not None and classes < len(facts.classes):
        raise UsageError(
            f"{given['data']} has {len(facts.classes)} classes, more than --num-classes {classes}"
        )
    if given["until"] is not None and "validation" not in splits(given["data"]):
        raise UsageError(f"--until needs test images, and {given['data']} has none")
    scale = given["loss_scale"]
    if scale is None:
        scale = chosen.loss_scale if words["precision"] == "fp16" else None
    elif scale != "dynamic":
        scale = parse.number("--loss-scale")(scale)
    trial = make_trial(
        network=given["network"],
        engine=engines[0],
        batch=batch,
        data=given["data"],
        classes=classes or max(2, len(facts.classes)),
        loss_scale=scale,
        optimiser=_optimiser(given, chosen, batch),
        auxiliary=given["auxiliary"],
        resize=given["resize"],
        image_size=_read(given, "image_size", parse.image_size),
        width=parse.number("--width")(given["width"]),
        device=given["device"],
        kernels=given["kernels"],
        threads=None if given["threads"] == "auto" else parse.whole("--threads")(given["threads"]),
        on_bad=given["on_bad"],
        seed=given["seed"],
        **words,
    )
    build(trial.network, trial.image_size, trial.classes, trial.width, trial.auxiliary)
    epochs = _read(given, "epochs", parse.number("--epochs")) or chosen.epochs
    return Training(
        trial=trial,
        recipe=chosen.name,
        epochs=epochs,
        schedule=_schedule(given, chosen, batch),
        evaluate_every=parse.number("--eval-every")(given["eval_every"]),
        until=_target(given["until"]),
    )


def _read(given: dict[str, Any], name: str, read: Any) -> Any:
    return None if given[name] is None else read(given[name])


def _optimiser(given: dict[str, Any], recipe: Recipe, batch: int) -> dict[str, Any]:
    from convdyno.trial import spec

    rule = recipe.optimiser.model_dump()
    rule["rate"] = recipe.rate(batch)
    if given["optimiser"] is not None:
        rule["kind"] = parse.one_of("optimiser", get_args(spec.OptimiserKind))(given["optimiser"])
    for name in (*NUMBERS, *SWITCHES):
        word, option = given[name], f"--{name.replace('_', '-')}"
        if word == "off" and name in SWITCHES:
            rule[name] = None
        elif word is not None:
            zero = name in ("momentum", "weight_decay", "label_smoothing")
            rule[name] = parse.number(option, zero=zero)(word)
    for name in ("nesterov", "decay_on", "larc_mode"):
        if given[name] is not None:
            rule[name] = given[name]
    return rule


NUMBERS = ("rate", "momentum", "weight_decay", "label_smoothing")
SWITCHES = ("ema", "clip_norm", "larc_eta")
"""Numbers of an update rule that may also be off."""
SCHEDULES = ("constant", "poly", "cosine", "steps")


def _schedule(given: dict[str, Any], recipe: Recipe, batch: int) -> Schedule:
    made = recipe.schedule_for(batch)
    if given["schedule"] is not None:
        made = made.model_copy(update=_course(given["schedule"]))
    warm = {
        name: parse.number(f"--{name.replace('_', '-')}", zero=True)(given[name])
        for name in ("warmup", "warmup_from")
        if given[name] is not None
    }
    return made.model_copy(update=warm)


def _course(word: str) -> dict[str, Any]:
    """`cosine`, `poly:1` or `steps:30=0.1;60=0.01` as fields of a schedule."""
    kind, colon, rest = word.partition(":")
    kind = parse.one_of("schedule", SCHEDULES)(kind)
    if kind == "poly" and colon:
        return {"kind": kind, "power": parse.number("--schedule poly:")(rest)}
    if kind == "steps":
        number = parse.number("--schedule steps:", zero=True)
        pairs = [part.partition("=") for part in rest.split(";")]
        at = tuple((number(epoch), number(times)) for epoch, _, times in pairs)
        epochs = [epoch for epoch, _ in at]
        if epochs != sorted(set(epochs)):
            raise UsageError(f"the epochs of --schedule must rise, and in {word!r} they do not")
        return {"kind": kind, "at": at}
    if colon:
        raise UsageError(f"--schedule {kind} takes nothing after a colon, not {rest!r}")
    return {"kind": kind}


def _target(word: str | None) -> float | None:
    if word is None:
        return None
    name, _, value = word.partition("=")
    if name != "top1" or not value:
        raise UsageError(f"--until is a target such as top1=0.90, not {word!r}")
    return parse.share("--until")(value)


def _run(
    training: Training, watching: Watching, folder: Path, silence: float, watcher: Watcher
) -> dict[str, Any]:
    """One run in a worker of its own, and its record; a failure is a status with a reason."""
    from convdyno.results import facts, runs
    from convdyno.trial.recipes import RECIPES

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as wrong:
        raise UsageError(f"--log-dir {folder} cannot be made: {wrong.strerror}") from None
    about = {"folder": str(folder), "seed": training.trial.seed}
    command = shlex.join(["convdyno", *sys.argv[1:]])
    with runs.claimed(folder):
        record = runs.begin(
            folder, training, watching, RECIPES.get(training.recipe), command, facts.machine()
        )
        watcher.start(training)
        begun: dict[str, Any] = {}
        try:
            ended = _follow(training, watching, folder, silence, watcher, begun)
        except TrialFailed as failure:
            ended = {"status": failure.status, "reason": str(failure)}
        _close(record, folder, ended, begun, watcher)
    if ended["status"] == "refused":
        raise UsageError(ended["reason"])
    return about | {"versions": begun.get("versions")} | ended


def _follow(
    training: Training, watching: Watching, folder: Path, silence: float, watcher: Watcher,
    begun: dict[str, Any],
) -> dict[str, Any]:  # fmt: skip
    """What a worker says, to its end; signals make it save and stop."""
    from convdyno.launch.local import LocalWorker, environment

    worker = LocalWorker(environment(training.trial))
    try:
        with _passing_on(worker, begun) as signals:
            events = worker.events(
                "train",
                silence=silence,
                training=training.model_dump(mode="json"),
                watching=watching.model_dump(mode="json"),
                folder=str(folder),
            )
            try:
                for event in events:
                    if event["event"] == "begun":
                        begun.update(event)
                    watcher.see(event)
                    if event["event"] == "trained":
                        break
            except (TrialFailed, _Stopped):
                if not signals:
                    raise
                return {"status": "stopped", "signal": signals[0], "reason": _by(signals[0])}
    finally:
        watcher.end()
        worker.end()
    result = {name: value for name, value in event.items() if name != "event"}
    if event["finished"]:
        return {"status": "finished", "reason": "", **result}
    number = signals[0] if signals else signal.SIGTERM
    return {"status": "stopped", "signal": int(number), "reason": _by(number), **result}


def _close(
    record: RunRecord, folder: Path, ended: dict[str, Any], begun: dict[str, Any], watcher: Watcher
) -> None:
    """Write how a run ended; a disk that is full by now is no reason to fail."""
    status: Status = ended["status"]
    network = {name: begun[name] for name in ("digest", "parameters", "macs") if name in begun}
    whole = record.ended(
        status,
        ended["reason"],
        step=ended.get("step"),
        versions=begun.get("versions", {}),
        network=network,
    )
    result = {k: v for k, v in ended.items() if k not in ("status", "reason", "signal")}
    try:
        whole.model_copy(update={"result": result or None}).write(folder)
    except BadStore as wrong:
        watcher.warn(str(wrong))


class _Stopped(Exception):
    """A signal that there is nothing to save for."""


@contextmanager
def _passing_on(worker: LocalWorker, begun: dict[str, Any]) -> Iterator[list[int]]:
    """Signals that mean "stop soon" reach a worker that trains; a second Ctrl-C is final."""
    seen: list[int] = []

    def pass_on(number: int, _: object) -> None:
        again = number == signal.SIGINT and number in seen
        seen.append(number)
        if again or not begun:
            raise _Stopped
        worker.nudge()

    before = {number: signal.signal(number, pass_on) for number in STOPPING}
    try:
        yield seen
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP)


def _by(number: int) -> str:
    return f"stopped by {signal.Signals(number).name}"

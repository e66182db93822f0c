"""What can be asked for: one frozen request for each use case, with a sentence for every field.

The command line makes its options from these fields and from the table of axes. Importing this
imports no library, so that help is instant.
"""
# ruff: noqa: RUF009  (`option` is `dataclasses.field` with a sentence.)

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from os import PathLike
from pathlib import Path
from types import UnionType
from typing import Any, Self, Union, get_args, get_origin, get_type_hints

from convdyno.errors import UnknownName, UsageError
from convdyno.trial import axes, parse
from convdyno.trial.axes import Given

Words = str | Sequence[str] | None
Number = str | float
RESULTS = Path("results")
READERS: Mapping[str, Callable[[str], Callable[[str], float]]] = {
    "within": parse.width,
    "budget": parse.duration,
    "rounds": parse.whole,
    "watchdog": parse.duration,
    "rank_timeout": parse.duration,
    "per_node": parse.whole,
    "max_devices": parse.whole,
}
"""What reads a field that is more than a word, by what it is called in a sentence."""


def option(default: Any, help: str, **more: Any) -> Any:
    """A field that is an option of the command line.

    `least` is the smallest number, `name` its name there, if not its own, `also` another one;
    `group` the heading of help that it stands under, `usual` whether short help has it.
    """
    about = {"help": help, **more}
    if isinstance(default, dict):
        return field(default_factory=dict, metadata=about)
    return field(default=default, metadata=about)


LABELS = "NAME=VALUE: kept in the records; again: more."
WHERE = "FIELD=VALUE[,VALUE] or FIELD!=VALUE; several must all hold."
RANK_TIMEOUT = "After this silence a device is lost."
IMAGE_SIZE = "224 or 224x160; default: the network's own."
SHARDS = "TFRecord files for training; default: by size, 128 MB each."
THREADS = "Default: one for each core."


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What every request has."""

    command: str = ""
    """What repeats it on the command line; empty: made from the request, where that is possible."""

    def __post_init__(self) -> None:
        kind: Any = type(self)
        hints = _hints(kind)
        for one in fields(self):
            value = getattr(self, one.name)
            if value != one.default:
                called = f"--{one.metadata.get('name', one.name).replace('_', '-')}"
                meant = _meant(called, hints[one.name], value, one.metadata.get("least"))
                object.__setattr__(self, one.name, meant)

    @classmethod
    def of(cls, **options: Any) -> Self:
        """A request by options alone: fields and axes by their names; None is the default."""
        known = {one.name for one in fields(cls)}
        other = axes.BY_NAME.keys() if "axes" in known else set()
        for name in options:
            if name not in known and name not in other:
                raise UnknownName("option", name, sorted(known - {"axes", "command"} | other))
        needed = {one.name for one in fields(cls) if one.default is one.default_factory}
        given = {n: value for n, value in options.items() if value is not None or n in needed}
        own = {name: value for name, value in given.items() if name in known}
        rest = {name: value for name, value in given.items() if name not in known}
        return cls(**own | ({"axes": rest} if "axes" in known else {}))

    def read(self, name: str) -> Any:
        """A field that is more than a word, as it is meant."""
        value = getattr(self, name)
        reader = READERS[name]
        if reader is parse.whole and not isinstance(value, str):
            whole = isinstance(value, int) and not isinstance(value, bool)
            return reader(name)(str(value) if whole else repr(value))
        return reader(f"--{name.replace('_', '-')}")(axes.word(value))


@cache
def _hints(kind: type[Any]) -> dict[str, Any]:
    return get_type_hints(kind)


def _meant(called: str, hint: Any, value: Any, least: int | None) -> Any:
    """What a word or a value means for a field; a sentence if it can mean nothing there."""
    kinds = set(get_args(hint)) if get_origin(hint) in (Union, UnionType) else {hint}
    if type(None) in kinds and value is None:
        return None
    if Mapping in {get_origin(kind) for kind in kinds}:
        if not isinstance(value, Mapping):
            raise UsageError(f"{called} is names and values, {{'gpu': 'k80'}}, not {value!r}")
        return value
    if bool in kinds:
        if not isinstance(value, bool):
            raise UsageError(f"{called} is True or False, not {value!r}")
        return value
    several = next((get_args(kind)[0] for kind in kinds if get_origin(kind) is Sequence), None)
    if several and not isinstance(value, str | PathLike):
        if not isinstance(value, Sequence) or (str in kinds and not value):
            raise UsageError(f"{called} is a name or a list of names, not {value!r}")
        return tuple(_one(called, {several}, one, None) for one in value)
    if several and str not in kinds:
        return (_one(called, {several}, value, None),)
    return _one(called, kinds, value, least)


def _one(called: str, kinds: set[Any], value: Any, least: int | None) -> Any:
    """A value of a field that has one."""
    plain = isinstance(value, str | int | float) and not isinstance(value, bool)
    if Path in kinds:
        if not isinstance(value, str | PathLike) or not str(value):
            raise UsageError(f"{called} is the path of a file or folder, not {value!r}")
        return Path(value)
    if int in kinds:
        word = value if isinstance(value, str) else str(value) if plain else repr(value)
        return parse.whole(called, 1 if least is None else least)(word)
    if float in kinds and str not in kinds:
        return parse.number(called)(str(value) if plain else repr(value))
    if isinstance(value, list | tuple) and float not in kinds:
        return ",".join(_one(called, kinds, one, None) for one in value)
    if isinstance(value, PathLike):
        return str(value)
    if not plain:
        raise UsageError(f"{called} is a word or a number, not {value!r}")
    return value if float in kinds else axes.word(value)


@dataclass(frozen=True, kw_only=True)
class Patience(Asked):
    """How long workers may be silent."""

    watchdog: Number = option(
        "5m",
        "After this silence a worker has hung.",
        group="How it runs",
    )
    rank_timeout: Number = option("20s", RANK_TIMEOUT, group="Several devices")


@dataclass(frozen=True, kw_only=True)
class Measurement(Patience):
    """Which cells, and how precisely and how long they are measured."""

    network: Words = None
    axes: Given = field(default_factory=dict)
    """What else was given, by the names of axes: words, comma lists, values, lists of values."""
    within: Number = option(
        "3%",
        "How narrow an interval; any: just --rounds.",
        group="How precisely",
        usual=True,
    )
    budget: Number = option(
        "5m",
        "Stop after this time: 90s, 5m, 1h.",
        group="How precisely",
        usual=True,
    )
    rounds: int = option(
        3,
        "Fresh processes per cell, at least.",
        least=1,
        group="How precisely",
        usual=True,
    )
    out: Path = option(RESULTS, "The folder of the records.", group="Output", usual=True)

    @property
    def given(self) -> dict[str, Any]:
        """Everything that makes trials."""
        if not self.network:
            raise UsageError("which network? `convdyno list networks` shows all; try resnet50")
        return {"network": self.network, **self.axes}


@dataclass(frozen=True, kw_only=True)
class Hosts:
    """On which hosts it runs: a nodes file's, or this machine."""

    nodes: Path | None = option(
        None,
        "Hosts to run on, a file: `NAME SSH-ALIAS` a line.",
        group="Hosts and schedulers",
    )
    per_node: int = option(1, "Devices of each host.", least=1, group="Hosts and schedulers")
    max_devices: int | None = option(
        None,
        "Count devices 1, 2, 4, ... up to this.",
        least=1,
        group="Hosts and schedulers",
    )
    remote_dir: str | None = option(
        None,
        "Where it is put there; default ~/.cache/convdyno.",
        group="Hosts and schedulers",
    )
    python: str | None = option(
        None,
        "The Python to use there; default: found or made.",
        group="Hosts and schedulers",
    )
    ssh_config: Path | None = option(
        None,
        "What ssh reads instead of ~/.ssh/config.",
        group="Hosts and schedulers",
    )


@dataclass(frozen=True, kw_only=True)
class BenchRequest(Hosts, Measurement):
    """Measure how fast networks train or infer."""

    slurm_module: Sequence[str] = option(
        (),
        "A module that jobs load; may be given again.",
        group="Hosts and schedulers",
    )
    slurm_setup: Path | None = option(
        None,
        "A file of bash that jobs read first.",
        group="Hosts and schedulers",
    )
    preset: str | None = option(
        None,
        "Settings that `tune` found, where none are given.",
        group="How it runs",
    )
    labels: Mapping[str, str] = option({}, LABELS, name="label", group="Output")
    watch: bool = option(
        False,
        "Show the intervals as they narrow.",
        name="watch",
        group="Output",
    )


@dataclass(frozen=True, kw_only=True)
class GateRequest(Measurement):
    """Hold a candidate against a base."""

    within: Number = option(
        "3%",
        "How much longer a step may take.",
        group="How precisely",
        usual=True,
    )
    base: Path | None = option(
        None,
        "Records of earlier, made on this machine.",
        group="The base",
        usual=True,
    )
    base_python: str | None = option(
        None,
        "The base's environment: the path of its Python.",
        group="The base",
        usual=True,
    )
    base_command: str | None = option(None, "What starts a worker of the base.", group="The base")
    base_folder: Path | None = option(
        None,
        "The folder in which the base's workers run.",
        group="The base",
    )
    base_set: str | None = option(
        None,
        "layout=nchw,threads=1: settings of the base.",
        group="The base",
        usual=True,
    )
    rounds: int = option(
        3,
        "Fresh processes of each side, at least.",
        least=2,
        group="How precisely",
        usual=True,
    )
    loss_steps: int = option(
        4,
        "First steps whose loss must agree.",
        least=1,
        group="How precisely",
    )
    loss_within: str | None = option(
        None,
        "How far apart losses may be; 0: the same bits.",
        group="How precisely",
    )
    ignore: str | None = option(
        None,
        "network, parameters, macs, loss, recompilations",
        group="How precisely",
    )
    floor: bool | None = option(
        None,
        "Only measure the noise floor; or do without.",
        name="floor/--no-floor",
        group="How precisely",
    )


@dataclass(frozen=True, kw_only=True)
class TuneRequest(Measurement):
    """Search the fastest settings of one network and engine."""

    budget: Number = option(
        "10m",
        "Half to search, half to measure.",
        group="How precisely",
        usual=True,
    )
    name: str | None = option(
        None,
        "Of the preset; default: NETWORK-ENGINE.",
        group="Output",
        usual=True,
    )
    own: bool = option(
        False,
        "Keep the preset in your configuration folder.",
        group="Output",
        usual=True,
    )


@dataclass(frozen=True, kw_only=True)
class SweepRequest(Asked):
    """Measure every combination of a file's values."""

    file: Path
    retry: str | None = option(None, "failed: run again what failed or was skipped before.")
    overrides: Sequence[str] = option(
        (), "KEY=VALUE,...: instead of what the file says; again: more.", name="set"
    )
    labels: Mapping[str, str] = option({}, LABELS, name="label")
    out: Path = option(RESULTS, "The folder of the records.")


@dataclass(frozen=True, kw_only=True)
class TrainRequest(Patience):
    """Train a network on real data."""

    network: str
    data: str
    axes: Given = field(default_factory=dict)
    """What else was given of a trial, by the names of axes; one value of each."""
    recipe: str | None = option(
        None,
        "One of `convdyno list recipes`; default: usual.",
        group="Training",
        usual=True,
    )
    log_dir: Path | None = option(
        None,
        "Where all is written; default: runs/NETWORK.",
        group="Output",
        usual=True,
    )
    epochs: Number | None = option(
        None,
        "How often all images are seen.",
        group="Training",
        usual=True,
    )
    momentum: Number | None = option(None, "Of SGD.", group="Training")
    nesterov: bool | None = option(None, "Nesterov's momentum.", group="Training")
    weight_decay: Number | None = option(None, "L2.", group="Training")
    decay_on: str | None = option(
        None,
        "all, or kernels: no batch norm, no biases",
        group="Training",
    )
    label_smoothing: Number | None = option(None, "0 to 1.", group="Training")
    ema: Number | None = option(
        None,
        "Moving average of the weights: 0.999, or off.",
        group="Training",
    )
    clip_norm: Number | None = option(
        None,
        "The largest norm of gradients, or off.",
        group="Training",
    )
    larc_eta: Number | None = option(None, "LARC's trust coefficient, or off.", group="Training")
    larc_mode: str | None = option(None, "clip, scale", group="Training")
    schedule: str | None = option(
        None,
        "constant, cosine, poly:2, steps:30=0.1;60=0.01",
        group="Training",
    )
    warmup: Number | None = option(None, "Epochs in which the rate rises.", group="Training")
    warmup_from: Number | None = option(
        None,
        "The share of the rate that it begins with.",
        group="Training",
    )
    seeds: int = option(1, "Repeat with so many seeds.", least=1, group="Training", usual=True)
    until: str | None = option(None, "Stop there: top1=0.90.", group="Training", usual=True)
    eval_every: Number = option("1", "Epochs between evaluations.", group="Training")
    display_every: int | None = option(None, "Steps between lines.", least=1, group="Output")
    save_interval: Number = option("10m", "Time between checkpoints.", group="Output")
    summary_interval: Number = option("10m", "Time between TensorBoard images.", group="Output")
    keep: int = option(3, "Latest checkpoints that stay.", least=1, group="Output")
    watchdog: Number = option("10m", "After this silence a worker has hung.", group="How it runs")
    resume: bool = option(
        False,
        "Only go on: an error where nothing was begun.",
        group="How it runs",
    )
    labels: Mapping[str, str] = option(
        {},
        "NAME=VALUE: kept in run.json; again: more.",
        name="label",
        group="Output",
    )
    display_seconds: float = 10.0
    """Between lines, where `display_every` does not say."""


@dataclass(frozen=True, kw_only=True)
class EvaluateRequest(Patience):
    """Evaluate a checkpoint over every test image."""

    checkpoint: Path
    axes: Given = field(default_factory=dict)
    network: str | None = option(
        None,
        "Your own, if it is: package.module:function.",
        group="What to run",
    )
    raw: bool = option(
        False,
        "The weights themselves, not their moving average.",
        group="What to run",
        usual=True,
    )
    full: bool = option(
        False,
        "Also each class, and which are confused.",
        group="What to run",
        usual=True,
    )
    watchdog: Number = option("10m", "After this silence a worker has hung.", group="How it runs")


@dataclass(frozen=True, kw_only=True)
class CertifyRequest(Asked):
    """Prove that engines compute the same network."""

    network: str
    engine: str = option("all", "all (installed), or a comma list.")
    optimiser: str | None = option(
        None, "sgd, adam; default: the network's own.", also="--optimizer"
    )
    recipe: str | None = option(None, "The update rule of a recipe, with all that it has.")
    precision: str = option("fp32", "fp32, bf16, fp16, tf32, or a comma list.")
    kernels: str = option("native", "native, tuned")
    layout: str = option("auto", "auto, nchw, nhwc")
    compile: str = option("auto", "auto, on, off")
    accumulate: int = option(1, "Parts of a batch, one after the other.", least=1)
    devices: str = option("1", "That share a step; 2 stands for any number. Or a comma list.")
    auxiliary: bool = option(False, "With the auxiliary heads.")
    seed: int = option(0, "Of the weights and images.", least=0)
    coverage: bool = option(False, "For each node: how small a fault would be seen.")
    out: Path = option(RESULTS, "The folder of the records.")


@dataclass(frozen=True, kw_only=True)
class CompareRequest(Asked):
    """Compare stored cells that are alike in all but one thing."""

    results: Sequence[Path] = (RESULTS,)
    by: str = option("engine", "The axis: engine, precision, batch, ..., machine, label.NAME")
    where: Sequence[str] = option((), WHERE)
    against: str | None = option(None, "Compare all values with this one; default: each with each.")


@dataclass(frozen=True, kw_only=True)
class ReportRequest(Asked):
    """Show what was measured, in files."""

    results: Sequence[Path] = (RESULTS,)
    html: Path | None = option(None, "One page that needs no network; default: report.html.")
    svg: Path | None = option(None, "A folder for the charts as SVG.")
    png: Path | None = option(None, "A folder for the charts as PNG.")
    csv: Path | None = option(None, "All records as CSV; - prints it.")
    markdown: Path | None = option(None, "The report as Markdown; - prints it.", also="--md")
    bencher: Path | None = option(None, "Bencher Metric Format (JSON).")
    where: Sequence[str] = option((), WHERE)
    title: str = option("convdyno report", "Of the page.")
    document: bool = False
    """Whether the whole report is wanted as data, too."""


@dataclass(frozen=True, kw_only=True)
class DrawRequest(Asked):
    """Draw a network in one of its forms."""

    network: str
    image_size: str | None = option(None, IMAGE_SIZE)
    classes: int | None = option(None, "Number of classes.")
    width: float = option(1.0, "Multiplies every channel count.")
    auxiliary: bool = option(False, "With the auxiliary heads.")


@dataclass(frozen=True, kw_only=True)
class ExportRequest(DrawRequest):
    """Write a network's initial weights."""

    file: Path
    seed: int = option(0, "Of the random start.", least=0)
    force: bool = option(False, "Overwrite a file that exists.")


@dataclass(frozen=True, kw_only=True)
class ImportRequest(DrawRequest):
    """Take over weights of another library."""

    file: Path
    to_file: Path
    library: str = "auto"
    image_size: str | None = option(None, IMAGE_SIZE)
    classes: int | None = option(None, "Number of classes; default: what the file has.")
    force: bool = option(False, "Overwrite a file that exists.")


@dataclass(frozen=True, kw_only=True)
class ConvertRequest(Asked):
    """Write a data set in another form."""

    source: str
    target: Path
    to: str
    shards: int | None = option(None, SHARDS)
    short_side: int | None = option(None, "Shrink larger images to so many pixels.")
    quality: int = option(95, "Of JPEGs that are encoded anew, 1 to 100.")
    encoding: str = option("keep", "keep, jpeg, png; arrays such as MNIST's become jpeg with keep.")
    seed: int = option(0, "Of the order of training images.", least=0)
    on_bad: str = option("error", "error, skip: leave damaged images out, up to one in a hundred.")
    threads: int | None = option(None, THREADS)


@dataclass(frozen=True, kw_only=True)
class MakeRequest(Asked):
    """Make JPEGs that decode like photographs."""

    target: Path
    images: int = option(2000, "In all; a tenth is for validation.")
    classes: int = option(10, "Number of classes.")
    to: str = option("folder", "tfrecord, folder")
    size: str = option("500x375", "Width x height that sizes vary around.")
    shards: int | None = option(None, SHARDS)
    seed: int = option(0, "Of everything random.", least=0)
    threads: int | None = option(None, THREADS)


@dataclass(frozen=True, kw_only=True)
class SpeedRequest(Asked):
    """Measure the input pipeline alone."""

    path: str
    batch: int = option(64, "Images in a batch.")
    threads: int | None = option(None, THREADS)
    split: str = option("train", "train, validation")
    image_size: str | None = option(None, "224 or 224x160; default: 224, or that of small images.")
    decoder: str = option("auto", "auto, native, simplejpeg")
    crop: str | None = option(None, "nvcnn, inception, torch, pad, whole; default: usual.")
    view: str | None = option(None, "Validation: squash, centre, centre-1.145, whole.")
    resize: str = option("plain", "plain, antialiased")
    colour: str = option("off", "off, folded, exact")
    fidelity: str = option("fast", "JPEG decoding: fast, accurate")
    seconds: float = option(10.0, "How long to measure.")
    seed: int = option(0, "Of everything random.", least=0)

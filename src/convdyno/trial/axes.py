"""What trials may differ in, each thing once: its name, its words, its meaning, who may give it.

The options of commands, the words of sweeps and of Python, the settings of a gate's base, what
`tune` searches, what interrupted training may change and how people are told of a trial all come
from this table. A new axis is an entry here, a field of `Trial` of the same name, and whatever does
what it says.

Importing this imports no library, so that help is instant.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, get_args

from convdyno.errors import UnknownName, UsageError
from convdyno.trial import choices, parse

Kind = Literal["list", "flag", "again"]
"""An option that takes a comma list, one that is on or off, or one that is given several times."""
Group = Literal[
    "What to run", "How it runs", "Data", "Training", "Several devices", "Hosts and schedulers",
    "How precisely", "The base", "Output",
]  # fmt: skip
"""The headings of help, in its order."""
Need = Literal["real data", "training", "inference", "JAX", "Keras"]
"""What some axes are about."""
Given = Mapping[str, Any]
"""What was asked for by the names of axes: words, values, or several of them."""
MAX = "max"
"""The largest batch that fits, which is found by trying."""
MEASURING = frozenset({"bench", "gate", "tune"})
ALL = MEASURING | {"train", "eval"}
BENCH = frozenset({"bench"})
NOBODY: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Own:
    """How a command that is not about speed has an axis."""

    help: str = ""
    """Empty: as it is elsewhere."""
    default: str | bool | None = None
    """None: the recipe, the data or the checkpoint decides."""


@dataclass(frozen=True)
class Axis:
    """One thing that trials may differ in."""

    name: str
    """What options, sweeps and Python call it."""
    help: str = ""
    """For people; `{}` stands for the words to choose from."""
    read: Callable[[str], Any] = str
    """Makes a value of one word, or says what is wrong with it."""
    default: str | bool | None = None
    """What is meant when nothing is given; None: the network, the data or the place decides."""
    kind: Kind = "list"
    sets: str = ""
    """The field of `Trial` that it sets, where that has another name."""
    group: Group = "How it runs"
    """Under which heading of help it stands."""
    usual: frozenset[str] = NOBODY
    """Commands whose short help has it; the whole help has all."""
    commands: frozenset[str] = MEASURING
    """Commands that measure with it."""
    also: Mapping[str, Own] = field(default_factory=dict)
    """Other commands that have it, each in its own way."""
    how: bool = False
    """Whether it changes how the work is done, not what it is: a gate's base may differ in it."""
    resumes: bool = False
    """Whether training that was interrupted may go on with another value."""
    tuned: bool = False
    """Whether `tune` searches it and presets have it."""
    together: bool = False
    """Whether it means nothing to one device."""
    needs: tuple[Need, ...] = ()
    """Without what it would change nothing."""
    bare: bool = False
    """Whether its value says what it is, so that people need not be told its name."""
    main: bool = False
    """Whether every table shows it."""
    aside: bool = False
    """Whether it is shown elsewhere, or says little."""
    older: str = ""
    """An older name that is still understood."""
    choices: tuple[str, ...] = ()
    """The words to choose from, where there are only a few."""

    @property
    def option(self) -> str:
        """What the command line calls it."""
        return f"--{self.name.replace('_', '-')}"

    @property
    def of_trial(self) -> str:
        """The field of `Trial`."""
        return self.sets or self.name

    def in_command(self, command: str) -> Own | None:
        """Its help and default there; None where the command has no such option."""
        own = self.also.get(command)
        if own is None and command not in self.commands:
            return None
        text = (own and own.help) or self.help
        default = self.default if own is None else own.default
        return Own(text.format(", ".join(self.choices)), default)

    def values(self, given: Any) -> list[Any]:
        """What a word, a comma list, a value or several values mean; None is the default."""
        if self.kind == "flag":
            if not isinstance(given, bool):
                raise UsageError(f"{self.name} is True or False, not {given!r}")
            return [given]
        if given is None:
            return [None]
        if self.kind == "again":
            return [given] if isinstance(given, str) else [str(one) for one in given]
        size = isinstance(given, tuple) and self.name == "image_size"
        if isinstance(given, str):
            words = parse.several(given, str)
        elif size or not isinstance(given, Iterable):
            words = [word(given)]
        else:
            words = [word(one) for one in given]
        several = [self._value(one) for one in words]
        if not several:
            raise UsageError(f"{self.name} is an empty list, so nothing would run")
        for one, value in zip(words, several, strict=True):
            if several.count(value) > 1:
                raise UsageError(f"{self.option} has {one} twice: give each value once")
        return several

    def _value(self, text: str) -> Any:
        return text if self.name == "batch" and text == MAX else self.read(text)


def word(value: Any) -> str:
    """A value as one types it."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, tuple | list):
        return "x".join(map(str, value))
    if isinstance(value, float):
        return repr(int(value)) if value.is_integer() else repr(value)
    return str(value)


def _choice(name: str, kind: Any, help: str = "{}", **more: Any) -> Axis:
    """An axis with a few words to choose from; the first is the default."""
    words = get_args(kind)
    read = parse.one_of(name.replace("_", "-"), words)
    return Axis(name, help, read, **{"default": words[0], "choices": words, **more})


def _automatic(option: str) -> Callable[[str], int | None]:
    return lambda word: None if word == "auto" else parse.whole(option)(word)


def _batch(word: str) -> int:
    if word == MAX:
        raise UsageError("--batch max is found by trying, on this machine: give a number here")
    return parse.whole("--batch")(word)


def _loss_scale(word: str) -> float | str:
    return word if word == "dynamic" else parse.number("--loss-scale")(word)


def _device(word: str) -> str:
    # A script of the clockwork engine has an equals sign.
    if not re.fullmatch(r"auto|cpu|cuda(:[0-9]{1,4})?|mps|.*=.*", word):
        raise UsageError(
            f"--device is auto, cpu, cuda (an NVIDIA GPU), cuda:1 (the second) or mps, not {word!r}"
        )
    return word


def _stage(text: str) -> str:
    parse.labelled("--stage-from", text)
    return text


_RECIPE = {"train": Own()}


def _too(default: str | bool | None, help: str = "") -> dict[str, Own]:
    """For training too."""
    return {"train": Own(help, default)}


AXES: tuple[Axis, ...] = (
    Axis("network", commands=NOBODY, bare=True, main=True),
    Axis(
        "engine", "A comma list, or all; default: the best installed.", parse.engine, resumes=True,
        bare=True, main=True,
        also={
            "train": Own("Default: the best installed."),
            "eval": Own("Any engine; default: the one that trained it."),
        },
        group="What to run", usual=ALL,
    ),
    _choice(
        "mode", choices.Mode, bare=True, main=True, group="What to run", usual=ALL
    ),
    Axis(
        "batch", "Images per device, or max; default: what suits.", _batch,
        how=True, resumes=True, tuned=True, main=True,
        also={
            "train": Own("Images per device and step."),
            "eval": Own("Images at a time on each device."),
        },
        group="What to run", usual=ALL,
    ),
    _choice(
        "precision", choices.Precision, how=True, bare=True, main=True,
        also={
            "train": Own(),
            "eval": Own("fp32, bf16, fp16; stored in float32.", "fp32"),
        },
        group="What to run", usual=ALL,
    ),
    _choice("layout", choices.Layout, how=True, resumes=True, tuned=True, also=_too("auto")),
    _choice("compile", choices.Switch, how=True, resumes=True, tuned=True, also=_too("auto")),
    _choice(
        "kernels", choices.Kernels,
        "native, tuned (faster; JAX on a CPU)",
        how=True, resumes=True, also={"train": Own("{}", "native")},
        needs=("JAX",),
    ),
    _choice(
        "feed", choices.Feed, "Keras: batch (train_on_batch), fit", how=True,
        needs=("Keras",),
    ),
    Axis(
        "threads", "CPU threads; auto: one a core.", _automatic("--threads"), "auto",
        how=True, resumes=True, tuned=True, also=_too("auto"),
    ),
    Axis(
        "device", "auto, cpu, cuda, cuda:1, mps", _device, "auto", how=True, resumes=True,
        also=_too("auto") | {"eval": Own("", "auto")},
    ),
    Axis(
        "image_size", "224 or 224x160; default: the network's own.", parse.image_size, also=_RECIPE,
        group="What to run",
    ),
    Axis(
        "classes", "How many; default: the network's or the data's.",
        parse.whole("--classes", 2), older="num_classes", also=_RECIPE,
        group="What to run",
    ),
    Axis(
        "width", "Multiplies every channel count.", parse.number("--width"), "1", also=_too("1"),
        group="What to run",
    ),
    Axis(
        "data", "synthetic, mnist, ..., or a path.", default="synthetic",
        bare=True,
        also={"eval": Own("A name or a path; default: that of the training.")},
        group="Data", usual=ALL,
    ),
    Axis(
        "ladder", "Where the time of real data goes, part by part.", default=False, kind="flag",
        sets="rung", commands=BENCH,
        group="Data",
    ),
    Axis(
        "stage_from", "LABEL=FOLDER,...: copy the data there first.", _stage,
        sets="staged", commands=BENCH,
        group="Data",
    ),
    _choice(
        "loader", choices.Loader, "own, native (tf.data, or torch's DataLoader)", how=True,
        needs=("real data",),
        group="Data",
    ),
    _choice(
        "decoder", choices.Decoder, how=True, resumes=True, also=_too("auto"), needs=("real data",),
        group="Data",
    ),
    _choice(
        "crop", choices.Crop, "{}", also=_RECIPE, needs=("real data", "training"),
        group="Data",
    ),
    _choice(
        "view", choices.View, "{}", group="Data",
        also={"train": Own("{}"), "eval": Own("Default: as trained.")},
        needs=("real data", "inference"),
    ),
    _choice(
        "resize", choices.Resize, also=_too("plain"), needs=("real data",), group="Data"
    ),
    _choice(
        "colour", choices.Colour, "Random colours: {}", older="color", also=_RECIPE, group="Data",
        needs=("real data",),
    ),
    Axis(
        "input_threads", "Threads that decode; auto: one a core.", _automatic("--input-threads"),
        "auto", how=True, resumes=True, also=_too("auto"),
        needs=("real data",),
        group="Data",
    ),
    Axis(
        "prefetch", "Batches that may be ready ahead.", parse.whole("--prefetch"), "4",
        how=True, resumes=True, also=_too("4"),
        needs=("real data",),
        group="Data",
    ),
    _choice(
        "on_bad", choices.OnBad, "Damaged images: {}", resumes=True, also=_too("error"),
        needs=("real data",),
        group="Data",
    ),
    _choice(
        "optimiser", choices.OptimiserKind, "{}; default: the network's own.", default=None,
        older="optimizer", aside=True, also={"train": Own("{}")},
        needs=("training",),
        group="Training", usual=frozenset({"train"}),
    ),
    Axis(
        "rate", "The learning rate.", parse.number("--rate"), sets="optimiser",
        also={"train": Own("The base learning rate, as it is (not scaled).")},
        needs=("training",),
        group="Training", usual=frozenset({"train"}),
    ),
    Axis(
        "loss_scale", "For fp16: a number, or dynamic (the default).", _loss_scale, how=True,
        also=_RECIPE,
        group="Training",
    ),
    Axis(
        "auxiliary", "Train with the auxiliary heads.", default=False, kind="flag",
        also=_too(False),
        group="What to run",
    ),
    Axis(
        "latency", "Wait after, and time, every single step.", default=False, kind="flag",
        commands=MEASURING - {"tune"},
        group="What to run",
    ),
    Axis(
        "devices", "How many run together; a list: the scaling curve.",
        parse.whole("--devices"), resumes=True, main=True,
        also={
            "train": Own("How many train together, --batch images on each."),
            "eval": Own("How many share the images; the counts are the same."),
        },
        group="Several devices", usual=ALL,
    ),
    Axis("hosts", commands=NOBODY, resumes=True, aside=True),
    Axis(
        "slurm", "partition=P,gres=gpu:k80,...: as jobs; again: more.",
        kind="again", commands=BENCH, resumes=True,
        group="Hosts and schedulers",
    ),
    _choice(
        "scaling", choices.Scaling, "weak: a --batch each; strong: one for all",
        resumes=True, aside=True,
        group="Several devices",
    ),
    _choice(
        "exchange", choices.Exchange,
        "Gradients: default, horovod, independent",
        group="Several devices",
        how=True, resumes=True, together=True,
        also=_too("default", "Gradients: default, horovod"),
    ),
    Axis(
        "bucket_mb", "Gradients exchanged at a time, in MB (torch).", parse.number("--bucket-mb"),
        how=True, resumes=True, tuned=True, together=True, also=_RECIPE,
        group="Several devices",
    ),
    _choice(
        "compress", choices.Compress, "Gradients on the wire: {}", group="Several devices",
        how=True, together=True, also=_too("none"),
    ),
    Axis(
        "accumulate", "Parts of a batch before one exchange.",
        parse.whole("--accumulate"), "1", how=True, resumes=True, also=_too("1"),
        group="Several devices",
    ),
    _choice(
        "processes", choices.Processes, "One for each: {}",
        how=True, resumes=True, together=True,
        group="Several devices",
    ),
    Axis(
        "cores", "Of each device; auto: an equal share.", _automatic("--cores"),
        "auto", how=True, resumes=True, aside=True, group="Several devices",
        also=_too("auto") | {"eval": Own("", "auto")},
    ),
    Axis(
        "seed", "Of weights and images.", parse.whole("--seed", 0), "0", aside=True,
        also=_too("0", "Of weights, order and crops."),
    ),
)  # fmt: skip
"""In the order of help."""
BY_NAME: Mapping[str, Axis] = MappingProxyType({axis.name: axis for axis in AXES})


def names(**wanted: bool) -> tuple[str, ...]:
    """The axes of which all of this is true: `names(tuned=True)`."""
    return tuple(a.name for a in AXES if all(getattr(a, k) is v for k, v in wanted.items()))


def find(name: str) -> Axis:
    """The axis of a name."""
    if name not in BY_NAME:
        raise UnknownName("option", name, sorted(BY_NAME))
    return BY_NAME[name]


def read(given: Given) -> dict[str, list[Any]]:
    """The values of every axis, in the table's order; what is not given is the default."""
    for name in given:
        find(name)
    return {axis.name: axis.values(given.get(axis.name, axis.default)) for axis in AXES}

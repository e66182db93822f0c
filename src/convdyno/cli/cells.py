"""The words of the command line into cells, checked as far as they can be without a framework."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, get_args

from convdyno.cli import parse
from convdyno.errors import UsageError
from convdyno.trial import spec

if TYPE_CHECKING:
    from convdyno.data.source import Facts, Split
    from convdyno.launch.crew import Room
    from convdyno.trial.spec import Trial

LADDER = {
    "encoded": ("device", "host", "decoded", "bytes", "source"),
    "arrays": ("device", "host", "source"),
}
"""The rungs of a bottleneck ladder, the lowest first."""


ONLY_TOGETHER = ("exchange", "bucket_mb", "compress", "processes")
"""What means nothing to one device."""


def make_trials(there: Room, words: dict[str, Any]) -> list[Trial]:
    """The cells that the options of `bench` make: every combination of their values."""
    from convdyno.data import SOURCES
    from convdyno.trial.sweep import expand
    from convdyno.zoo.registry import find

    ladder = words["ladder"]
    if ladder and set(parse.several(words["data"], str)) & SOURCES.keys():
        raise UsageError("--ladder shows what real data cost: give them with --data PATH")
    given = words["devices"]
    wanted = None if given is None else parse.several(given, parse.whole("--devices"))
    cells: list[Trial] = []
    for name in dict.fromkeys(parse.several(words["networks"], str)):
        network = find(name)
        several = {
            axis: [None] if words[axis] is None else parse.several(words[axis], read)
            for axis, read in readers().items()
        }
        if several["batch"] == [None]:
            several["batch"] = [network.batch]
        once = {flag: [words[flag]] for flag in ("auxiliary", "latency", "seed")}
        cells += expand(
            {
                "network": [name],
                "engine": _engines(words["engine"]),
                **several,
                **once,
                "optimiser": [_optimiser(words, network.optimiser)],
                "devices": there.counts(wanted),
                "exchange": parse.several(words["exchange"], _choice("exchange", spec.Exchange)),
            }
        )
    cells = _share_out(cells, there)
    cells = [fitted for trial in cells for fitted in _fit_data(trial, ladder)]
    for trial in cells:
        _drawn(trial.network, trial.image_size, trial.classes, trial.width, trial.auxiliary)
    return cells


@cache
def _drawn(*about: Any) -> None:
    """Say what keeps a network from being built; a sweep asks this of very many trials."""
    from convdyno.zoo.registry import build

    build(*about)


@cache
def _engines(words: str | None) -> list[str]:
    from convdyno.engines import registry

    return registry.chosen(words)


@cache
def readers() -> dict[str, Callable[[str], Any]]:
    """What reads one word of each option that takes a list, in the order of the cells."""
    return {
        "mode": _choice("mode", spec.Mode),
        "batch": _batch,
        "precision": _choice("precision", spec.Precision),
        "layout": _choice("layout", spec.Layout),
        "compile": _choice("compile", spec.Switch),
        "kernels": _choice("kernels", spec.Kernels),
        "feed": _choice("feed", spec.Feed),
        "threads": _automatic("--threads"),
        "device": str,
        "image_size": parse.image_size,
        "classes": parse.whole("--classes", 2),
        "width": parse.number("--width"),
        "data": str,
        "loader": _choice("loader", spec.Loader),
        "decoder": _choice("decoder", spec.Decoder),
        "crop": _choice("crop", spec.Crop),
        "view": _choice("view", spec.View),
        "resize": _choice("resize", spec.Resize),
        "colour": _choice("colour", spec.Colour),
        "input_threads": _automatic("--input-threads"),
        "prefetch": parse.whole("--prefetch"),
        "on_bad": _choice("on-bad", spec.OnBad),
        "loss_scale": _loss_scale,
        "scaling": _choice("scaling", spec.Scaling),
        "bucket_mb": parse.number("--bucket-mb"),
        "compress": _choice("compress", spec.Compress),
        "accumulate": parse.whole("--accumulate"),
        "processes": _choice("processes", spec.Processes),
        "cores": _automatic("--cores"),
    }


def check_word(name: str, word: str) -> None:
    """Say what is wrong with one value of an option that makes trials, if anything is."""
    from convdyno.engines import registry
    from convdyno.zoo.registry import find

    others: dict[str, Callable[[str], Any]] = {
        "network": find,
        "engine": registry.chosen,
        "devices": parse.whole("--devices"),
        "exchange": _choice("exchange", spec.Exchange),
        "optimiser": _choice("optimiser", spec.OptimiserKind),
        "rate": parse.number("--rate"),
        "seed": parse.whole("--seed", 0),
        "stage_from": lambda word: parse.labelled("--stage-from", word),
    }
    (readers() | others).get(name, str)(word)


def _choice(name: str, kind: Any) -> Callable[[str], str]:
    return parse.one_of(name, get_args(kind))


def _automatic(option: str) -> Callable[[str], int | None]:
    return lambda word: None if word == "auto" else parse.whole(option)(word)


def _share_out(cells: list[Trial], there: Room) -> list[Trial]:
    """Cells with each device's part of a given batch, and of its machine's cores."""
    from convdyno.trial.spec import Trial, make_trial

    most = max(trial.devices for trial in cells)
    found: list[Trial] = []
    for trial in cells:
        changes: dict[str, Any] = {"hosts": there.hosts(trial.devices)}
        if trial.cores is None:
            changes["cores"] = there.cores(most, trial.device)
        if trial.scaling == "strong" and trial.devices > 1:
            if trial.batch % trial.devices:
                raise UsageError(
                    f"a batch of {trial.batch} cannot be shared evenly by {trial.devices} devices"
                )
            changes["batch"] = trial.batch // trial.devices
        if trial.devices == 1:  # There is nothing to exchange, so ways to do it are one cell.
            changes |= {name: Trial.model_fields[name].default for name in ONLY_TOGETHER}
        made = make_trial(**trial.model_dump() | changes)
        if not (made in found and trial.differs_in(made)):
            found.append(made)
    return found


def split_of(trial: Trial) -> Split:
    """The part of real data that a trial reads."""
    return "train" if trial.mode == "train" else "validation"


@cache
def look_into(data: str, split: Split) -> tuple[Facts, bool]:
    """What real data are, and whether they are held decoded."""
    from convdyno.data.detect import open_source
    from convdyno.data.source import DecodedImages

    source = open_source(data, split)
    if isinstance(source, DecodedImages):
        return source.facts, True
    source.close()
    return source.facts, False


def _fit_data(trial: Trial, ladder: bool) -> list[Trial]:
    """A trial whose classes are those of its data, on every rung if a ladder is wanted."""
    from convdyno.data import SOURCES

    if trial.data in SOURCES:
        return [trial]
    facts, decoded = look_into(trial.data, split_of(trial))
    classes = len(facts.classes)
    if trial.classes is not None and trial.classes < classes:
        raise UsageError(
            f"{trial.data} has {classes} classes, more than the {trial.classes} of --classes"
        )
    trial = trial.model_copy(update={"classes": trial.classes or max(2, classes)})
    rungs = LADDER["arrays" if decoded else "encoded"] if ladder else (trial.rung,)
    return [trial.model_copy(update={"rung": rung}) for rung in rungs]


def _optimiser(words: dict[str, Any], own: str) -> dict[str, Any]:
    kind = _choice("optimiser", spec.OptimiserKind)(words["optimiser"] or own)
    rate = parse.number("--rate")(words["rate"]) if words["rate"] is not None else None
    default = {"sgd": 1e-3, "adam": 1e-4}[kind]
    return {"kind": kind, "rate": default if rate is None else rate}


def _batch(word: str) -> int:
    if word == "max":
        raise UsageError("--batch max is found by trying, on this machine: give a number here")
    return parse.whole("--batch")(word)


def _loss_scale(word: str) -> float | str:
    return word if word == "dynamic" else parse.number("--loss-scale")(word)

"""The words of the command line into cells, checked as far as they can be without a framework."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, get_args

from convdyno.cli import parse
from convdyno.errors import UsageError

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
    from convdyno.engines import registry
    from convdyno.trial import spec
    from convdyno.trial.sweep import expand
    from convdyno.zoo.registry import build, find

    def choice(name: str, kind: Any) -> list[str]:
        return parse.several(words[name], parse.one_of(name.replace("_", "-"), get_args(kind)))

    def optional(name: str, read: Any) -> list[Any]:
        return parse.several(words[name], read) if words[name] is not None else [None]

    def automatic(name: str) -> list[int | None]:
        option = f"--{name.replace('_', '-')}"
        return parse.several(words[name], lambda w: None if w == "auto" else parse.whole(option)(w))

    ladder = words["ladder"]
    if ladder and set(parse.several(words["data"], str)) & SOURCES.keys():
        raise UsageError("--ladder shows what real data cost: give them with --data PATH")
    given = words["devices"]
    wanted = None if given is None else parse.several(given, parse.whole("--devices"))
    cells: list[Trial] = []
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
            "threads": automatic("threads"),
            "device": parse.several(words["device"], str),
            "image_size": optional("image_size", parse.image_size),
            "classes": optional("classes", parse.whole("--classes", 2)),
            "width": parse.several(words["width"], parse.number("--width")),
            "data": parse.several(words["data"], str),
            "loader": choice("loader", spec.Loader),
            "decoder": choice("decoder", spec.Decoder),
            "crop": choice("crop", spec.Crop),
            "view": choice("view", spec.View),
            "resize": choice("resize", spec.Resize),
            "colour": choice("colour", spec.Colour),
            "input_threads": automatic("input_threads"),
            "prefetch": parse.several(words["prefetch"], parse.whole("--prefetch")),
            "on_bad": choice("on_bad", spec.OnBad),
            "optimiser": [_optimiser(words, network.optimiser)],
            "loss_scale": optional("loss_scale", _loss_scale),
            "auxiliary": [words["auxiliary"]],
            "latency": [words["latency"]],
            "seed": [words["seed"]],
            "scaling": choice("scaling", spec.Scaling),
            "bucket_mb": optional("bucket_mb", parse.number("--bucket-mb")),
            "compress": choice("compress", spec.Compress),
            "accumulate": parse.several(words["accumulate"], parse.whole("--accumulate")),
            "processes": choice("processes", spec.Processes),
            "cores": automatic("cores"),
            "devices": there.counts(wanted),
            "exchange": choice("exchange", spec.Exchange),
        }
        if axes["batch"] == [None]:
            axes["batch"] = [network.batch]
        cells += expand(axes)
    cells = _share_out(cells, there)
    cells = [fitted for trial in cells for fitted in _fit_data(trial, ladder)]
    for trial in cells:
        build(trial.network, trial.image_size, trial.classes, trial.width, trial.auxiliary)
    return cells


def _share_out(cells: list[Trial], there: Room) -> list[Trial]:
    """Cells with each device's part of a given batch, and of its machine's cores."""
    from convdyno.run.share import gpus
    from convdyno.trial.spec import Trial, make_trial

    most = max(trial.devices for trial in cells)
    found: list[Trial] = []
    for trial in cells:
        changes: dict[str, Any] = {"hosts": there.hosts(trial.devices)}
        if trial.cores is None and (trial.device == "cpu" or not gpus()):
            changes["cores"] = there.cores(most)
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
    from convdyno.data.recognise import open_source
    from convdyno.data.source import Arrays

    source = open_source(data, split)
    if isinstance(source, Arrays):
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
    kind = parse.one_of("optimiser", ("sgd", "adam"))(words["optimiser"] or own)
    rate = parse.number("--rate")(words["rate"]) if words["rate"] is not None else None
    default = {"sgd": 1e-3, "adam": 1e-4}[kind]
    return {"kind": kind, "rate": default if rate is None else rate}


def _loss_scale(word: str) -> float | str:
    return word if word == "dynamic" else parse.number("--loss-scale")(word)

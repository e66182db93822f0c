"""What was asked for into cells, checked as far as they can be without a framework.

Only a batch of `max`, the largest that memory holds, is found by trying.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import cache, partial, wraps
from typing import Any, ParamSpec, TypeVar

from convdyno.app.requests import Measurement
from convdyno.data import SOURCES
from convdyno.data.detect import open_source
from convdyno.data.source import DecodedImages, Facts, Split
from convdyno.engines import registry
from convdyno.errors import TrialFailed, UsageError
from convdyno.launch.launcher import Launcher, Room
from convdyno.report.format import duration
from convdyno.stage.batch_search import BatchSearch
from convdyno.stage.progress import Narrator
from convdyno.trial import axes
from convdyno.trial.axes import AXES, MAX, Given, Need
from convdyno.trial.spec import Trial, make_trial
from convdyno.trial.sweep import expand
from convdyno.zoo.registry import build, find

P = ParamSpec("P")
T = TypeVar("T")
LADDER = {
    "encoded": ("device", "host", "decoded", "bytes", "source"),
    "arrays": ("device", "host", "source"),
}
"""The rungs of a bottleneck ladder, the lowest first."""
WITHOUT_FRAMEWORK = {"clockwork", "reference"}
"""Engines to try things with; they take whatever any other one takes."""
RATES = {"sgd": 1e-3, "adam": 1e-4}
"""What is usual for each update rule."""


def make_trials(there: Room, given: Given, batches: Mapping[str, int] | None = None) -> list[Trial]:
    """The cells that the axes make: every combination of their values.

    `batches` are those of networks for which none is given, if not their own.
    """
    values = axes.read(given)
    (ladder,) = values["ladder"]
    if ladder and set(values["data"]) & SOURCES.keys():
        raise UsageError("--ladder shows what real data cost: give them with --data PATH")
    if MAX in values["batch"]:
        axes.find("batch").read(MAX)
    engines = _chosen(",".join(filter(None, values["engine"])) or None)
    decided = {"engine": engines, "devices": _counts(there, values["devices"])}
    plain = [a.name for a in AXES if a.commands and a.of_trial == a.name and a.kind != "again"]
    cells: list[Trial] = []
    usual = batches or {}
    for name in dict.fromkeys(values["network"]):
        network = find(name)
        own = {
            "network": [name],
            "batch": [size or usual.get(name, network.batch) for size in values["batch"]],
            "optimiser": [
                {"kind": kind, "rate": rate or RATES[kind]}
                for kind in (kind or network.optimiser for kind in values["optimiser"])
                for rate in values["rate"]
            ],
        }
        cells += expand({"network": []} | {n: values[n] for n in plain} | decided | own)
    cells = _share_out(cells, there)
    cells = [fitted for trial in cells for fitted in _fit_data(trial, ladder)]
    for trial in cells:
        _drawn(trial.network, trial.image_size, trial.classes, trial.width, trial.auxiliary)
    return cells


def refuse_idle(given: Given) -> None:
    """Refuse what would change nothing in any of the cells that are asked for."""
    values = axes.read(given)
    engines = _chosen(",".join(filter(None, values["engine"])) or None)
    plain = bool(set(engines) & WITHOUT_FRAMEWORK)
    there: dict[Need, tuple[bool, str]] = {
        "real data": (bool(set(values["data"]) - SOURCES.keys()), "these are made up"),
        "training": ("train" in values["mode"], "this is inference"),
        "inference": ("infer" in values["mode"], "this is training"),
        "JAX": (plain or "jax" in engines, f"this is {engines[0]}"),
        "Keras": (plain or any("keras" in one for one in engines), f"this is {engines[0]}"),
    }
    for name in given:
        axis = axes.find(name)
        if values[name] != axis.values(axis.default):
            for need in axis.needs:
                is_there, instead = there[need]
                if not is_there:
                    raise UsageError(
                        f"{axis.option} is about {need}, and {instead}: leave it out, or "
                        f"give {HOW[need]}"
                    )


HOW: Mapping[Need, str] = {
    "real data": "--data PATH", "training": "--mode train", "inference": "--mode infer",
    "JAX": "--engine jax", "Keras": "--engine keras/torch",
}  # fmt: skip
"""How to get what an axis needs."""


def check_word(name: str, word: str) -> None:
    """Say what is wrong with one value of an axis, if anything is."""
    known: Any = {"network": find, "engine": registry.chosen}
    (known.get(name) or axes.find(name).read)(word)


@cache
def _drawn(*about: Any) -> None:
    """Say what keeps a network from being built; a sweep asks this of very many trials."""
    build(*about)


_chosen = cache(registry.chosen)


def _counts(there: Room, wanted: list[int | None]) -> list[int]:
    given = [count for count in wanted if count is not None]
    return there.counts(given or None)


def shared_out(there: Launcher, given: Given) -> dict[str, Any]:
    """The fields of a trial that say over how many devices it is spread, and what each has."""
    values = {name: one_value(name, given) for name in ("devices", "cores", "device")}
    (count,) = _counts(there, [values["devices"]])
    cores = values["cores"]
    if cores is None:
        cores = there.cores(count, values["device"])
    return {"devices": count, "hosts": there.hosts(count), "cores": cores}


def one_value(name: str, given: Given) -> Any:
    """The value of an axis for what runs one trial; None where it is left to others."""
    axis = axes.find(name)
    if name not in given:
        return axis.values(axis.default)[0]
    found = axis.values([given[name]] if isinstance(given[name], str) else given[name])
    if len(found) != 1:
        raise UsageError(f"{name} has one value here, not {len(found)}")
    return found[0]


def _share_out(cells: list[Trial], there: Room) -> list[Trial]:
    """Cells with each device's part of a given batch, and of its machine's cores."""
    most = max(trial.devices for trial in cells)
    alone = {name: Trial.model_fields[name].default for name in axes.names(together=True)}
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
        if trial.engine not in WITHOUT_FRAMEWORK | {"jax"}:  # Nobody else has tuned ones.
            changes["kernels"] = "native"
        if trial.devices == 1:  # There is nothing to exchange, so ways to do it are one cell.
            changes |= alone
        made = make_trial(**trial.model_dump() | changes)
        if not (made in found and trial.differs_in(made)):
            found.append(made)
    return found


def split_of(trial: Trial) -> Split:
    """The part of real data that a trial reads."""
    return "train" if trial.mode == "train" else "validation"


def looks_anew(use_case: Callable[P, T]) -> Callable[P, T]:
    """A use case for which data sets are what they are now, not what an earlier one found."""

    @wraps(use_case)
    def run(*given: P.args, **named: P.kwargs) -> T:
        look_into.cache_clear()
        return use_case(*given, **named)

    return run


@cache
def look_into(data: str, split: Split) -> tuple[Facts, bool]:
    """What real data are, and whether they are held decoded."""
    source = open_source(data, split)
    if isinstance(source, DecodedImages):
        return source.facts, True
    source.close()
    return source.facts, False


def classes_of(data: str, split: Split, wanted: int | None) -> int:
    """How many classes a network for real data has: as wanted, or as many as they have."""
    there = len(look_into(data, split)[0].classes)
    if wanted is not None and wanted < there:
        raise UsageError(f"{data} has {there} classes, more than the {wanted} of --classes")
    return wanted or max(2, there)


def _fit_data(trial: Trial, ladder: bool) -> list[Trial]:
    """A trial whose classes are those of its data, on every rung if a ladder is wanted."""
    if trial.data in SOURCES:
        return [trial]
    split = split_of(trial)
    classes = classes_of(trial.data, split, trial.classes)
    decoded = look_into(trial.data, split)[1]
    rungs = LADDER["arrays" if decoded else "encoded"] if ladder else (trial.rung,)
    return [trial.model_copy(update={"classes": classes, "rung": rung}) for rung in rungs]


def trials_that_fit(
    there: Launcher, request: Measurement, narrator: Narrator, batches: Mapping[str, int]
) -> list[Trial]:
    """The cells that were asked for, the largest batch found by trying."""
    given = request.given
    if MAX not in _values("batch", given):
        return make_trials(there, given, batches)
    if "strong" in _values("scaling", given):
        raise UsageError("--batch max is each device's own: it goes with --scaling weak")
    numbers = [size for size in _values("batch", given) if size != MAX]
    fixed = make_trials(there, given | {"batch": numbers}) if numbers else []
    sizable = make_trials(there, given | {"batch": None})
    there.check(sizable)
    found = [with_room(there, one, request, narrator) for one in sizable]
    return list(dict.fromkeys([*fixed, *found]))


def with_room(there: Launcher, trial: Trial, request: Measurement, narrator: Narrator) -> Trial:
    """A trial with the largest batch that fits; with one image where nothing does."""
    seconds = request.read("budget")
    narrator.tell(f"{trial.label}: looking for the largest batch, {duration(seconds)} at most")
    search = BatchSearch(
        start=partial(there.start, rank_seconds=request.read("rank_timeout")),
        trial=trial,
        until=time.monotonic() + seconds,
        silence_seconds=request.read("watchdog"),
        tell=narrator.trying,
    )
    try:
        room = search.run()
    except TrialFailed:  # Whatever it is, the cell will say so.
        return trial
    finally:
        narrator.clear()
    (narrator.tell if room.batch else narrator.say)(f"{trial.label}: {room.sentence}")
    return trial.model_copy(update={"batch": room.batch or trial.accumulate})


def _values(name: str, given: Given) -> list[object]:
    axis = axes.find(name)
    return axis.values(given.get(name, axis.default))

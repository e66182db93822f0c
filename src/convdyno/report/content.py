"""What a report says, whatever it is written as: cells, ratios, curves, ladders, what to mind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from convdyno.report.document import Certificates
from convdyno.report.entries import Entry, Gathered, TrainingRun
from convdyno.report.ladders import Climbed, climbed
from convdyno.report.pairs import (
    AXES,
    MACHINE,
    SHAPES,
    Pair,
    family_of,
    judge,
    natural,
    pairs_along,
    written,
)
from convdyno.report.rows import Row
from convdyno.report.scaling import Curve, curves
from convdyno.report.words import clock, percent, quantity, rate, span
from convdyno.results import machines
from convdyno.trial.spec import Trial

MAIN = ("network", "engine", "mode", "precision", "batch", "devices")
"""The settings that every table shows."""
UNTOLD = frozenset({*MAIN, "optimiser", "seed", "hosts", "cores", "scaling"})
"""Settings that are shown elsewhere, or that say little."""
NOT_ASKED = SHAPES | {MACHINE, "batch", "seed", "optimiser", "data", "staged", "slurm", "cores"}
"""Axes along which a report forms no ratios of its own: `convdyno compare` does."""
MOST_PAIRS = 24
"""Ratios of one network, mode and machine."""
MOST_FAMILIES = 12
DEFAULTS = {name: one.default for name, one in Trial.model_fields.items()}


@dataclass(frozen=True, eq=False)
class Family:
    """The ratios of one network and mode on one machine, judged together."""

    network: str
    mode: str
    machine: str
    pairs: tuple[Pair, ...]
    left_out: int
    """Pairs that there are besides."""


@dataclass(frozen=True, eq=False)
class Found:
    """A curve or a ladder, with the cells that it is made of in its own order."""

    what: Curve | Climbed
    entries: tuple[Entry, ...]


@dataclass
class Content:
    """A report before it is written."""

    gathered: Gathered
    cells: list[Entry]
    """In the order of the tables: by network and mode, the fastest first."""
    newest: set[str]
    """Ids of the latest record of each trial on each machine."""
    families: list[Family] = field(default_factory=list)
    families_left_out: int = 0
    curves: list[Found] = field(default_factory=list)
    ladders: list[Found] = field(default_factory=list)

    @property
    def latest(self) -> list[Entry]:
        """The newest measured record of each trial on each machine, for the charts."""
        measured = [cell for cell in self.cells if cell.headline and not cell.role]
        newest = _newest(measured)
        return [cell for cell in measured if cell.id in newest]

    def warnings(self) -> dict[str, list[Entry]]:
        """What to mind, and of which cells."""
        found: dict[str, list[Entry]] = {}
        for cell in self.cells:
            for text in cell.warnings:
                found.setdefault(text, []).append(cell)
        return dict(sorted(found.items(), key=lambda item: -len(item[1])))

    def failures(self) -> dict[tuple[str, str], list[Entry]]:
        """Cells that did not end well, by status and reason."""
        found: dict[tuple[str, str], list[Entry]] = {}
        for cell in self.cells:
            if cell.status != "ok":
                found.setdefault((cell.status, cell.reason or ""), []).append(cell)
        return dict(sorted(found.items(), key=lambda item: -len(item[1])))


def make_content(gathered: Gathered, certificates: Certificates) -> Content:
    """All that a report says about what was gathered."""
    cells = sorted(gathered.entries, key=_place)
    content = Content(gathered, cells, _newest(cells))
    content.families, content.families_left_out = _families(gathered.entries, certificates)
    content.curves = list(_curves(gathered))
    content.ladders = list(_ladders(gathered.entries))
    return content


def settings_of(trial: Trial, untold: Collection[str] = UNTOLD) -> str:
    """The settings of a cell that are not what they are by default, in words."""
    return ", ".join(
        said(name, value)
        for name, value in trial.__dict__.items()
        if name not in untold and value != DEFAULTS[name]
    )


def said(name: str, value: Any) -> str:
    """One setting in words."""
    if name == "data":
        return str(value)
    words = name.replace("_", " ")
    return (
        (words if value else f"no {words}")
        if isinstance(value, bool)
        else (f"{words} {written(value)}")
    )


def labels_of(trials: Sequence[Trial]) -> list[str]:
    """What tells each of some trials from the others."""
    if not trials:
        return []
    names = {name for trial in trials for name in trial.differs_in(trials[0])}
    shown = [n for n in Trial.model_fields if n in names and n != "optimiser"] or ["engine"]
    return [", ".join(filter(None, (_word(trial, name) for name in shown))) for trial in trials]


def cell_rows(cells: Sequence[Entry]) -> list[dict[str, str]]:
    """Cells as rows of words."""
    return [
        {
            "network": cell.trial.network,
            "engine": cell.trial.engine,
            "mode": cell.trial.mode,
            "precision": cell.trial.precision,
            "batch": str(cell.trial.batch),
            "devices": str(cell.trial.devices),
            "settings": settings_of(cell.trial),
            "images/s": rate(cell.rate),
            "95 % interval": _interval(cell),
            "of peak": percent(cell.share_of_peak),
            "first step": span(cell.first_step_seconds),
            "memory": quantity(cell.memory_bytes, "B") if cell.memory_bytes else "-",
            "status": cell.status,
        }
        for cell in cells
    ]


def training_row(run: TrainingRun) -> dict[str, str]:
    """A run of training as a row of words."""
    training, result = run.record.training, run.record.result or {}
    trial, best, until = training.trial, result.get("best"), training.until
    reached = "reached" if result.get("reached") else "not reached"
    return {
        "network": trial.network,
        "data": trial.data,
        "engine": trial.engine,
        "precision": trial.precision,
        "recipe": training.recipe,
        "seed": str(trial.seed),
        "status": run.record.status,
        "best top-1": "-" if best is None else f"{100 * best:.2f} %",
        "target": "-" if until is None else f"{percent(until)} {reached}",
        "time": clock(result["seconds"]) if result.get("seconds") else "-",
        "folder": str(run.folder),
    }


def _interval(cell: Entry) -> str:
    found = cell.headline
    if found is None or found.low is None:
        return "-"
    return f"{rate(found.low)} to {rate(found.high)}"


def _word(trial: Trial, name: str) -> str:
    """A setting that is as it is by default goes without saying, unless everybody asks for it."""
    value = getattr(trial, name)
    if name not in MAIN and value == DEFAULTS[name]:
        return ""
    return str(value) if name in ("network", "engine", "mode", "precision") else said(name, value)


def _place(entry: Entry) -> Any:
    return natural(entry.trial.network), entry.trial.mode, -(entry.rate or 0.0), entry.id


def _by_age(entries: Iterable[Entry]) -> list[Entry]:
    return sorted(entries, key=lambda entry: entry.created)


def _newest(entries: Iterable[Entry]) -> set[str]:
    """Ids of the latest of each trial on each machine."""
    ids = {(entry.trial, entry.machine, entry.role): entry.id for entry in _by_age(entries)}
    return set(ids.values())


def _families(entries: Sequence[Entry], certificates: Certificates) -> tuple[list[Family], int]:
    """The ratios to show: chosen by what was asked and when, never by what came out."""
    places: dict[tuple[str, str, str], list[Entry]] = {}
    for entry in _by_age(entries):
        place = entry.trial.network, entry.trial.mode, entry.machine
        places.setdefault(place, []).append(entry)
    newest = sorted(places.values(), key=lambda group: group[-1].created, reverse=True)
    shown: list[Family] = []
    tried = 0
    for group in newest:
        if len(shown) == MOST_FAMILIES:
            break
        tried += 1
        pairs = [pair for axis in _axes(group) for pair in pairs_along(axis, group)]
        if pairs:
            chosen = judge(_chosen(pairs), certificates)
            chosen.sort(key=lambda p: (AXES.index(p.axis), -abs((p.found.ratio or 1.0) - 1)))
            shown.append(Family(*family_of(pairs[0]), tuple(chosen), len(pairs) - len(chosen)))
    shown.sort(key=lambda family: (natural(family.network), family.mode))
    return shown, len(places) - tried


def _chosen(pairs: Sequence[Pair]) -> list[Pair]:
    """As many as a chart can hold: every question once, then once more with other settings.

    A question is two values of an axis, for each engine. Pairs of one run come before others, newer
    ones before older ones, large batches before small ones.
    """
    best = sorted(pairs, key=lambda pair: pair.a.trial.batch, reverse=True)
    best.sort(key=lambda pair: pair.a.created, reverse=True)
    best.sort(key=lambda pair: not pair.paired)
    asked: Counter[tuple[str, ...]] = Counter()
    times = []
    for pair in best:
        engine = "" if pair.axis == "engine" else pair.a.trial.engine
        question = pair.axis, *pair.values, engine
        times.append(asked[question])
        asked[question] += 1
    order = sorted(range(len(best)), key=lambda n: (times[n], AXES.index(best[n].axis), n))
    return [best[n] for n in order[:MOST_PAIRS]]


def _axes(entries: Sequence[Entry]) -> Iterator[str]:
    """The axes along which anything differs at all."""
    for axis in AXES:
        if axis not in NOT_ASKED:
            first = entries[0].trial if entries else None
            if any(getattr(e.trial, axis) != getattr(first, axis) for e in entries):
                yield axis


def _curves(gathered: Gathered) -> Iterator[Found]:
    """The scaling curves, each from the newest run that has it, one device included.

    Jobs and sweeps may measure each number of devices in a run of its own: what is in no curve yet
    is shown with the newest cells of one place.
    """
    runs: dict[Hashable, list[Entry]] = {}
    places: dict[tuple[Hashable, ...], dict[Trial, Entry]] = {}
    for entry in _by_age(gathered.measured):
        if not entry.role:
            trial = entry.trial
            work = trial.network, trial.engine, trial.mode, trial.precision
            runs.setdefault((entry.run, *work), []).append(entry)
            places.setdefault((_where(entry, gathered), *work), {})[trial] = entry
    shown: set[tuple[Hashable, Trial]] = set()
    whole = [group for group in runs.values() if any(e.trial.devices == 1 for e in group)]
    for group in sorted(whole, key=lambda g: g[-1].created, reverse=True):
        place = _where(group[-1], gathered)
        if not _crews(group, place) <= shown:
            for curve in curves(_rows(group)):
                points = {(place, point.trial) for point in curve.points}
                if curve.baseline is not None and not points & shown:
                    shown |= points
                    yield Found(curve, tuple(group))
    rest = [(place, [*cells.values()]) for (place, *_), cells in places.items()]
    for place, group in sorted(rest, key=lambda one: max(e.created for e in one[1]), reverse=True):
        if not _crews(group, place) <= shown:
            for curve in curves(_rows(group)):
                if not {(place, point.trial) for point in curve.points} <= shown:
                    yield Found(curve, tuple(group))


def _where(entry: Entry, gathered: Gathered) -> Hashable:
    """The machine; of a job, what Slurm gives to all that ask for the same."""
    machine = gathered.machines[entry.machine]
    if entry.trial.slurm:
        return machines.make(machine), entry.trial.slurm
    return machine.get("host"), machines.kind(machine)


def _crews(group: Iterable[Entry], place: Hashable) -> set[tuple[Hashable, Trial]]:
    return {(place, entry.trial) for entry in group if entry.trial.devices > 1}


def _ladders(entries: Sequence[Entry]) -> Iterator[Found]:
    """The ladders, each from the newest run that has it."""
    groups: dict[tuple[str, Trial], list[Entry]] = {}
    for entry in entries:
        if entry.headline is not None:
            work = entry.trial.model_copy(update={"rung": "source"})
            groups.setdefault((entry.run, work), []).append(entry)
    several = {key: group for key, group in groups.items() if len(group) > 1}
    seen: set[tuple[Trial, str]] = set()
    for (_, work), group in sorted(several.items(), key=lambda g: g[1][-1].created, reverse=True):
        if (work, group[-1].machine) in seen:
            continue
        for ladder in climbed(_rows(group)):
            seen.add((work, group[-1].machine))
            yield Found(ladder, tuple(group))


def _rows(group: Sequence[Entry]) -> list[Row]:
    return [entry.row() for entry in group]

"""What a report says, whatever it is written as: cells, ratios, curves, ladders, what to mind."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from convdyno.machine import kinds
from convdyno.report.cell import Cell, K, grouped, place_of, warnings_of
from convdyno.report.cells import Gathered, TrainingRun
from convdyno.report.comparisons import (
    AXES,
    MACHINE,
    SHAPES,
    Certificates,
    Pair,
    family_of,
    judge,
    pairs_along,
)
from convdyno.report.format import accuracy, duration, natural, percent
from convdyno.report.history import NetworkHistory, histories
from convdyno.report.ladders import Climbed, climbed, whole_input
from convdyno.report.scaling import Curve, curves
from convdyno.trial.spec import Trial

NOT_ASKED = SHAPES | {MACHINE, "batch", "seed", "optimiser", "data", "staged", "slurm", "cores"}
"""Axes along which a report forms no ratios of its own: `convdyno compare` does."""
MOST_PAIRS = 24
"""Ratios of one network, mode and machine."""
MOST_FAMILIES = 12


@dataclass(frozen=True, eq=False)
class Family:
    """The ratios of one network and mode on one machine, judged together."""

    network: str
    mode: str
    machine: str
    pairs: tuple[Pair, ...]
    left_out: int
    """Pairs that there are besides."""


@dataclass
class ReportModel:
    """A report before it is written."""

    gathered: Gathered
    cells: list[Cell]
    """In the order of the tables: by network and mode, the fastest first."""
    newest: set[str]
    """Ids of the latest record of each trial on each machine."""
    families: list[Family]
    families_left_out: int
    curves: list[Curve]
    ladders: list[Climbed]
    histories: list[NetworkHistory]
    histories_left_out: int

    @property
    def latest(self) -> list[Cell]:
        """The newest measured record of each trial on each machine, for the charts."""
        measured = [cell for cell in self.cells if cell.headline and not cell.role]
        newest = _newest(measured)
        return [cell for cell in measured if cell.id in newest]

    def versions(self, machine: str) -> list[tuple[str, str]]:
        """The packages and their versions that were used on a machine, each once."""
        there = (cell for cell in self.cells if cell.machine == machine)
        return list(dict.fromkeys(used for cell in there for used in cell.versions.items()))

    def warnings(self) -> dict[str, list[Cell]]:
        """What to mind, and of which cells."""
        return _most_first(warnings_of(self.cells))

    def failures(self) -> dict[tuple[str, str], list[Cell]]:
        """Cells that did not end well, by status and reason."""
        failed = (cell for cell in self.cells if cell.status != "ok")
        return _most_first(grouped(failed, lambda cell: (cell.status, cell.reason or "")))


def make_report(gathered: Gathered, certificates: Certificates) -> ReportModel:
    """All that a report says about what was gathered."""
    cells = sorted(gathered.cells, key=_place)
    families = _families(gathered.cells, certificates)
    scaling, ladders = list(_curves(gathered)), list(_ladders(gathered.cells))
    past = histories(gathered.cells)
    return ReportModel(gathered, cells, _newest(cells), *families, scaling, ladders, *past)


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
        "best top-1": "-" if best is None else accuracy(best),
        "target": "-" if until is None else f"{percent(until)} {reached}",
        "time": duration(result["seconds"]) if result.get("seconds") else "-",
        "folder": str(run.folder),
    }


def _most_first(found: dict[K, list[Cell]]) -> dict[K, list[Cell]]:
    return dict(sorted(found.items(), key=lambda item: -len(item[1])))


def _place(cell: Cell) -> Any:
    return natural(cell.trial.network), cell.trial.mode, -(cell.images_per_second or 0.0), cell.id


def _by_age(cells: Iterable[Cell]) -> list[Cell]:
    return sorted(cells, key=lambda cell: cell.created)


def _newest(cells: Iterable[Cell]) -> set[str]:
    """Ids of the latest of each trial on each machine."""
    ids = {(cell.trial, cell.machine, cell.role): cell.id for cell in _by_age(cells)}
    return set(ids.values())


def _families(cells: Sequence[Cell], certificates: Certificates) -> tuple[list[Family], int]:
    """The ratios to show: chosen by what was asked and when, never by what came out."""
    places = grouped(_by_age(cells), place_of)
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
    questions = grouped(best, _question).values()
    asked = {pair: times for group in questions for times, pair in enumerate(group)}
    return sorted(best, key=lambda pair: (asked[pair], AXES.index(pair.axis)))[:MOST_PAIRS]


def _question(pair: Pair) -> tuple[str, ...]:
    return pair.axis, *pair.values, "" if pair.axis == "engine" else pair.a.trial.engine


def _axes(cells: Sequence[Cell]) -> Iterator[str]:
    """The axes along which anything differs at all."""
    for axis in AXES:
        if axis not in NOT_ASKED and len({getattr(cell.trial, axis) for cell in cells}) > 1:
            yield axis


def _curves(gathered: Gathered) -> Iterator[Curve]:
    """The scaling curves, each from the newest run that has it, one device included.

    Jobs and sweeps may measure each number of devices in a run of its own: what is in no curve yet
    is shown with the newest cells of one place.
    """
    runs: dict[Hashable, list[Cell]] = {}
    places: dict[tuple[Hashable, ...], dict[Trial, Cell]] = {}
    for cell in _by_age(gathered.measured):
        if not cell.role:
            trial = cell.trial
            work = trial.network, trial.engine, trial.mode, trial.precision
            runs.setdefault((cell.run_name, *work), []).append(cell)
            places.setdefault((_where(cell, gathered), *work), {})[trial] = cell
    shown: set[tuple[Hashable, Trial]] = set()
    whole = [group for group in runs.values() if any(e.trial.devices == 1 for e in group)]
    for group in sorted(whole, key=lambda g: g[-1].created, reverse=True):
        place = _where(group[-1], gathered)
        if not _crews(group, place) <= shown:
            for curve in curves(group):
                points = {(place, point.trial) for point in curve.points}
                if curve.baseline is not None and not points & shown:
                    shown |= points
                    yield curve
    rest = [(place, [*cells.values()]) for (place, *_), cells in places.items()]
    for place, group in sorted(rest, key=lambda one: max(e.created for e in one[1]), reverse=True):
        if not _crews(group, place) <= shown:
            for curve in curves(group):
                if not {(place, point.trial) for point in curve.points} <= shown:
                    yield curve


def _where(cell: Cell, gathered: Gathered) -> Hashable:
    """The machine; of a job, what Slurm gives to all that ask for the same."""
    machine = gathered.machines[cell.machine]
    if cell.trial.slurm:
        return kinds.make(machine), cell.trial.slurm
    return machine.get("host"), kinds.kind(machine)


def _crews(group: Iterable[Cell], place: Hashable) -> set[tuple[Hashable, Trial]]:
    return {(place, cell.trial) for cell in group if cell.trial.devices > 1}


def _ladders(cells: Sequence[Cell]) -> Iterator[Climbed]:
    """The ladders, each from the newest run that has it."""
    measured = (cell for cell in cells if cell.headline is not None)
    groups = grouped(measured, lambda cell: (cell.run_name, whole_input(cell.trial)))
    several = {key: group for key, group in groups.items() if len(group) > 1}
    seen: set[tuple[Trial, str]] = set()
    for (_, work), group in sorted(several.items(), key=lambda g: g[1][-1].created, reverse=True):
        if (work, group[-1].machine) in seen:
            continue
        for ladder in climbed(group):
            seen.add((work, group[-1].machine))
            yield ladder

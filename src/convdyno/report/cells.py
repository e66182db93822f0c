"""The cells of some folders: each record is read once, its figures are taken and it is let go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from convdyno.errors import BadStore
from convdyno.report.cell import Cell, Shared, cell_of
from convdyno.store.folder import Store
from convdyno.store.training_runs import NAME, RunRecord, read_history, read_run
from convdyno.store.where import parse_condition, select


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """One run of training: its record, and its test accuracies over time."""

    folder: Path
    record: RunRecord
    looks: tuple[tuple[float, float], ...]
    """Seconds of training and top-1 accuracy of each evaluation."""


@dataclass
class Gathered:
    """All that a report is made of."""

    cells: list[Cell] = field(default_factory=list)
    machines: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By the names that cells have for them, as they were last."""
    trainings: list[TrainingRun] = field(default_factory=list)
    stores: list[Store] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    """A sentence for each file that is no record."""

    @property
    def measured(self) -> list[Cell]:
        """The cells that have a headline."""
        return [cell for cell in self.cells if cell.headline is not None]


def gather(places: Sequence[Path], where: Sequence[str] = ()) -> Gathered:
    """Read what is in some folders: records for which all conditions hold, and runs of training.

    A record that is in several of them counts once.
    """
    conditions = [parse_condition(text) for text in where]
    found, shared = Gathered(), Shared()
    known: set[str] = set()
    heads = []
    for place in dict.fromkeys(places):
        if not where:
            _read_trainings(place, found)
        if (place / NAME).exists():
            continue
        store = Store(place)
        found.stores.append(store)
        for file, record in store.files():
            if record.id in known:
                continue
            known.add(record.id)
            if where and not found.cells:
                heads.append(record.but(processes=()))
            if all(condition.holds(record) for condition in conditions):
                cell = cell_of(record, file, shared)
                found.machines[cell.machine] = record.machine
                found.cells.append(cell)
        # What a run of training keeps there is no stray file.
        ours = f"/{NAME} is not a record"
        found.skipped += [sentence for sentence in store.skipped if ours not in sentence]
    if where and not found.cells:
        select(heads, where)  # Says which word no record has.
    return found


def _read_trainings(place: Path, found: Gathered) -> None:
    """The runs of training in a folder, or in the folders of its runs and their seeds."""
    known = {run.folder.resolve() for run in found.trainings}
    for path in sorted([*place.glob(NAME), *place.glob(f"*/{NAME}"), *place.glob(f"*/*/{NAME}")]):
        if path.parent.resolve() in known:
            continue
        try:
            record = read_run(path.parent)
        except BadStore as wrong:
            found.skipped.append(str(wrong))
            continue
        found.trainings.append(TrainingRun(path.parent, record, _looks(path.parent, record)))


def _looks(folder: Path, record: RunRecord) -> tuple[tuple[float, float], ...]:
    """When each evaluation was, and what it found."""
    try:
        lines = read_history(folder / "history.jsonl")
    except OSError:
        return ()
    result = record.result or {}
    # Earlier versions noted the step alone: training goes on at an even pace.
    pace = (result.get("seconds") or 0.0) / (result.get("step") or 1)
    return tuple(
        (float(line.get("seconds", pace * line["step"])), float(line["top1"]))
        for line in lines
        if line.get("kind") == "evaluated"
    )

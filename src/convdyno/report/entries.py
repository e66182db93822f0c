"""Records as a report holds them: ten thousand at a time, each without what is not shown.

A record is read, its figures and its rounds are taken, and the rest is let go; what only few need
is read from its file again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from convdyno.errors import BadStore
from convdyno.report.rows import Row
from convdyno.results.machines import kind
from convdyno.results.record import NetworkFacts, Record, Status
from convdyno.results.runs import NAME, RunRecord, read_history, read_run
from convdyno.results.select import parse_condition, select
from convdyno.results.store import Store, read_record
from convdyno.stats.rounds import Round
from convdyno.stats.rounds_of_record import numbered
from convdyno.stats.summary import Interval, interval
from convdyno.trial.spec import Trial

UNKNOWN = "a machine that is not known"


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """One record: what it is, and its figures."""

    file: Path
    id: str
    created: str
    status: Status
    reason: str | None
    trial: Trial
    network: NetworkFacts | None
    machine: str
    """The host and what it is, by which machines are told apart."""
    run: str
    """Of cells that were measured in turns the same."""
    role: str
    """What it was measured for, if not for itself."""
    command: str
    """What the run was started with."""
    headline: Interval | None
    rounds: Mapping[int, Round]
    """The measured rounds by their number."""
    looks: int
    settings: Mapping[str, Any]
    versions: Mapping[str, str]
    labels: Mapping[str, str]
    warnings: tuple[str, ...]
    blocks: int
    contaminated: int
    first_step_seconds: float | None
    memory_bytes: int | None
    flops: float | None
    share_of_peak: float | None
    peaks: Mapping[str, float]
    images_per_joule: float | None

    @property
    def rate(self) -> float | None:
        """Images per second."""
        return self.headline.estimate if self.headline else None

    def row(self) -> Row:
        """The whole record, read again."""
        return Row(read_record(self.file), self.headline)


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

    entries: list[Entry] = field(default_factory=list)
    machines: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By the names that entries have for them, as they were last."""
    trainings: list[TrainingRun] = field(default_factory=list)
    stores: list[Store] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    """A sentence for each file that is no record."""

    @property
    def measured(self) -> list[Entry]:
        """The entries that have a headline."""
        return [entry for entry in self.entries if entry.headline is not None]


def gather(
    places: Sequence[Path],
    where: Sequence[str] = (),
    each: Callable[[Row], None] = lambda row: None,
) -> Gathered:
    """Read what is in some folders: records for which all conditions hold, and runs of training.

    A record that is in several of them counts once. `each` is given every row while it is whole.
    """
    conditions = [parse_condition(text) for text in where]
    found, same = Gathered(), _Same()
    known: set[str] = set()
    for place in dict.fromkeys(places):
        if not place.is_dir():
            raise BadStore(f"there is no results folder {str(place)!r}; `convdyno bench` makes one")
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
            if all(condition.holds(record) for condition in conditions):
                entry, row = _entry(record, file, same)
                found.machines[entry.machine] = record.machine
                found.entries.append(entry)
                each(row)
        found.skipped += [text for text in store.skipped if not _known(text)]
    if where and not found.entries:
        # Says which word no record has; then there is nothing to say.
        select((record for store in found.stores for record in store.records()), where)
    return found


def machine_name(record: Record) -> str:
    """The host and what it is; of several hosts, all of them."""
    hosts = {rank.host for process in record.processes for rank in process.ranks}
    if record.trial.hosts == 1 or not hosts:
        hosts = {str(record.machine.get("host") or "")}
    name = ", ".join(sorted(hosts - {""}))
    return f"{name}: {kind(record.machine)}" if name else UNKNOWN


def run_name(record: Record) -> str:
    """What the cells of one run have in common; earlier versions gave it no name."""
    return record.run or f"{record.created[:19]} {record.machine.get('host')} {record.command}"


class _Same:
    """One object for all that are equal: machines, versions and settings repeat."""

    def __init__(self) -> None:
        self._trials: dict[Trial, Trial] = {}
        self._facts: dict[NetworkFacts, NetworkFacts] = {}
        self._rest: dict[str, Any] = {}

    def trial(self, one: Trial) -> Trial:
        return self._trials.setdefault(one, one)

    def network(self, one: NetworkFacts | None) -> NetworkFacts | None:
        return None if one is None else self._facts.setdefault(one, one)

    def text(self, one: str) -> str:
        return str(self._rest.setdefault(f"text {one}", one))

    def plain(self, one: Mapping[str, Any]) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self._rest.setdefault(json.dumps(one, default=str), one)
        return found


def _entry(record: Record, file: Path, same: _Same) -> tuple[Entry, Row]:
    rounds = numbered(record)
    headline = interval(list(rounds.values()), looks=record.looks) if rounds else None
    row = Row(record, headline)
    entry = Entry(
        file=file,
        id=record.id,
        created=record.created,
        status=record.status,
        reason=record.reason,
        trial=same.trial(record.trial),
        network=same.network(record.network),
        machine=same.text(machine_name(record)),
        run=same.text(run_name(record)),
        role=record.role,
        command=same.text(record.command),
        headline=headline,
        rounds=rounds,
        looks=record.looks,
        settings=same.plain(record.settings or {}),
        versions=same.plain(record.versions),
        labels=same.plain(record.labels),
        warnings=tuple(same.text(text) for text in row.warnings),
        blocks=sum(len(taken.seconds) for taken in rounds.values()),
        contaminated=sum(int(taken.contaminated.sum()) for taken in rounds.values()),
        first_step_seconds=row.first_step_seconds,
        memory_bytes=row.memory_bytes,
        flops=row.flops,
        share_of_peak=row.share_of_peak,
        peaks=record.peaks,
        images_per_joule=row.images_per_joule if _counted(record) else None,
    )
    return entry, row


def _counted(record: Record) -> bool:
    """Whether joules were counted at all."""
    return record.energy is not None and not record.energy.reason


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


def _known(sentence: str) -> bool:
    """Whether a file that is no record of a benchmark is one that convdyno itself puts there."""
    return f"/{NAME} is not a record" in sentence

"""Cells of a store that are alike in all but one thing, and what their ratios say.

Cells of one run took turns, so their rounds are pairs. Cells of different runs on one machine are
compared all the same, and called unpaired: how the machine has changed in between is not in their
interval. Cells of unlike machines are not compared, unless the machine is what is asked about.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

from convdyno.errors import UnknownName, UsageError
from convdyno.report.document import Certificates, differing, doubt, refusal
from convdyno.report.entries import Entry
from convdyno.stats.compare import Comparison, PairedRounds
from convdyno.stats.holm import Unpaired, judge_family
from convdyno.stats.rounds_of_record import NO_RIVALRY, in_step
from convdyno.trial.spec import Trial

MACHINE, LABEL = "machine", "label."
AXES = (*(name for name in Trial.model_fields if name not in NO_RIVALRY), MACHINE)
"""Along what cells may be compared, besides labels."""
PLACES = {name: place for place, name in enumerate(Trial.model_fields)}
SHAPES = frozenset({"network", "image_size", "classes", "width", "auxiliary"})
"""Axes along which the network itself is another."""
UNJUDGED = refusal("")
MOST_OF_ALL_PAIRS = 8
"""So many values are compared each with each; more of them with one alone."""


@dataclass(frozen=True, slots=True, eq=False)
class Pair:
    """Two cells that differ in the axis alone, the values of it, and their ratio."""

    axis: str
    a: Entry
    b: Entry
    values: tuple[str, str]
    run: str | None
    """In which both took turns; None where there is none."""
    found: Comparison

    @property
    def paired(self) -> bool:
        """Whether both took turns in one run."""
        return self.run is not None

    @property
    def how(self) -> str:
        """In one word, for tables."""
        return "paired" if self.paired else "unpaired"

    def conditions(self) -> dict[str, list[Any]]:
        """Settings and versions that the two do not share, though nobody asked for it."""
        found = differing([self.a, self.b])
        for name in self.a.versions.keys() & self.b.versions.keys():
            versions = [self.a.versions[name], self.b.versions[name]]
            if versions[0] != versions[1]:
                found[name] = versions
        if self.a.trial.engine == self.b.trial.engine or self.axis == MACHINE:
            return found
        return {name: values for name, values in found.items() if name != self.axis}

    def sides(self) -> PairedRounds | Unpaired:
        """The rounds of both, as the statistics want them."""
        if self.paired:
            return PairedRounds(*in_step([self.a.rounds, self.b.rounds]))
        return Unpaired(list(self.a.rounds.values()), list(self.b.rounds.values()))


@dataclass(frozen=True, slots=True)
class Strangers:
    """Values of an axis that were only ever measured on unlike machines."""

    label: str
    places: tuple[tuple[str, str], ...]
    """Each value and the machine that it was measured on."""

    def __str__(self) -> str:
        places = "; ".join(f"{value} on {machine}" for value, machine in self.places)
        return f"{self.label}: not compared, unlike machines: {places}"


def check_axis(axis: str, entries: Iterable[Entry]) -> str:
    """The axis by its own name; what is none is answered with the nearest."""
    labels = {LABEL + name for entry in entries for name in entry.labels}
    name = axis if axis.startswith(LABEL) else axis.replace("-", "_")
    if name in NO_RIVALRY:
        raise UsageError(
            f"no cell is faster for its {name}: `convdyno report` shows what {name} "
            f"{'bring' if name == 'devices' else 'means'} as a curve or a ladder"
        )
    if name not in AXES and name not in labels:
        raise UnknownName("axis", axis, [*AXES, *sorted(labels)])
    return name


def pairs_along(axis: str, entries: Iterable[Entry], against: str | None = None) -> list[Pair]:
    """All pairs of measured cells that differ in the axis alone, not judged yet.

    The newest run that has both is taken, or else the newest cell of each.
    """
    groups: dict[Hashable, dict[str, list[Entry]]] = {}
    for entry in _measured(entries):
        if (value := value_of(entry, axis)) is not None:
            groups.setdefault(_rest(entry, axis), {}).setdefault(value, []).append(entry)
    return [
        _pair(axis, a, b, group) for group in groups.values() for a, b in _matches(group, against)
    ]


def strangers_along(axis: str, entries: Iterable[Entry]) -> list[Strangers]:
    """What cannot be compared because it was never measured on one machine."""
    if axis == MACHINE:
        return []
    groups: dict[Hashable, dict[str, dict[str, Entry]]] = {}
    for entry in _measured(entries):
        if (value := value_of(entry, axis)) is not None:
            places = groups.setdefault(_rest(entry, axis, anywhere=True), {})
            places.setdefault(entry.machine, {})[value] = entry
    found = []
    for places in groups.values():
        seen = {value: entry for values in places.values() for value, entry in values.items()}
        if len(seen) > 1 and all(len(values) == 1 for values in places.values()):
            where = tuple((value, entry.machine) for value, entry in seen.items())
            found.append(Strangers(_but(next(iter(seen.values())).trial, axis), where))
    return found


def judge(pairs: Sequence[Pair], certificates: Certificates) -> list[Pair]:
    """The same pairs with their ratios, those of one network, mode and machine as one family."""
    families: dict[Hashable, list[int]] = {}
    doubts = [_doubt(pair, certificates) for pair in pairs]
    for index, pair in enumerate(pairs):
        if not doubts[index]:
            families.setdefault(family_of(pair), []).append(index)
    judged = [replace(pair, found=refusal(why)) for pair, why in zip(pairs, doubts, strict=True)]
    for family in families.values():
        looks = max(max(pairs[i].a.looks, pairs[i].b.looks) for i in family)
        found = judge_family([pairs[i].sides() for i in family], looks=looks)
        for index, one in zip(family, found, strict=True):
            judged[index] = replace(pairs[index], found=one)
    return judged


def family_of(pair: Pair) -> tuple[str, str, str]:
    """What is told in one table and judged together: a network, a mode, a machine."""
    return pair.a.trial.network, pair.a.trial.mode, "" if pair.axis == MACHINE else pair.a.machine


def value_of(entry: Entry, axis: str) -> str | None:
    """A cell's value on an axis, as one would write it; None where it has none."""
    if axis == MACHINE:
        return entry.machine
    if axis.startswith(LABEL):
        return entry.labels.get(axis.removeprefix(LABEL))
    value = getattr(entry.trial, axis)
    # What an exchange costs, against none, is the scaling curve's to say.
    return None if (axis, value) == ("exchange", "independent") else written(value)


def written(value: Any) -> str:
    """A setting as the command line has it."""
    if value is None:
        return "auto"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return "x".join(map(str, value))
    if hasattr(value, "kind"):
        return f"{value.kind}, rate {value.rate:g}"
    return f"{value:g}" if isinstance(value, float) else str(value)


def natural(text: str) -> list[tuple[int, int | str]]:
    """A key that sorts 2 before 10."""
    parts = re.split(r"(\d+)", text)
    return [(0, int(part)) if part.isdigit() else (1, part) for part in parts]


def _measured(entries: Iterable[Entry]) -> Iterator[Entry]:
    return (entry for entry in entries if entry.headline is not None and not entry.role)


def _rest(entry: Entry, axis: str, *, anywhere: bool = False) -> Hashable:
    """All that cells must share to be compared along an axis."""
    digest = entry.network.digest if entry.network and axis not in SHAPES else None
    machine = None if anywhere or axis == MACHINE else entry.machine
    values = tuple(entry.trial.__dict__.values())
    place = PLACES.get(axis, len(values))
    return values[:place] + values[place + 1 :], digest, machine


def _matches(group: Mapping[str, list[Entry]], against: str | None) -> Iterator[tuple[str, str]]:
    """Which values of a group meet: all, or where there are many each with the fastest."""
    values = sorted(group, key=natural)
    if against is None and len(values) > MOST_OF_ALL_PAIRS:
        against = max(values, key=lambda value: group[value][-1].rate or 0.0)
    if against is None:
        return combinations(values, 2)
    return ((value, against) for value in values if value != against and against in group)


def _pair(axis: str, a: str, b: str, group: Mapping[str, list[Entry]]) -> Pair:
    one, other = group[a], group[b]
    runs = {entry.run: entry for entry in other}
    common = [entry for entry in one if entry.run in runs]
    if common:
        newest = common[-1]
        return Pair(axis, newest, runs[newest.run], (a, b), newest.run, UNJUDGED)
    return Pair(axis, one[-1], other[-1], (a, b), None, UNJUDGED)


def _doubt(pair: Pair, certificates: Certificates) -> str:
    return "" if pair.axis in SHAPES else doubt(pair.a.trial, pair.b.trial, certificates)


def _but(trial: Trial, axis: str) -> str:
    shown = [
        written(getattr(trial, name))
        for name in ("network", "engine", "mode", "precision")
        if name != axis
    ]
    return ", ".join([*shown, *([] if axis == "batch" else [f"batch {trial.batch}"])])

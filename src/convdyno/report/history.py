"""The runs of one cell over time: what was measured when, with which versions, and what changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from convdyno.report.cell import Cell, grouped
from convdyno.report.comparisons import Pair, comparison_data, judge
from convdyno.report.format import labels_of, natural, noun
from convdyno.report.uncertain import ends_of, known
from convdyno.stats.compare import Comparison

MOST_RUNS = 100
"""Of one cell: the newest."""
MOST_SERIES = 8
MOST_CHARTS = 12
CAVEAT = (
    "The runs of a cell are not pairs: they were at different times, so a change may come from the "
    "machine as well as from the versions, and its interval does not know that. To know what a "
    "new version costs, have both measured in turns: `convdyno gate`."
)


@dataclass(frozen=True, eq=False)
class Series:
    """The runs of one trial on one machine, the oldest first."""

    cells: tuple[Cell, ...]
    """Two or more; the last is the newest."""
    label: str
    """What tells it from the others of its network."""
    left_out: int
    """Older runs that there are besides."""
    change: Comparison
    """The images/s of the last run as a ratio to those of the one before."""

    @property
    def row(self) -> dict[str, str]:
        """The last two runs in words, for tables."""
        before, last = self.cells[-2:]
        days = [day(cell) for cell in (before, last)]
        if days[0][:10] != days[1][:10]:
            days = [one[:10] for one in days]
        return {
            "cell": f"{last.trial.network} {last.trial.mode}, {self.label}",
            "runs": str(len(self.cells) + self.left_out),
            "before": f"{_rate(before)} on {days[0]}",
            "last": f"{_rate(last)} on {days[1]}",
            "change": percentage(self.change),
            "verdict": self.change.verdict + ("; disturbed" if self.disturbed else ""),
            "versions": "; ".join(changed_versions(before, last)) or "the same",
        }

    @property
    def disturbed(self) -> bool:
        """Whether one of the last two runs was beside other work all the time."""
        return any(cell.disturbed for cell in self.cells[-2:])

    def to_data(self, numbers: Mapping[str, int]) -> dict[str, Any]:
        """The runs for machines; `numbers` are the places of cells by their id."""
        return {
            "cells": [numbers[cell.id] for cell in self.cells],
            "left_out": self.left_out,
            "change": comparison_data(self.change),
        }

    def changes(self) -> list[tuple[Cell, list[str]]]:
        """The runs before which a version changed, each with what became what."""
        steps = ((cell, changed_versions(old, cell)) for old, cell in pairwise(self.cells))
        return [(cell, words) for cell, words in steps if words]


@dataclass(frozen=True, eq=False)
class NetworkHistory:
    """The cells of one network and mode that were measured more than once."""

    network: str
    mode: str
    series: tuple[Series, ...]
    left_out: int
    """Cells with several runs that there are besides."""

    @property
    def changed(self) -> list[Series]:
        """Those whose last run was faster or slower than the one before, and not for other work."""
        verdicts = "faster", "slower"
        return [o for o in self.series if o.change.verdict in verdicts and not o.disturbed]


def histories(cells: Iterable[Cell]) -> tuple[list[NetworkHistory], int]:
    """What was measured more than once, the newest if that is much; how many networks are left out.

    What is shown is chosen by when it was measured, never by what came out.
    """
    whole = (c for c in cells if c.headline and not c.role and c.trial.rung == "source")
    runs = grouped(whole, lambda cell: (cell.trial, cell.machine))
    dated = (
        [cell for cell in group if moment(cell) is not None]
        for group in runs.values()
        if len(group) > 1
    )
    several = [sorted(group, key=_age) for group in dated if len(group) > 1]
    several.sort(key=lambda group: _age(group[-1]), reverse=True)
    places = grouped(several, lambda group: (group[0].trial.network, group[0].trial.mode))
    shown = [
        NetworkHistory(*place, _judged(groups[:MOST_SERIES]), max(0, len(groups) - MOST_SERIES))
        for place, groups in [*places.items()][:MOST_CHARTS]
    ]
    shown.sort(key=lambda one: (natural(one.network), one.mode))
    return shown, max(0, len(places) - MOST_CHARTS)


def changed_versions(old: Cell, new: Cell) -> list[str]:
    """Packages whose version is another than before: `torch 2.1 to 2.2`."""
    before, after = versions_of(old), versions_of(new)
    return [
        f"{name} {before[name]} to {version}"
        for name, version in after.items()
        if name in before and before[name] != version
    ]


def versions_of(cell: Cell) -> Mapping[str, str]:
    """The versions of convdyno and of what it ran with."""
    return {"convdyno": cell.convdyno, **cell.versions}


def moment(cell: Cell) -> datetime | None:
    """When it was begun; None where its record has something else than a time."""
    try:
        found = datetime.fromisoformat(cell.created)
        return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None


def day(cell: Cell) -> str:
    """When it was begun, to the minute, in UTC."""
    found = moment(cell)
    return f"{found:%Y-%m-%d %H:%M}" if found else "a day that is not known"


def percentage(found: Comparison) -> str:
    """A change in per cent with its interval: +12.1 % [+8.3, +16.0]."""
    if found.ratio is None:
        return "-"
    digits = 0 if found.verdict == "undecided" else 1
    told, *ends = (
        None if ratio is None else f"{100 * (ratio - 1):+.{digits}f}"
        for ratio in (found.ratio, found.low, found.high)
    )
    if None in ends:
        return f"{told} %"
    if found.high is not None and found.high > 10 * found.ratio:
        return f"{told} %, hardly known"
    return f"{told} % [{ends[0]}, {ends[1]}]"


def history_sentence(found: Sequence[NetworkHistory]) -> str:
    """What the newest runs say about those before them; nothing where there is no history."""
    every = [one for network in found for one in network.series]
    if not every:
        return ""
    changed = [one for network in found for one in network.changed]
    told = f"{noun(len(every), 'cell was', 'cells were')} measured before"
    if busy := sum(one.disturbed for one in every):
        told += f", {busy} of them beside other work all the time"
    if not changed:
        return f"{told}; no change since then is shown."
    counts = [
        noun(count, f"of them is {verdict}", f"of them are {verdict}")
        for verdict in ("faster", "slower")
        if (count := sum(one.change.verdict == verdict for one in changed))
    ]
    if len(every) == 1:
        counts = [f"it is {changed[0].change.verdict}"]
    most = max(changed, key=lambda one: abs((one.change.ratio or 1.0) - 1)).row
    which = ", most of all" if len(changed) > 1 else ":"
    return (
        f"{told}; {' and '.join(counts)} now{which} {most['cell']} ({most['change']}; unpaired, "
        "at another time)."
    )


def _judged(groups: Sequence[Sequence[Cell]]) -> tuple[Series, ...]:
    """Series with their labels, their last changes judged together."""
    pairs = [Pair("", group[-1], group[-2], ("", "")) for group in groups]
    judged = judge(pairs, {}, family=lambda pair: None)
    labels = labels_of([group[-1].trial for group in groups])
    hosts = _machine_names([group[-1] for group in groups])
    found = [
        Series(tuple(group[-MOST_RUNS:]), f"{label}{host}", max(0, len(group) - MOST_RUNS), p.found)
        for group, label, host, p in zip(groups, labels, hosts, judged, strict=True)
    ]
    found.sort(key=lambda one: natural(one.label))
    times = grouped(found, lambda one: one.label)
    return tuple(
        one if len(times[one.label]) == 1
        else replace(one, label=f"{one.label} ({one.cells[-1].trial.digest[:8]})")
        for one in found
    )  # fmt: skip


def _machine_names(cells: Sequence[Cell]) -> list[str]:
    """Where each was measured, in few words, if not all were measured on one machine."""
    short = {cell.machine: cell.host or cell.machine for cell in cells}
    if len(short) == 1:
        return [""] * len(cells)
    unique = len({*short.values()}) == len(short)
    return [f" on {short[cell.machine] if unique else cell.machine}" for cell in cells]


def _age(cell: Cell) -> tuple[datetime, str]:
    return moment(cell) or datetime.min.replace(tzinfo=UTC), cell.id


def _rate(cell: Cell) -> str:
    one = " (1 process)" if cell.one_process else ""
    return known(cell.images_per_second, ends_of(cell)) + one

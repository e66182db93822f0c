"""A sweep for people and for machines: its plan before, and how everything stands after."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from convdyno.report.bench_json import versioned
from convdyno.report.cell import cell_of
from convdyno.report.columns import cell_data, flat, flat_trial
from convdyno.report.console import Screen
from convdyno.report.format import duration, noun, varying, written
from convdyno.report.listing import headline_words
from convdyno.store.record import Record
from convdyno.store.sweep_plan import PlannedTrial, SweepPlan
from convdyno.trial.words import bench_command

DAY_SECONDS = 86400
SHOWN = 3
"""How many reasons a sentence has room for."""
Times = tuple[float | None, float]
"""Seconds that are expected, if anything is known, and at the most."""


def plan_lines(
    agenda: SweepPlan, groups: Sequence[Sequence[PlannedTrial]], times: Times
) -> list[str]:
    """What is about to happen, and when it will be over."""
    counts = _counts(agenda)
    words = {
        "done": "done before",
        "failed": "failed before (--retry failed tries again)",
        "skipped": "skipped before",
        "interrupted": "to go on with",
        "new": "to run",
    }
    parts = [f"{counts[name]} {text}" for name, text in words.items() if counts[name]]
    lines = [f"{noun(len(agenda.planned), 'cell')}: {', '.join(parts)}"]
    if groups:
        largest = max(map(len, groups))
        expected, most = times
        about = f"about {duration(expected)} if it is as before, " if expected is not None else ""
        day = "%H:%M" if most < DAY_SECONDS else "%d %b %H:%M"
        end = time.strftime(day, time.localtime(time.time() + most))
        lines.append(
            f"{noun(len(groups), 'group')} of up to {largest} measured in turns; "
            f"{about}at most {duration(most)}, so by {end}"
        )
    return lines


def show_plan(
    screen: Screen,
    agenda: SweepPlan,
    groups: Sequence[Sequence[PlannedTrial]],
    times: Times,
    unused: Sequence[str],
) -> None:
    """Every trial of the plan, in the order in which it would be run."""
    numbers = {id(one): str(n) for n, group in enumerate(groups, 1) for one in group}
    order = [one for group in groups for one in group]
    order += [one for one in agenda.planned if id(one) not in numbers]
    screen.table([
        {
            "group": numbers.get(id(one), "-" if one.trial.slurm is None else "job"),
            "standing": one.standing,
            "labels": ",".join(f"{name}={value}" for name, value in one.labels.items()),
            "trial": bench_command(one.trial).removeprefix("convdyno bench "),
        }
        for one in order
    ])  # fmt: skip
    screen.lines(plan_lines(agenda, groups, times))
    screen.lines(f"mind: {place}: this means none of the combinations" for place in unused)


def show_outcome(screen: Screen, agenda: SweepPlan, stopped: str | None, folder: Path) -> None:
    """How everything stands after a run."""
    screen.table(outcome_table(agenda))
    screen.lines(outcome_lines(agenda, stopped, folder))


def flat_cell(one: PlannedTrial, record: Record | None) -> dict[str, Any]:
    """A cell as one row of plain values, with its figures where there are any."""
    row = flat_trial(one.trial) if record is None else flat(cell_of(record))
    return {"standing": one.standing, **row}


def plan_document(
    title: str,
    agenda: SweepPlan,
    groups: Sequence[Sequence[PlannedTrial]],
    times: Times,
) -> dict[str, Any]:
    """The plan for machines: every trial, its group and how it stands."""
    numbers = {id(one): n for n, group in enumerate(groups, 1) for one in group}
    expected, most = times
    return versioned(
        title=title,
        seconds={"expected": expected, "most": most},
        counts=_counts(agenda),
        trials=[
            {
                "digest": one.trial.digest,
                "group": numbers.get(id(one)),
                "standing": one.standing,
                "reason": one.reason,
                "record": one.head.id if one.head else None,
                "labels": one.labels,
                "trial": one.trial.model_dump(mode="json"),
                "command": bench_command(one.trial),
            }
            for one in agenda.planned
        ],
    )


def outcome_document(
    title: str,
    agenda: SweepPlan,
    records: Sequence[Record | None],
    stopped: str | None,
    folder: Path,
) -> dict[str, Any]:
    """How everything stands, for machines; each cell as `bench --json` has it."""
    cells = []
    for one, record in zip(agenda.planned, records, strict=True):
        about = {"standing": one.standing, "labels": one.labels, "digest": one.trial.digest}
        data: dict[str, Any] = {"trial": one.trial.model_dump(mode="json")}
        if record is not None:
            data = cell_data(cell_of(record), folder=folder)
        cells.append(data | about)
    return versioned(title=title, stopped=stopped, counts=_counts(agenda), cells=cells)


def outcome_table(agenda: SweepPlan) -> list[dict[str, Any]]:
    """A row for each cell: what tells it from the others, and its figures."""
    axes = varying([one.trial for one in agenda.planned], ("network", "engine"))
    rows = []
    for one in agenda.planned:
        figures = one.head.figures if one.head else {}
        rows.append(
            {name: written(getattr(one.trial, name)) for name in axes}
            | headline_words(figures)
            | {"rounds": str(figures.get("rounds") or "-"), "standing": one.standing}
        )
    return rows


def outcome_lines(agenda: SweepPlan, stopped: str | None, folder: Path) -> list[str]:
    """What went wrong or is left, and what to do next."""
    failed = [one for one in agenda.planned if one.standing in ("failed", "skipped")]
    lines = [f"{one.trial.label}: {one.standing}: {one.reason}" for one in failed]
    counts = _counts(agenda)
    if stopped:
        left = noun(counts["new"] + counts["interrupted"], "cell")
        lines.append(f"stopped by {stopped} with {left} left: the same command goes on")
    if counts["elsewhere"]:
        lines.append(f"{noun(counts['elsewhere'], 'cell')} being measured by another process")
    if counts["done"]:
        lines.append(f"`convdyno report {folder}` shows the {noun(counts['done'], 'record')}")
    return lines


def left_words(agenda: SweepPlan) -> str:
    """Why some cells are left though nobody has stopped the sweep, and what to do next."""
    left = [one for one in agenda.planned if one.standing in ("new", "interrupted")]
    reasons = list(dict.fromkeys(one.reason or "not run" for one in left))
    more = f" and {len(reasons) - SHOWN} more" if len(reasons) > SHOWN else ""
    return (
        f"{noun(len(left), 'cell')} not measured to the end: {'; '.join(reasons[:SHOWN])}{more}. "
        "The same command goes on; where a budget ended, give a longer one"
    )


def _counts(agenda: SweepPlan) -> Counter[str]:
    return Counter(one.standing for one in agenda.planned)

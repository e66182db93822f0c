"""The report as Markdown, for a pull request or a wiki."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from convdyno import __version__
from convdyno.report.columns import cell_words
from convdyno.report.comparisons import Pair
from convdyno.report.conclusion import conclusion
from convdyno.report.findings import merged_warnings
from convdyno.report.format import noun
from convdyno.report.history import CAVEAT
from convdyno.report.report_model import ReportModel, training_row

MOST_CELLS = 1000
"""Rows of the table; the CSV has all."""


def markdown(report: ReportModel, title: str) -> str:
    """The whole document."""
    return "\n".join(_lines(report, title)) + "\n"


def escaped(text: Any) -> str:
    """Text that is shown as it is: no markup, no tags, no end of a cell."""
    one_line = " ".join(str(text).split())
    return re.sub(r"([\\`*_{}\[\]<>|#~$])", r"\\\1", one_line).replace("&", "&amp;")


def _lines(report: ReportModel, title: str) -> Iterator[str]:
    yield f"# {escaped(title)}"
    yield from ("", *(f"- {escaped(text)}" for text in conclusion(report)))
    yield from ("", "## Cells", "")
    yield from _table([cell_words(cell) for cell in report.cells[:MOST_CELLS]])
    if len(report.cells) > MOST_CELLS:
        yield f"\n{len(report.cells) - MOST_CELLS} more cells: `convdyno report --csv` has all."
    pairs = [pair for family in report.families for pair in family.pairs]
    if pairs:
        yield from ("", "## What is faster", "")
        yield from _table([_pair(pair) for pair in pairs])
    if report.histories:
        yield from ("", "## History", "", CAVEAT, "")
        yield from _table([one.row for past in report.histories for one in past.series])
    for curve in report.curves:
        yield from ("", f"## Scaling: {escaped(curve.work.label)}", "")
        yield from _table(curve.table())
        yield from ("", *(f"- {escaped(text)}" for text in curve.sentences()))
    if report.ladders:
        yield from ("", "## Where the time goes", "")
        for ladder in report.ladders:
            yield f"- {escaped(ladder.cells[-1].trial.label)}: {escaped(ladder.sentence)}"
    if report.gathered.trainings:
        yield from ("", "## Runs of training", "")
        yield from _table([training_row(run) for run in report.gathered.trainings])
    yield from _minds(report)
    yield from ("", "## Machines and versions", "")
    for name in report.gathered.machines:
        versions = ", ".join(map(" ".join, report.versions(name)))
        yield f"- {escaped(name)}; {escaped(versions)}"
    commands = dict.fromkeys(cell.repeated_by for cell in report.cells[:MOST_CELLS])
    longest = max((len(run) for text in commands for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    yield from ("", "## To repeat a cell", "", fence, *commands, fence, "")
    yield f"Made by convdyno {__version__}."


def _pair(pair: Pair) -> dict[str, str]:
    trial = pair.a.trial
    return {
        "network": trial.network,
        "mode": trial.mode,
        "by": pair.axis,
        "a / b": " / ".join(pair.values),
        "batch": str(trial.batch),
        **pair.words,
        "how": pair.found.reason or pair.how,
    }


def _minds(report: ReportModel) -> Iterator[str]:
    lines = [
        f"- **{escaped(status)}**: {escaped(reason)} ({escaped(cells[0].trial.label)}"
        + (f" and {len(cells) - 1} more)" if len(cells) > 1 else ")")
        for (status, reason), cells in report.failures().items()
    ]
    lines += [
        f"- {escaped(text)} ({noun(len(cells), 'cell')})"
        for text, cells, _ in merged_warnings(report.cells)
    ]
    lines += [f"- skipped: {escaped(text)}" for text in report.gathered.skipped]
    if lines:
        yield from ("", "## What to mind", "", *lines)


def _table(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if not rows:
        yield "(none)"
        return
    yield "| " + " | ".join(escaped(name) for name in rows[0]) + " |"
    yield "|" + "---|" * len(rows[0])
    for row in rows:
        yield "| " + " | ".join(escaped(value) for value in row.values()) + " |"

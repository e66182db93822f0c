"""The report as Markdown, for a pull request or a wiki."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from convdyno import __version__
from convdyno.report.compared import ratio_words
from convdyno.report.content import Content, cell_rows, training_row
from convdyno.report.entries import Entry
from convdyno.report.ladders import Climbed
from convdyno.report.pairs import Pair
from convdyno.report.scaling import Curve

MOST_CELLS = 1000
"""Rows of the table; the CSV has all."""


def markdown(content: Content, command: Callable[[Entry], str], title: str) -> str:
    """The whole document."""
    return "\n".join(_lines(content, command, title)) + "\n"


def escaped(text: Any) -> str:
    """Text that is shown as it is: no markup, no tags, no end of a cell."""
    one_line = " ".join(str(text).split())
    return re.sub(r"([\\`*_{}\[\]<>|#~$])", r"\\\1", one_line).replace("&", "&amp;")


def _lines(content: Content, command: Callable[[Entry], str], title: str) -> Iterator[str]:
    yield f"# {escaped(title)}"
    yield from ("", "## Cells", "")
    yield from _table(cell_rows(content.cells[:MOST_CELLS]))
    if len(content.cells) > MOST_CELLS:
        yield f"\n{len(content.cells) - MOST_CELLS} more cells: `convdyno report --csv` has all."
    pairs = [pair for family in content.families for pair in family.pairs]
    if pairs:
        yield from ("", "## What is faster", "")
        yield from _table([_pair(pair) for pair in pairs])
    for found in content.curves:
        if isinstance(found.what, Curve):
            work = found.what.work
            yield from ("", f"## Scaling: {escaped(work.label)}", "")
            yield from _table(found.what.table())
            yield from ("", *(f"- {escaped(text)}" for text in found.what.sentences()))
    ladders = [found for found in content.ladders if isinstance(found.what, Climbed)]
    if ladders:
        yield from ("", "## Where the time goes", "")
        for found in ladders:
            assert isinstance(found.what, Climbed)
            top = found.entries[found.what.cells[-1]].trial
            yield f"- {escaped(top.label)}: {escaped(found.what.sentence)}"
    if content.gathered.trainings:
        yield from ("", "## Runs of training", "")
        yield from _table([training_row(run) for run in content.gathered.trainings])
    yield from _minds(content)
    yield from ("", "## Machines and versions", "")
    for name in content.gathered.machines:
        versions = dict.fromkeys(
            f"{package} {version}"
            for cell in content.cells
            if cell.machine == name
            for package, version in cell.versions.items()
        )
        yield f"- {escaped(name)}; {escaped(', '.join(versions))}"
    commands = dict.fromkeys(command(cell) for cell in content.cells[:MOST_CELLS])
    longest = max((len(run) for text in commands for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    yield from ("", "## To repeat a cell", "", fence, *commands, fence, "")
    yield f"Made by convdyno {__version__}."


def _pair(pair: Pair) -> dict[str, str]:
    ratio, interval = ratio_words(pair)
    trial = pair.a.trial
    return {
        "network": trial.network,
        "mode": trial.mode,
        "by": pair.axis,
        "a / b": " / ".join(pair.values),
        "batch": str(trial.batch),
        "ratio": ratio,
        "interval": interval,
        "verdict": pair.found.verdict,
        "how": pair.found.reason or pair.how,
    }


def _minds(content: Content) -> Iterator[str]:
    lines = [
        f"- **{escaped(status)}**: {escaped(reason)} ({escaped(cells[0].trial.label)}"
        + (f" and {len(cells) - 1} more)" if len(cells) > 1 else ")")
        for (status, reason), cells in content.failures().items()
    ]
    lines += [f"- {escaped(text)} ({len(cells)})" for text, cells in content.warnings().items()]
    lines += [f"- skipped: {escaped(text)}" for text in content.gathered.skipped]
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

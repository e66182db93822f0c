"""What was found in one or two sentences, and what to mind of it, the worst first."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from convdyno.report.cell import Cell, grouped, warnings_of
from convdyno.report.comparisons import Pair
from convdyno.report.format import between, noun, rate, ratio, ratio_writer, said

DOES = {"train": "trains at", "infer": "infers"}
SETTLED = ("faster", "slower", "equivalent")
WORST = (
    "compiled something again", "only one process", "disturbed by other work",
    "had not become steady", "memory did not hold",
)  # fmt: skip
"""Words of what is worst to mind, in their order; whatever else there is comes after them."""
NUMBER = re.compile(r"\d+")
Names = Mapping[str, str]
"""What tells each cell from the others, by its id."""


def findings(cells: Sequence[Cell], pairs: Sequence[Pair], names: Names) -> list[str]:
    """What a benchmark has found."""
    measured = [cell for cell in cells if cell.headline is not None]
    judged = [pair for pair in pairs if pair.found.ratio is not None]
    if not measured:
        return ["nothing was measured"]
    if len(measured) == 1:
        return [_alone(measured[0])]
    if not judged:
        return [_range(measured, names)]
    if len(judged) == 1:
        return [one_ratio(judged[0])]
    settled = sum(pair.found.verdict in SETTLED for pair in judged)
    return [
        _fastest(measured, judged, names),
        f"{settled} of {noun(len(judged), 'comparison')} decided",
    ]


def one_ratio(pair: Pair) -> str:
    """What a single comparison has found, the faster one first."""
    found = pair.found
    axes = pair.a.trial.differs_in(pair.b.trial)
    one, other = (", ".join(said(t, n) for n in axes) for t in (pair.a.trial, pair.b.trial))
    times, low, high = found.ratio or 1.0, found.low, found.high
    if times < 1:
        one, other = other, one
        times, low, high = 1 / times, high and 1 / high, low and 1 / low
    write = ratio_writer(found)
    around = f" ({between(low, high, write)})" if low is not None else ""
    much = f"{write(times)} times the images/s{around}"
    apart = "" if pair.paired else " (unpaired)"
    if pair.disturbed:
        apart += "; measured beside other work all the time: do it again on a quiet machine"
    if found.verdict in ("faster", "slower"):
        return f"{one} is faster than {other}: {much}{apart}"
    if found.verdict == "equivalent":
        return f"{one} and {other} are equally fast: {much}{apart}"
    why = f"; {found.reason}" if found.reason else ""
    return f"{one} and {other} cannot be told apart yet: {much}{apart}{why}"


def minded(cells: Sequence[Cell], names: Names) -> list[str]:
    """What to mind: what differs in numbers alone is said once, of the cell that has it worst."""
    told = []
    for text, of, differing in merged_warnings(cells):
        if differing:
            text += f" (in {names[of[0].id]}, and less in {noun(len(of) - 1, 'other cell')})"
        elif len(of) < len(cells):
            text += f" ({'; '.join(names[cell.id] for cell in of)})"
        told.append(text)
    return told


def merged_warnings(cells: Sequence[Cell]) -> list[tuple[str, list[Cell], bool]]:
    """What to mind, the worst first: in the words of the cell that has it worst, with all cells.

    The last says whether others have the same with other numbers.
    """
    found = grouped(warnings_of(cells).items(), lambda item: _without_numbers(item[0]))
    merged = []
    for alike in found.values():
        alike.sort(key=lambda item: -_first_number(item[0]))
        every = {cell.id: cell for _, some in alike for cell in some}
        merged.append((alike[0][0], [*every.values()], len(alike) > 1))
    return sorted(merged, key=lambda one: _severity(one[0]))


def _alone(cell: Cell) -> str:
    trial = cell.trial
    where = f" on {trial.devices} devices" if trial.devices > 1 else ""
    known = f"({between(cell.low, cell.high)})"
    if cell.one_process:
        known = "(one process: how much others differ is not known)"
    return (
        f"{trial.network} {DOES[trial.mode]} {rate(cell.images_per_second)} images/s {known} with "
        f"{trial.engine} in {trial.precision}{where}"
    )


def _range(measured: Sequence[Cell], names: Names) -> str:
    """From the slowest to the fastest of cells that are no rivals."""
    order = sorted(measured, key=lambda cell: cell.images_per_second or 0.0)
    ends = (f"{rate(c.images_per_second)} images/s ({names[c.id]})" for c in (order[0], order[-1]))
    return f"{noun(len(measured), 'cell')}: {' to '.join(ends)}"


def _fastest(measured: Sequence[Cell], judged: Sequence[Pair], names: Names) -> str:
    """Who has the most images per second, and against whom that is shown."""
    best = max(measured, key=lambda cell: cell.images_per_second or 0.0)
    told = f"{names[best.id]} has the most images/s: {rate(best.images_per_second)}"
    won = {(pair.a.id, "faster") for pair in judged} | {(pair.b.id, "slower") for pair in judged}
    mine = [pair for pair in judged if best in (pair.a, pair.b)]
    open_ = [pair for pair in mine if (best.id, pair.found.verdict) not in won]
    if not mine:
        return told
    if not open_:
        least = min(mine, key=lambda pair: abs((pair.found.ratio or 1.0) - 1))
        times = least.found.ratio or 1.0
        return f"{told}, at least {ratio(max(times, 1 / times))} times those of its rivals"
    others = [pair.b if pair.a is best else pair.a for pair in open_]
    return f"{told}, not shown to be more than {'; '.join(names[cell.id] for cell in others)}"


def _without_numbers(text: str) -> str:
    return NUMBER.sub("#", text).replace("processes", "process")


def _first_number(text: str) -> int:
    found = NUMBER.search(text)
    return int(found[0]) if found else 0


def _severity(text: str) -> int:
    return next((place for place, words in enumerate(WORST) if words in text), len(WORST))

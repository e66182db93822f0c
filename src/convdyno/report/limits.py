"""What keeps figures from being more precise: the machine, the processes, or the time."""

from __future__ import annotations

import math
from collections.abc import Sequence

from convdyno.report.cell import Cell
from convdyno.report.format import noun, percent
from convdyno.stats.plan import WORTHWHILE_ROUNDS, estimate_spread

PRECISE = 0.02
"""Who is known that well needs no advice."""
DISTURBED = 0.2
"""The share of blocks from which on others are to blame."""


def what_limits(cells: Sequence[Cell], shortfall: str = "") -> str:
    """One sentence about the cell that is known least, with what to do; nothing if all are.

    `shortfall` says what was wanted and not reached, and what would reach it.
    """
    known = [cell for cell in cells if cell.headline is not None]
    if not known:
        return shortfall
    worst = max(known, key=lambda cell: _half_width(cell))
    if _half_width(worst) <= PRECISE and not shortfall:
        return ""
    return "; ".join(filter(None, (shortfall, f"what limits the precision: {_why(worst)}")))


def _half_width(cell: Cell) -> float:
    return cell.headline.half_width if cell.headline else math.inf


def _why(cell: Cell) -> str:
    disturbed = cell.contaminated / max(1, cell.blocks)
    if disturbed > DISTURBED:
        return (
            f"others disturbed {percent(disturbed)} of the blocks; end other programs, or give a "
            "longer --budget"
        )
    if cell.rounds < WORTHWHILE_ROUNDS:
        return f"only {noun(cell.rounds, 'round')}; a longer --budget or a smaller --batch has more"
    spread = estimate_spread(list(cell.measured.values()))
    turns = cell.blocks / max(1, cell.rounds)
    if spread.between > spread.within / max(1.0, turns):
        apart = percent(math.sqrt(spread.between))
        return f"processes differ by {apart} from each other; more rounds help: a longer --budget"
    return "turns vary; a longer --budget has more of them"

"""What other programs have cost a block, as far as the system tells.

A thread that is ready to run and has to wait for a core makes its block longer by about as much.
Linux counts that wait to the nanosecond. Taking it off leaves what the block would have taken with
the cores to itself: beside programs that compute now and then, ratios of turns vary ten times less
(docs/precision.md).

A cell with more threads than cores makes its own threads wait. So only what lies above the cell's
usual wait is taken off, and never more than the time that others have used on the cores.
"""

from __future__ import annotations

import numpy as np

from convdyno.stats.series import Floats, Integers

USUAL = 0.85
"""How much longer a block gets for each second that one of its threads waits, if nothing is known:
threads wait for each other at the end of every op, so that most of a wait is everybody's."""
WEIGHT = 0.02
"""How much the blocks must say before that is given up: the sum of their squared relative waits."""
HIGHEST = 1.2
MOST = 0.8
"""Of a block at most this share is taken off."""


def delays(
    seconds: Floats, steps: Floats, queued: Floats, others: Floats, process: Integers
) -> Floats:
    """The seconds of each block that others have cost, of all blocks of one cell.

    `queued` is what threads waited for cores, `others` what others used of these; `process` says
    which blocks belong together.
    """
    per_step = queued / steps
    usual = np.quantile(per_step, 0.25)
    waited = np.minimum(np.maximum(queued - usual * steps, 0.0), others)
    slope = _slope(waited / seconds, seconds / steps, process)
    return np.minimum(slope * waited, MOST * seconds)


def _slope(waited: Floats, step_seconds: Floats, process: Integers) -> float:
    """How much of a wait shows in the time, by regression inside processes, leaning on `USUAL`."""
    over, with_it = WEIGHT, WEIGHT * USUAL
    for number in np.unique(process):
        mine = process == number
        share, times = waited[mine], step_seconds[mine]
        # A block without any wait takes t; with the share w of it waited, t / (1 - slope w).
        lost = 1 - float(np.median(times[share <= np.quantile(share, 0.25)])) / times
        over += float((share**2).sum())
        with_it += float((share * lost).sum())
    return float(np.clip(with_it / over, 0.0, HIGHEST))

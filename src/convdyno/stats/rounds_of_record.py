"""Records as the statistics want them: rounds of blocks, and pairs of cells that took turns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from convdyno.stats.compare import PairedRounds
from convdyno.stats.rounds import Round
from convdyno.store.record import Process, Record


def rounds_of(record: Record) -> list[Round]:
    """The measured rounds of a record."""
    return [_round(process, record.trial.global_batch) for process in record.measured]


def paired(a: Record, b: Record) -> PairedRounds:
    """Two records side by side, round by round."""
    sides = ({p.round: _round(p, r.trial.global_batch) for p in r.measured} for r in (a, b))
    return PairedRounds(*in_step(list(sides)))


def numbered_ranks(record: Record) -> dict[int, dict[int, Round]]:
    """The same by rank and number; only rounds in which the times of all ranks are known."""
    crews = {
        p.round: p
        for p in record.measured
        if p.ranks and all(len(rank.seconds) == len(p.blocks) for rank in p.ranks)
    }
    found: dict[int, dict[int, Round]] = {}
    for number, process in crews.items():
        # Ranks share all arrays but their times: a report holds those of many cells.
        whole = _round(process, record.trial.global_batch / len(process.ranks))
        for rank in process.ranks:
            own = replace(whole, seconds=np.asarray(rank.seconds, dtype=np.float64))
            found.setdefault(rank.rank, {})[number] = own
    return found


def in_step(sides: Sequence[Mapping[int, Round]]) -> list[list[Round | None]]:
    """Numbered rounds side by side: None where one has none of that number."""
    numbers = sorted(set().union(*sides))
    return [[side.get(number) for number in numbers] for side in sides]


def _round(process: Process, images_per_step: float) -> Round:
    blocks = process.blocks
    return Round.of(
        [block.seconds for block in blocks],
        [block.steps for block in blocks],
        images_per_step,
        [block.contaminated for block in blocks],
        [block.turn for block in blocks],
    )

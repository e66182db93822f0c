"""Records as the statistics want them: rounds of blocks, and pairs of cells that took turns."""

from __future__ import annotations

from collections.abc import Sequence

from convdyno.results.record import Process, Record
from convdyno.stats.compare import PairedRounds
from convdyno.stats.rounds import Round


def rounds_of(record: Record) -> list[Round]:
    """The measured rounds of a record."""
    return [_round(process, record.trial.global_batch) for process in record.measured]


def paired(a: Record, b: Record) -> PairedRounds:
    """Two records side by side, round by round."""
    return PairedRounds(*rounds_by_number((a, b)))


def rounds_by_number(records: Sequence[Record]) -> list[list[Round | None]]:
    """The rounds of several records, in step: None where a record has none of that number."""
    sides = [{p.round: _round(p, r.trial.global_batch) for p in r.measured} for r in records]
    numbers = sorted(set().union(*sides))
    return [[side.get(number) for number in numbers] for side in sides]


def comparable(records: Sequence[Record]) -> list[tuple[int, int]]:
    """The pairs of measured cells that differ in one thing at the most, and not in their rung."""
    measured = [i for i, record in enumerate(records) if record.measured]
    return [
        (a, b)
        for place, a in enumerate(measured)
        for b in measured[place + 1 :]
        if len(axes := records[a].trial.differs_in(records[b].trial)) <= 1 and axes != ["rung"]
    ]


def _round(process: Process, images_per_step: int) -> Round:
    blocks = process.blocks
    return Round.of(
        [block.seconds for block in blocks],
        [block.steps for block in blocks],
        images_per_step,
        [block.contaminated for block in blocks],
        [block.turn for block in blocks],
    )

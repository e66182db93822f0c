"""Records as the statistics want them: rounds of blocks, and pairs of cells that took turns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from convdyno.results.record import Process, Record
from convdyno.stats.compare import PairedRounds
from convdyno.stats.holm import Unpaired
from convdyno.stats.rounds import Round

NO_RIVALRY = {"rung", "devices", "scaling"}
"""Axes along which no cell is called faster or slower than another."""


def rounds_of(record: Record) -> list[Round]:
    """The measured rounds of a record."""
    return [_round(process, record.trial.global_batch) for process in record.measured]


def paired(a: Record, b: Record) -> PairedRounds:
    """Two records side by side, round by round."""
    return PairedRounds(*rounds_by_number((a, b)))


def took_turns(a: Record, b: Record) -> bool:
    """Whether two were measured in one run, so that their rounds are pairs."""
    return a.run == b.run


def sides(a: Record, b: Record) -> PairedRounds | Unpaired:
    """Two records as they may be compared: round by round only where they took turns."""
    return paired(a, b) if took_turns(a, b) else Unpaired(rounds_of(a), rounds_of(b))


def rounds_by_number(records: Sequence[Record]) -> list[list[Round | None]]:
    """The rounds of several records, in step: None where a record has none of that number."""
    return in_step([numbered(record) for record in records])


def numbered(record: Record) -> dict[int, Round]:
    """The measured rounds of a record by their number."""
    return {p.round: _round(p, record.trial.global_batch) for p in record.measured}


def numbered_ranks(record: Record) -> dict[int, dict[int, Round]]:
    """The same of each rank of a crew; only rounds in which the times of all ranks are known."""
    crews = {
        p.round: p
        for p in record.measured
        if p.ranks and all(len(rank.seconds) == len(p.blocks) for rank in p.ranks)
    }
    found: dict[int, dict[int, Round]] = {}
    for number, process in crews.items():
        images = record.trial.global_batch / len(process.ranks)
        for rank in process.ranks:
            found.setdefault(rank.rank, {})[number] = _round(process, images, rank.seconds)
    return found


def in_step(sides: Sequence[Mapping[int, Round]]) -> list[list[Round | None]]:
    """Numbered rounds side by side: None where one has none of that number."""
    numbers = sorted(set().union(*sides))
    return [[side.get(number) for number in numbers] for side in sides]


def comparable(records: Sequence[Record]) -> list[tuple[int, int]]:
    """The pairs of measured cells that differ in one thing at the most, if one may be the better.

    What a rung of the input costs is the ladder's to say; what more devices bring, and what their
    exchange costs, is the scaling curve's.
    """
    measured = [i for i, record in enumerate(records) if record.measured]
    return [
        (a, b)
        for place, a in enumerate(measured)
        for b in measured[place + 1 :]
        if _rivals(records[a], records[b])
    ]


def _rivals(a: Record, b: Record) -> bool:
    axes = a.trial.differs_in(b.trial)
    if axes == ["exchange"]:
        return "independent" not in (a.trial.exchange, b.trial.exchange)
    return len(axes) <= 1 and not set(axes) & NO_RIVALRY


def _round(
    process: Process, images_per_step: float, seconds: Sequence[float] | None = None
) -> Round:
    blocks = process.blocks
    return Round.of(
        [block.seconds for block in blocks] if seconds is None else seconds,
        [block.steps for block in blocks],
        images_per_step,
        [block.contaminated for block in blocks],
        [block.turn for block in blocks],
    )

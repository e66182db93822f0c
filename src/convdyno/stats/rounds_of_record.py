"""Records as the statistics want them: rounds of blocks, and pairs of cells that took turns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from convdyno.stats.borrowing import NOTHING, Borrowed
from convdyno.stats.compare import PairedRounds
from convdyno.stats.delays import delays
from convdyno.stats.rounds import Round, TypicalRound
from convdyno.stats.series import Floats
from convdyno.store.record import Process, Record


def rounds_of(record: Record) -> list[Round]:
    """The measured rounds of a record, as records of its schema give their figures."""
    images = record.trial.global_batch
    rounds = [_round(process, images) for process in record.measured]
    if record.schema_version == 1 or not rounds:
        return rounds
    parts = np.cumsum([len(one.seconds) for one in rounds])[:-1]
    return [
        TypicalRound(one.seconds, one.images, one.contaminated, one.turns, lost)
        for one, lost in zip(rounds, np.split(_delays(record), parts), strict=True)
    ]


def _delays(record: Record) -> Floats:
    """What others have cost each block of a record; nothing where the system does not tell."""
    blocks = [(n, block) for n, process in enumerate(record.measured) for block in process.blocks]
    cores = record.machine.get("cores_logical") or 1
    told = [block.queued_seconds for _, block in blocks]
    if None in told or (record.settings or {}).get("device") != "cpu":
        return np.zeros(len(blocks))
    return delays(
        seconds=np.array([block.seconds for _, block in blocks]),
        steps=np.array([block.steps for _, block in blocks], dtype=np.float64),
        queued=np.array(told, dtype=np.float64),
        others=np.array([block.foreign_share * block.seconds * cores for _, block in blocks]),
        process=np.array([n for n, _ in blocks]),
    )


def paired(a: Record, b: Record) -> PairedRounds:
    """Two records side by side, round by round."""
    sides = (dict(zip((p.round for p in r.measured), rounds_of(r), strict=True)) for r in (a, b))
    one, other = in_step(list(sides))
    return PairedRounds(one, other, borrowed_for(a, "ratio"))


def borrowed_for(record: Record, what: Literal["rate", "ratio"]) -> Borrowed:
    """What was known, when a record was made, of how much its rounds or their ratios vary."""
    known = record.borrowed.get(what)
    return Borrowed(known.freedom, known.between, known.scale) if known else NOTHING


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
    rows = [(one.seconds, one.steps, one.contaminated, one.turn) for one in process.blocks]
    seconds, steps, contaminated, turns = map(np.array, zip(*rows, strict=True))
    return Round(seconds, steps * float(images_per_step), contaminated, turns)

"""The figures of a run as they narrow: looked at between turns, while nothing is measured."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from convdyno.stage.progress import TICK_SECONDS, Narrator
from convdyno.stats.gate import ratio_of
from convdyno.stats.rounds_of_record import borrowed_for, paired, rounds_of
from convdyno.stats.summary import interval
from convdyno.store.record import Record
from convdyno.trial.rivalry import rivalry

MOST_RATIOS = 3


@dataclass
class Watch:
    """Tells what is known of some cells so far."""

    narrator: Narrator
    names: Mapping[str, str]
    """What cells are called, by the ids of their records."""
    sentences: bool = False
    """Whether somebody wants lines that stay, on a terminal too."""
    _looked: float = field(init=False)

    def __post_init__(self) -> None:
        self._looked = -math.inf if self.sentences else time.monotonic()

    def look(self, records: Sequence[Record], round_number: int) -> None:
        """Say how precise rates and ratios are by now, if that was not said just before.

        Looks are some seconds apart: they take time that could be measured in. Who asked for
        sentences has the first of them at once.
        """
        narrator = self.narrator
        every = 2 * TICK_SECONDS if self.sentences else narrator.look_seconds
        if time.monotonic() < self._looked + every:
            return
        measured = [record for record in records if record.measured]
        rates = [_rate(record) for record in measured]
        names = (self.names[record.id] for record in measured)
        narrator.learn({n: f"{r} images/s" for n, r in zip(names, rates, strict=True)})
        if self.sentences or not narrator.live:
            narrator.narrowing(round_number, rates, _ratios(measured))
        self._looked = time.monotonic()


def _ratios(records: Sequence[Record]) -> list[str]:
    pairs = [(a, b) for a, b in combinations(records, 2) if rivalry(a.trial, b.trial) is not None]
    found = (ratio_of(paired(a, b)) for a, b in pairs[:MOST_RATIOS])
    return [f"{one.ratio:.2f}{_width(one.high, one.ratio)}" for one in found if one.ratio]


def _rate(record: Record) -> str:
    found = interval(rounds_of(record), borrowed=borrowed_for(record, "rate"))
    # Three digits, without an exponent.
    return f"{float(f'{found.estimate:.3g}'):g}{_width(found.high, found.estimate)}"


def _width(high: float | None, value: float) -> str:
    return f" ±{100 * (high / value - 1):.2g} %" if high is not None else ""

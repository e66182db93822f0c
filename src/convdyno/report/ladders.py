"""Where the time goes: cells that differ in their rung alone, told as parts of one step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from convdyno.report.rows import Row
from convdyno.report.words import percent, rate
from convdyno.stats.ladder import Ladder, Share, climb
from convdyno.stats.rounds_of_record import rounds_by_number

RUNGS = ("device", "host", "decoded", "bytes", "source")
"""The lowest first."""
ADDS = {"host": "transfer", "decoded": "augmentation", "bytes": "decoding", "source": "reading"}
"""What a rung adds to the one below it."""
BAR = 40
"""How many characters a whole step is wide."""


@dataclass(frozen=True)
class Climbed:
    """One ladder: its cells by their index, the lowest rung first, and what it says."""

    cells: tuple[int, ...]
    ladder: Ladder
    loader_rate: float | None
    """Images per second of the loader alone."""
    device_rate: float
    """Images per second when nothing has to be loaded."""

    def to_data(self) -> dict[str, Any]:
        """The ladder for machines, unrounded."""
        return {
            "cells": self.cells,
            "limit": self.ladder.limit,
            "sentence": self.sentence,
            "compute": asdict(self.ladder.compute),
            "input": asdict(self.ladder.input),
            "parts": {name: asdict(share) for name, share in self.ladder.parts},
            "rounds": self.ladder.rounds,
            "loader_images_per_second": self.loader_rate,
            "device_images_per_second": self.device_rate,
        }

    @property
    def sentence(self) -> str:
        """The verdict in words."""
        whole = with_interval(self.ladder.input)
        match self.ladder.limit:
            case "input":
                part = dict(self.ladder.parts)[self.ladder.largest]
                return (
                    f"input-bound: {whole} of each step goes to getting data, most of it to "
                    f"{self.ladder.largest} ({percent(part.share)})"
                )
            case "compute":
                return f"compute-bound: getting data takes {whole} of each step"
        return (
            f"undecided: getting data takes {whole} of each step; "
            "give a longer --budget to say whether that matters"
        )

    def lines(self) -> Iterator[str]:
        """The verdict and a bar for each part."""
        yield self.sentence
        for name, share in (("compute", self.ladder.compute), *self.ladder.parts):
            width = round(BAR * min(1.0, max(0.0, share.share)))
            yield f"  {name:<13}{'█' * width:<{BAR}} {with_interval(share)}"
        alone = f"{rate(self.device_rate)} images/s"
        if self.loader_rate is not None:
            loader = f"{rate(self.loader_rate)} images/s"
            yield f"alone, the loader gives {loader} and the device takes {alone}"


def climbed(rows: Sequence[Row]) -> list[Climbed]:
    """The ladders among the rows: those measured on the lowest rung, the highest and between."""
    groups: dict[str, list[int]] = {}
    for index, row in enumerate(rows):
        groups.setdefault(row.trial.model_copy(update={"rung": "source"}).digest, []).append(index)
    found = []
    for group in groups.values():
        cells = sorted(group, key=lambda index: RUNGS.index(rows[index].trial.rung))
        names = [rows[index].trial.rung for index in cells]
        if len(cells) < 2 or names[0] != RUNGS[0] or names[-1] != RUNGS[-1]:
            continue
        sides = rounds_by_number([rows[index].record for index in cells])
        if not any(all(side[i] is not None for side in sides) for i in range(len(sides[0]))):
            continue
        adds = [ADDS[name] for name in names[1:]]
        top, bottom = rows[cells[-1]], rows[cells[0]]
        found.append(
            Climbed(
                cells=tuple(cells),
                ladder=climb(sides[0], list(zip(adds, sides[1:], strict=True))),
                loader_rate=top.record.peaks.get("input"),
                device_rate=bottom.images_per_second or 0.0,
            )
        )
    return found


def with_interval(share: Share) -> str:
    """A share of one with its interval, if it has one."""
    if share.low is None or share.high is None:
        return percent(share.share)
    return f"{100 * share.share:.0f} % [{100 * share.low:.0f}, {100 * share.high:.0f}]"

"""Where the time goes: cells that differ in their rung alone, told as parts of one step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from convdyno.report.cell import Cell, grouped
from convdyno.report.format import percent, rate, share
from convdyno.stats.ladder import Ladder, climb
from convdyno.stats.rounds import common_rounds
from convdyno.stats.rounds_of_record import in_step
from convdyno.trial.spec import Trial

RUNGS = ("device", "host", "decoded", "bytes", "source")
"""The lowest first."""
ADDS = {"host": "transfer", "decoded": "augmentation", "bytes": "decoding", "source": "reading"}
"""What a rung adds to the one below it."""
BAR = 40
"""How many characters a whole step is wide."""


@dataclass(frozen=True)
class Climbed:
    """One ladder: its cells, the lowest rung first, and what it says."""

    cells: tuple[Cell, ...]
    ladder: Ladder
    loader_rate: float | None
    """Images per second of the loader alone."""
    device_rate: float
    """Images per second when nothing has to be loaded."""

    def to_data(self, numbers: Mapping[str, int]) -> dict[str, Any]:
        """The ladder for machines; `numbers` are the places of cells by their id."""
        return {
            "cells": [numbers[cell.id] for cell in self.cells],
            "limit": self.ladder.limit,
            "sentence": self.sentence,
            "compute": asdict(self.ladder.compute),
            "input": asdict(self.ladder.input),
            "parts": {name: asdict(part) for name, part in self.ladder.parts},
            "rounds": self.ladder.rounds,
            "loader_images_per_second": self.loader_rate,
            "device_images_per_second": self.device_rate,
        }

    @property
    def sentence(self) -> str:
        """The verdict in words."""
        whole, largest = share(self.ladder.input), self.ladder.largest
        most = percent(dict(self.ladder.parts)[largest].share)
        return {
            "input": f"input-bound: {whole} of each step goes to getting data, most of it to "
            f"{largest} ({most})",
            "compute": f"compute-bound: getting data takes {whole} of each step",
            "undecided": f"undecided: getting data takes {whole} of each step; "
            "give a longer --budget to say whether that matters",
        }[self.ladder.limit]

    def lines(self) -> Iterator[str]:
        """The verdict and a bar for each part."""
        yield self.sentence
        for name, part in (("compute", self.ladder.compute), *self.ladder.parts):
            width = round(BAR * min(1.0, max(0.0, part.share)))
            yield f"  {name:<13}{'█' * width:<{BAR}} {share(part)}"
        alone = f"{rate(self.device_rate)} images/s"
        if self.loader_rate is not None:
            loader = f"{rate(self.loader_rate)} images/s"
            yield f"alone, the loader gives {loader} and the device takes {alone}"


def whole_input(trial: Trial) -> Trial:
    """The trial at the top of a ladder, by which its rungs are known."""
    return trial if trial.rung == "source" else trial.model_copy(update={"rung": "source"})


def climbed(cells: Sequence[Cell]) -> list[Climbed]:
    """The ladders among the cells: those measured on the lowest rung, the highest and between."""
    found = []
    for group in grouped(cells, lambda cell: whole_input(cell.trial)).values():
        group.sort(key=lambda cell: RUNGS.index(cell.trial.rung))
        names = [cell.trial.rung for cell in group]
        if len(group) < 2 or names[0] != RUNGS[0] or names[-1] != RUNGS[-1]:
            continue
        sides = in_step([cell.measured for cell in group])
        if not common_rounds(sides):
            continue
        adds = [ADDS[name] for name in names[1:]]
        found.append(
            Climbed(
                cells=tuple(group),
                ladder=climb(sides[0], list(zip(adds, sides[1:], strict=True))),
                loader_rate=group[-1].peaks.get("input"),
                device_rate=group[0].images_per_second or 0.0,
            )
        )
    return found

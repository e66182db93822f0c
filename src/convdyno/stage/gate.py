"""What a gate measures: the base and the candidate in turns, or one trial against itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

from convdyno.launch.launcher import Launcher
from convdyno.stage.progress import Narrator
from convdyno.stage.rounds import Limits, Stage, StagedCell
from convdyno.stage.stopping import UntilPrecise, ratio_known
from convdyno.stats.gate import control_ratios
from convdyno.stats.plan import Goal
from convdyno.stats.rounds_of_record import paired
from convdyno.store.folder import Store
from convdyno.store.noise_floor import Floor, new_floor
from convdyno.store.record import Record, new_record
from convdyno.trial.spec import Trial

FLOOR_ROUNDS = 5
"""Of a trial against itself: fewer say little about how much processes differ."""


@dataclass(frozen=True)
class Side:
    """What is measured on one side, and what starts its workers."""

    role: str
    trial: Trial
    there: Launcher
    convdyno: str
    """The version that its workers have."""


@dataclass(frozen=True)
class Control:
    """What came of measuring a trial against itself."""

    floor: Floor | None
    seconds: float
    """How long it took."""
    reason: str = ""
    """Why there is no floor."""


@dataclass(frozen=True)
class GateStage:
    """What gates have in common."""

    store: Store
    narrator: Narrator
    machine: dict[str, Any]
    command: str
    goal: Goal
    """How well the ratio is to be known."""
    silence_seconds: float
    rank_seconds: float
    steps: int
    """First steps whose losses are kept."""
    shortfalls: dict[str, str] = field(default_factory=dict)
    """What was wanted and not reached, by the id of the candidate's record."""

    def in_turns(self, base: Side, candidate: Side, seconds: float) -> tuple[Record, Record]:
        """Both in the same rounds, in turns."""
        cells = [self._cell(base), self._cell(candidate)]
        self._in_turns(cells, self.goal, seconds)
        return cells[0].record, cells[1].record

    def alone(self, candidate: Side, seconds: float) -> Record:
        """The candidate by itself, to be held against a record of earlier."""
        cell = self._cell(candidate)
        self._run([cell], UntilPrecise(self.goal), seconds)
        return cell.record

    def floor(self, side: Side, seconds: float, within: float = 1.0) -> Control:
        """A side against itself, until that is known to `within`."""
        cells = [self._cell(side, "control"), self._cell(side, "control")]
        goal = Goal(within, self.goal.level, max(FLOOR_ROUNDS, self.goal.minimum_rounds))
        took = self._in_turns(cells, goal, seconds)
        ratios = control_ratios(paired(cells[1].record, cells[0].record))
        if len(ratios) < 2:
            failures = [str(cell.record.reason) for cell in cells if cell.failed]
            short = f"{seconds:g} s were too short for two rounds"
            return Control(None, took, next(iter(failures), short))
        return Control(new_floor(side.trial, self.machine, tuple(ratios), took), took)

    def _in_turns(self, cells: list[StagedCell], goal: Goal, seconds: float) -> float:
        """Run two cells until their ratio is precise enough; how long it took."""
        return self._run(cells, UntilPrecise(goal, precision=ratio_known, fewest=2), seconds)

    def _run(self, cells: list[StagedCell], pace: UntilPrecise, seconds: float) -> float:
        limits = Limits(seconds, self.silence_seconds)
        stage = Stage(cells, pace.goal, limits, self.store, self.narrator, _never, pace=pace)
        try:
            stage.run()
        finally:
            self.narrator.clear()
        self.shortfalls[cells[-1].record.id] = stage.shortfall
        return stage.seconds

    def _cell(self, side: Side, role: str = "") -> StagedCell:
        about = {"machine": self.machine, "command": self.command, "convdyno": side.convdyno}
        record = new_record(side.trial, role=role or side.role, **about)
        start = partial(side.there.start, rank_seconds=self.rank_seconds)
        steps = self.steps if side.trial.mode == "train" else 1
        return StagedCell(record, side.there.alone(side.trial), start=start, steps=steps)


def _never(trial: Trial) -> Any:
    raise AssertionError("each side starts its own workers")

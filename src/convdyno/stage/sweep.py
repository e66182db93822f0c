"""A sweep on the stage: groups of cells, each measured in turns, until nothing is left to do.

Every cell is claimed while it is measured, so that two sweeps on one store never run the same one.
Whatever ended an earlier sweep, this one goes on: measured cells are left, cells that were
interrupted are taken up with the rounds that they have.
"""

from __future__ import annotations

import secrets
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from convdyno.errors import Stopped, TrialFailed
from convdyno.launch.launcher import Team
from convdyno.machine import kinds
from convdyno.stage.progress import Narrator
from convdyno.stage.rounds import Failures, Limits, Stage, StagedCell
from convdyno.stage.signals import heeding
from convdyno.stats.index_figures import figures
from convdyno.stats.plan import Goal
from convdyno.store.cell_locks import Claim, cell_name, claim
from convdyno.store.folder import Store, read_record
from convdyno.store.index import Index
from convdyno.store.record import Record, new_record
from convdyno.store.sweep_plan import OPEN, PlannedTrial, SweepPlan, grouped, in_random_order
from convdyno.terminal import duration
from convdyno.trial.spec import Trial

CROWDED = "ran out of memory beside other cells: to be measured alone"
CROWD = Failures(instead={"oom": TrialFailed("interrupted", CROWDED)})
"""Of several cells: one without room beside others is tried alone before that is a result."""
SLACK_SECONDS = 600.0
"""What a group may take besides its budget: staging, certificates, the last turn."""

Prepare = Callable[[Sequence[Trial]], AbstractContextManager[Sequence[Trial]]]
"""Makes ready what trials need, and gives them as workers get them."""


@dataclass
class Means:
    """What a sweep needs of its surroundings."""

    goal: Goal
    limits: Limits
    """The budget is one cell's."""
    start: Callable[[Trial], Team]
    alone: Callable[[Trial], bool]
    prepare: Prepare
    machine: dict[str, Any]
    command: str
    together: int
    """Cells that are measured in turns at the most: each is a live process."""
    seed: int
    """What the order of cells is drawn by."""
    narrator: Narrator = field(default_factory=Narrator)
    quiet: bool = False


class SweepRun:
    """Runs what is left of an agenda; `signal` is what ended it early."""

    def __init__(self, agenda: SweepPlan, store: Store, means: Means) -> None:
        self.agenda, self._store, self._means = agenda, store, means
        self._index = Index(store.folder, figures)
        self._kind = kinds.kind(means.machine)
        self._together = means.together
        self._began, self._cells_done, self._groups = time.monotonic(), 0, 0
        self._stage: Stage | None = None
        self._preparing = False
        self.signal: signal.Signals | None = None

    def groups(self) -> list[list[PlannedTrial]]:
        """What is left, in the groups and the order in which it will be measured."""
        here = [one for one in self.agenda.left if one.trial.slurm is None]
        return in_random_order(grouped(here, self._together), self._means.seed)

    def run(self) -> None:
        """Measure group after group; signals end it after the turn that is being measured."""
        busy: list[PlannedTrial] = []
        with self._listening():
            try:
                busy = self._all(self.groups())
                # What others were measuring may be done by now, or left over.
                busy = self._all([[one] for one in busy])
            except KeyboardInterrupt:
                self.signal = self.signal or signal.SIGINT
            finally:
                self._means.narrator.clear()
        for one in busy:
            one.taken = True
        self._look()

    def seconds_left(self, groups: Iterable[list[PlannedTrial]]) -> tuple[float | None, float]:
        """How long these will take: as cells took so far, if any did; and at the most."""
        cells = [one for group in groups for one in group]
        most = self._means.limits.budget_seconds * len(cells)
        if self._cells_done:
            each = (time.monotonic() - self._began) / self._cells_done
            return min(each * len(cells), most), most
        known = [self.agenda.earlier_seconds(one.trial.engine) for one in cells]
        expected = sum(filter(None, known)) if cells and all(known) else None
        return (min(expected, most) if expected is not None else None), most

    def _all(self, waiting: list[list[PlannedTrial]]) -> list[PlannedTrial]:
        """Measure all groups; what others are measuring meanwhile comes back."""
        busy: list[PlannedTrial] = []
        while waiting:
            self._heed()
            group = waiting.pop(0)
            crowded = self._group(group, busy, waiting)
            if crowded:
                # Beside others it did not fit; whether it fits at all is only known alone.
                self._together = max(1, self._together // 2)
                smaller = [part for g in waiting for part in _cut(g, self._together)]
                crowded.sort(key=lambda one: one.trial.batch)
                waiting[:] = [*([one] for one in crowded), *smaller]
        return busy

    def _group(
        self, group: list[PlannedTrial], busy: list[PlannedTrial], waiting: list[list[PlannedTrial]]
    ) -> list[PlannedTrial]:
        """Measure a group; cells that ran out of memory beside others come back."""
        limits = self._means.limits
        lasting = len(group) * limits.budget_seconds + limits.silence_seconds + SLACK_SECONDS
        with ExitStack() as held:
            mine: list[PlannedTrial] = []
            for one in group:
                name = cell_name(one.trial.digest, self._kind)
                found = claim(self._store.folder, name, 2 * lasting)
                if isinstance(found, Claim):
                    held.callback(found.release)
                    mine.append(one)
                else:
                    busy.append(one)
                    self._say(f"{one.trial.label} is being measured by {found}")
            # Others may have measured it between our last look and our claim.
            self._look()
            mine = [one for one in mine if one.standing in OPEN and not self._skip(one)]
            if not mine:
                return []
            self._tell(mine, waiting)
            cells = self._measure(mine)
            self._cells_done += len(mine)
            crowded = [o for o, c in zip(mine, cells, strict=True) if c.record.reason == CROWDED]
            self._look()
            return crowded

    def _measure(self, group: list[PlannedTrial]) -> list[StagedCell]:
        means = self._means
        with ExitStack() as kept:
            self._preparing = True
            try:
                self._heed()
                placed = kept.enter_context(means.prepare([one.trial for one in group]))
            finally:
                self._preparing = False
            cells = [self._cell(one, trial) for one, trial in zip(group, placed, strict=True)]
            self._part(cells)
            budget = means.limits.budget_seconds * len(cells)
            limits = replace(means.limits, budget_seconds=budget)
            crowd = CROWD if len(cells) > 1 else None
            stage = self._stage = Stage(
                cells, means.goal, limits, self._store, means.narrator, means.start, failures=crowd
            )
            try:
                self._heed()
                stage.run()
                if stage.shortfall:
                    self._say(stage.shortfall)
            finally:
                self._stage = None
        return cells

    def _cell(self, one: PlannedTrial, placed: Trial) -> StagedCell:
        """The cell with a record to go on with, or a new one."""
        record = self._taken_up(one) or self._new(one)
        return StagedCell(
            record,
            self._means.alone(one.trial),
            placed=placed if placed != one.trial else None,
            probed=bool(record.peaks),
        )

    def _taken_up(self, one: PlannedTrial) -> Record | None:
        """The record that an earlier run of this very machine has left unfinished."""
        if one.former is None or one.former.status not in ("interrupted", "skipped"):
            return None
        record = read_record(self._store.folder / one.former.file)
        if record.status == "skipped":
            return self._new(one).but(id=record.id)
        if not kinds.same(record.machine, self._means.machine):
            return None
        labels = record.labels | one.labels
        return record.but(reason=None, command=self._means.command, labels=labels)

    def _part(self, cells: list[StagedCell]) -> None:
        """Let only those be known as one run that are measured in turns from now on, too."""
        here = {cell.record.id for cell in cells}
        parted = {head.run for head in self.agenda.heads if head.run and head.id not in here}
        again = secrets.token_hex(2)
        for cell in cells:
            if cell.record.run in parted:
                cell.record = cell.record.but(run=f"{cell.record.run}-{again}")

    def _new(self, one: PlannedTrial, **facts: Any) -> Record:
        about = {"machine": self._means.machine, "command": self._means.command}
        return new_record(one.trial, labels=one.labels, **about, **facts)

    def _skip(self, one: PlannedTrial) -> bool:
        """Write down that a trial is not run, if a smaller batch of it had no room."""
        smaller = self.agenda.too_large(one)
        if smaller is None:
            return False
        batch = smaller.trial["batch"]
        reason = f"batch {batch} ran out of memory ({smaller.id}), and this is larger"
        record = self._new(one, status="skipped", reason=reason)
        if one.former and one.former.status in ("interrupted", "skipped"):
            record = record.but(id=one.former.id)
        self._store.write(record)
        self._say(f"{one.trial.label} is skipped: {reason}")
        return True

    def _look(self) -> None:
        """How everything stands now."""
        self.agenda.look(self._index.heads())

    def _heed(self) -> None:
        if self.signal:
            raise Stopped(self.signal.name)

    def _tell(self, group: list[PlannedTrial], waiting: list[list[PlannedTrial]]) -> None:
        self._groups += 1
        expected, most = self.seconds_left([group, *waiting])
        left = (
            f"about {duration(expected)}" if expected is not None else f"at most {duration(most)}"
        )
        names = "; ".join(one.trial.label for one in group)
        self._say(f"group {self._groups} of {self._groups + len(waiting)} ({left} left): {names}")

    def _say(self, sentence: str) -> None:
        if not self._means.quiet:
            self._means.narrator.say(sentence)

    @contextmanager
    def _listening(self) -> Iterator[None]:
        """Signals that mean "stop soon" end the sweep after a turn; a second one at once."""

        def heed(number: int, _: object) -> None:
            again, self.signal = self.signal is not None, signal.Signals(number)
            if again or self._preparing:
                raise Stopped(self.signal.name)
            if self._stage is not None:
                self._stage.stop(self.signal.name)

        with heeding(heed):
            yield


def _cut(group: list[PlannedTrial], most: int) -> list[list[PlannedTrial]]:
    return [group[n : n + most] for n in range(0, len(group), most)]

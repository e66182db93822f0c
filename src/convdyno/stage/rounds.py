"""Rounds of live workers measured in turns.

A round starts one fresh process per cell, warms each up, then measures them in turns, ABBA: forward
through the cells, then backward. Whoever's turn it is not is stopped. A cell that fails becomes a
record with a reason, and the others go on. Every turn is written down as soon as it is over; cells
whose run was ended before its plan was can be taken up, and their rounds are counted on.

In the first round one process is opened after the other, so that what opening takes can be told. In
later ones as many are opened at once as there are cores: nothing is measured yet.
"""

from __future__ import annotations

import itertools
import math
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from convdyno import __version__
from convdyno.errors import Stopped, TrialFailed
from convdyno.launch.launcher import OutOfTime, Team
from convdyno.machine.kinds import kind
from convdyno.machine.processor import logical_cores
from convdyno.stage.experience import Experience
from convdyno.stage.progress import Narrator, shortfall
from convdyno.stage.stopping import Pace, UntilPrecise, turns_had
from convdyno.stage.watch import Watch
from convdyno.stats.plan import Goal
from convdyno.store.cell_locks import Holder, cell_name, claim_in_turn
from convdyno.store.folder import Store
from convdyno.store.record import Block, Energy, NetworkFacts, Peak, Process, Record
from convdyno.trial.naming import labels_of
from convdyno.trial.spec import Trial

TURN_SECONDS = 0.4
"""A turn is as many blocks as fill this long, at least one: what disturbs one cell for a second or
two then disturbs its rivals as well."""
WARM_UP_SECONDS = 10.0
"""A process may warm up for so long, and less when the budget is short."""
LEAST_WARM_UP_SECONDS = 1.5
"""However short the budget is."""
MEASURED_SILENCE_SECONDS = 60.0
"""A worker that is being measured may be silent for so long, or for twenty turns: a busy machine
can make a step ten times slower."""
WARM_UP_SHARE = 0.05
"""The share of the budget that the warm-ups of one round may take, over all cells."""
SYNTHETIC = ("synthetic", "synthetic-host")
AT_OPENING = ("host", "pid", "import_seconds", "build_seconds", "first_step_seconds", "first_loss")
"""What a worker says of itself when it has opened a trial, as it is recorded."""


@dataclass(frozen=True)
class Limits:
    """How long a run may take, and how long a worker may be silent."""

    budget_seconds: float = 300.0
    silence_seconds: float = 300.0
    """A worker that says nothing for so long while loading or warming up counts as hung."""


@dataclass(frozen=True)
class Failures:
    """What becomes of a trial that fails on the stage."""

    told: bool = True
    """Whether people hear of it at once."""
    instead: Mapping[str, TrialFailed] = field(default_factory=dict)
    """By status, what is written down instead."""


@dataclass
class StagedCell:
    """A trial on the stage; its record grows turn by turn."""

    record: Record
    alone: bool = False
    """Whether it has every sitting to itself: what runs it cannot be stopped for others."""
    placed: Trial | None = None
    """What the worker is given, where that names a place that is no part of the trial."""
    failed: bool = False
    start: Callable[[Trial], Team] | None = None
    """What starts its workers, if not what starts everybody's."""
    steps: int = 1
    """How many first steps have their loss kept, one by one."""
    probed: bool = False

    @property
    def runs(self) -> Trial:
        """The trial as the worker gets it."""
        return self.placed or self.record.trial


@dataclass(frozen=True)
class ReadyBy:
    """How long a worker may take until it is warm, and when that is over."""

    seconds: float = math.inf
    moment: float = math.inf
    """Of `time.monotonic`."""

    @classmethod
    def after(cls, seconds: float | None) -> ReadyBy:
        """So many seconds from now; None is all the time that there is."""
        return cls() if seconds is None else cls(seconds, time.monotonic() + seconds)


@dataclass
class Seat:
    """A cell's live process in the current round."""

    cell: StagedCell
    worker: Team
    process: Process
    ready_by: ReadyBy
    blocks_per_turn: int = 1
    turn_seconds: float = 0.0


@dataclass(frozen=True)
class OpenedWorker:
    """A worker that has loaded its network, and what it said of that."""

    worker: Team
    facts: dict[str, Any]
    ready_by: ReadyBy
    beside: int
    """Others that were opened at the same time."""


class Stage:
    """Runs cells in rounds until its pace says that it is enough, or the budget is spent.

    Without another pace, all cells stay until each is known precisely enough for the goal.
    """

    def __init__(
        self,
        cells: list[StagedCell],
        goal: Goal,
        limits: Limits,
        store: Store,
        narrator: Narrator,
        start: Callable[[Trial], Team],
        *,
        pace: Pace | None = None,
        failures: Failures | None = None,
        watched: bool = False,
    ) -> None:
        self.cells, self.limits, self.store, self.narrator = cells, limits, store, narrator
        self._start, self._failures = start, failures or Failures()
        run = secrets.token_hex(4)
        for cell in cells:
            cell.record = cell.record.but(run=cell.record.run or run)
        had = turns_had([cell.record for cell in cells])
        self._pace: Pace = pace or UntilPrecise(goal, had)
        self._goal = goal
        self._names = _names(cells)
        self._watch = Watch(narrator, self._names, watched)
        self.shortfall = ""
        """What was wanted and is not known at the end, and what would have been enough."""
        self.stayed: list[StagedCell] = []
        """Who was still there when its sitting of the latest round was over."""
        together = [cell for cell in cells if not cell.alone]
        alone = [[cell] for cell in cells if cell.alone]
        self._sittings = [together, *alone] if together else alone
        self._experience = Experience(store.folder, cells[0].record.machine, narrator)
        self._deadline = math.inf
        self._stop = ""
        self._patient = True

    def run(self) -> None:
        """Run rounds; Ctrl-C and a spent budget keep what was measured."""
        with ExitStack() as held:
            try:
                self._claim(held)
                self.narrator.foresee(self._pace.begin())
                self._deadline = time.monotonic() + self.limits.budget_seconds
                self._rounds()
            except OutOfTime as end:
                self._finish(f"the budget ended while {end}")
            except KeyboardInterrupt as end:
                for cell in self._alive():
                    self._write(cell, reason=f"stopped by {str(end) or 'Ctrl-C'}")
                raise
            else:
                self._finish("the budget ended before its first turn")

    @property
    def seconds(self) -> float:
        """How much of the budget has been used so far."""
        return max(0.0, self.limits.budget_seconds - self._left())

    def stop(self, who: str) -> None:
        """Ask for an early end, as the handler of a signal does: `run` raises `Stopped`.

        A turn that is being measured is finished and written down first; a worker that is still
        being made ready is ended at once.
        """
        self._stop = who
        if not self._patient:
            raise Stopped(who)

    def _claim(self, held: ExitStack) -> None:
        """Have the cells to ourselves; two that measure one cell here would disturb each other."""
        seconds = 2 * (self.limits.budget_seconds + self.limits.silence_seconds)
        labels = {
            cell_name(cell.record.trial_digest, kind(cell.record.machine)): cell.record.trial.label
            for cell in self.cells
        }
        # In one order everywhere: nobody waits for who waits for them.
        for name, label in sorted(labels.items()):
            tell = partial(self._tell_taken, label)
            with self._impatient():
                found = claim_in_turn(self.store.folder, name, seconds, tell)
            if found:
                held.callback(found.release)

    def _tell_taken(self, label: str, holder: Holder) -> None:
        after = "waiting until it is done" if holder.here else "this will be a second record of it"
        self.narrator.say(f"{label} is being measured by {holder}: {after}")

    def _rounds(self) -> None:
        had = [process.round for cell in self.cells for process in cell.record.processes]
        for number in itertools.count(max(had, default=-1) + 1):
            self._round(number)
            records = [cell.record for cell in self._alive()]
            if not records or self._pace.finished(records, self._left()):
                outlook = self._pace.outlook(records) if records else None
                if outlook is not None:
                    self.shortfall = shortfall(self._goal.within, outlook, self.seconds)
                return
            self.narrator.foresee(self._pace.foresee(records, self._left()))

    def _finish(self, unmeasured: str) -> None:
        for cell in self._alive():
            if cell.record.measured:
                self._write(cell, status="ok", looks=self._pace.looks)
            else:
                self._write(cell, reason=unmeasured)
        if self._pace.probes:
            self._experience.remember([cell.record for cell in self._alive()])

    def _round(self, number: int) -> None:
        """One fresh process for each cell; in several sittings where memory asks for it."""
        self._pace.start_round()
        self.stayed = []
        waiting = [[cell for cell in sitting if not cell.failed] for sitting in self._sittings]
        waiting, self._sittings = [cells for cells in waiting if cells], []
        while waiting:
            cells = waiting.pop(0)
            first = number % len(cells)  # Another one in each round: no place is always the same.
            order = cells[first:] + cells[:first]
            later = self._sit(number, len(self._sittings), order, sum(map(len, waiting)))
            if later:
                waiting.insert(0, later)
            self._sittings.append([cell for cell in cells if cell not in later])
        self._pace.end_round()

    def _sit(
        self, number: int, sitting: int, cells: list[StagedCell], others: int
    ) -> list[StagedCell]:
        """Seat as many cells as memory holds and measure them; the others come back for later.

        `others` is how many cells have a sitting of their own after this one.
        """
        seats: list[Seat] = []
        later: list[StagedCell] = []
        began = time.monotonic()
        with ExitStack() as started:
            for group in self._openings(number, cells):
                self._heed()
                labels = "; ".join(self._names[cell.record.id] for cell in group)
                self.narrator.opening(number, labels, self._left())
                for cell, found in self._open(started, sitting, group):
                    if isinstance(found, OpenedWorker):
                        seats.append(self._seat(number, sitting, cell, found))
                    elif found.status == "oom" and (seats or len(group) > 1):
                        later.append(cell)
                    else:
                        self._fail(cell, found)
            opened = time.monotonic()
            for seat in list(seats):
                self.narrator.warming(number, self._names[seat.cell.record.id], self._left())
                self._guard(seats, seat, self._warm)
            if not sitting:
                self._borrow()
                opening, warming = (opened - began) / len(cells), time.monotonic() - opened
                again = len(self._openings(number + 1, cells)) * opening + warming
                self._pace.open_first(len(seats), len(later) + others, opening, again)
            self._take_turns(number, sitting, seats)
            self.stayed += [seat.cell for seat in seats]
            for seat in list(seats):
                self._guard(seats, seat, self._close)
            for seat in seats:
                seat.worker.end(kindly=True)
        return later

    def _borrow(self) -> None:
        """Take over what earlier runs know of the cells, now that their versions are known."""
        records = [cell.record for cell in self._alive() if cell.record.network]
        for cell in self._alive():
            if cell.record.network and not cell.record.measured:
                known = self._experience.borrowed(cell.record, records)
                cell.record = cell.record.but(borrowed=known)

    def _openings(self, number: int, cells: list[StagedCell]) -> list[list[StagedCell]]:
        """Who is opened at the same time: nobody at first, then as many as there are cores.

        A GPU is one device for all of them: there it stays one after the other.
        """
        known = (cell.record.settings or {} for cell in cells)
        together = all(settings.get("device") in ("cpu", "clockwork") for settings in known)
        size = logical_cores() if together and number else 1
        return [cells[n : n + size] for n in range(0, len(cells), size)]

    def _open(
        self, started: ExitStack, sitting: int, cells: list[StagedCell]
    ) -> list[tuple[StagedCell, OpenedWorker | TrialFailed]]:
        """Start workers, and load the network of each; what failed says why."""
        begun: list[tuple[StagedCell, Team, ReadyBy]] = []
        found: list[tuple[StagedCell, OpenedWorker | TrialFailed]] = []
        for cell in cells:
            first = sitting == 0 and cell is self.cells[0]
            try:
                seconds = self._pace.start_seconds(first=first, left=self._left())
            except TrialFailed as failure:
                found.append((cell, failure))
                continue
            worker = (cell.start or self._start)(cell.runs)
            started.callback(worker.end)
            more = {"steps": cell.steps} if cell.steps > 1 else {}
            worker.begin(
                "open", trial=cell.runs.model_dump(mode="json", exclude_defaults=True), **more
            )
            begun.append((cell, worker, ReadyBy.after(seconds)))
        for cell, worker, ready_by in begun:
            try:
                with self._impatient():
                    answer = self._ready(worker, "open", ready_by)
                worker.pause()
                found.append((cell, OpenedWorker(worker, answer, ready_by, len(begun) - 1)))
            except TrialFailed as failure:
                worker.end()
                found.append((cell, failure))
        return found

    def _ready(self, worker: Team, do: str, ready_by: ReadyBy) -> dict[str, Any]:
        """Wait for a worker that is being made ready; one whose own time is over has failed."""
        until = min(self._deadline, ready_by.moment)
        try:
            return worker.finish(do, silence=self.limits.silence_seconds, until=until)
        except OutOfTime:
            if math.isinf(ready_by.seconds):
                raise
            raise TrialFailed(
                "timeout", f"was not ready within {ready_by.seconds:.0f} s: give more --budget"
            ) from None

    def _seat(self, number: int, sitting: int, cell: StagedCell, opened: OpenedWorker) -> Seat:
        """A place on the stage for a worker that has its network."""
        self._remember(cell, opened.facts)
        process = Process(
            round=number,
            sitting=sitting,
            opened_beside=opened.beside,
            losses=tuple(opened.facts.get("losses", ())),
            **{name: opened.facts[name] for name in AT_OPENING},
        )
        return Seat(cell, opened.worker, process, opened.ready_by)

    def _warm(self, seat: Seat) -> None:
        """Let a process run until its rate is steady; it is alone on the machine meanwhile."""
        share = max(
            LEAST_WARM_UP_SECONDS,
            self.limits.budget_seconds * WARM_UP_SHARE / len(self._alive()),
        )
        before, ours = seat.cell.record.processes, seat.cell.record.convdyno == __version__
        soon_warm = ours and before and all(process.steady for process in before)
        more = {"brief": True} if soon_warm else {}
        seat.worker.begin("warm", seconds=min(WARM_UP_SECONDS, share), **more)
        with self._impatient():
            warmed = self._ready(seat.worker, "warm", seat.ready_by)
        seat.worker.pause()
        seat.process = seat.process.but(
            steady=warmed["steady"],
            warmup_seconds=warmed["warmup_seconds"],
            warmup=tuple(Block(**block) for block in warmed["warmup"]),
        )
        block = seat.process.warmup[-1].seconds
        seat.blocks_per_turn = max(1, round(TURN_SECONDS / max(block, 1e-3)))
        seat.turn_seconds = seat.blocks_per_turn * block

    def _take_turns(self, number: int, sitting: int, seats: list[Seat]) -> None:
        """Turns forward and backward until the pace says that this sitting has enough."""
        for turn in itertools.count():
            start = time.monotonic()
            for seat in list(seats if turn % 2 == 0 else reversed(seats)):
                self.narrator.measuring(
                    number, turn, self._names[seat.cell.record.id], self._left()
                )
                self._guard(seats, seat, partial(self._measure, turn=turn))
                self._heed()
            self._pace.count_turn(time.monotonic() - start, first_sitting=sitting == 0)
            self._watch.look([cell.record for cell in self._alive()], number)
            records = [seat.cell.record for seat in seats]
            leaving = {record.id for record in self._pace.leaving(records, turn, self._left())}
            for seat in [seat for seat in seats if seat.cell.record.id in leaving]:
                seats.remove(seat)
                seat.worker.end()
            records = [seat.cell.record for seat in seats]
            if not seats or self._pace.sitting_is_over(records, sitting, turn, self._left()):
                return

    def _measure(self, seat: Seat, turn: int) -> None:
        silence = max(MEASURED_SILENCE_SECONDS, 20 * seat.turn_seconds)
        answer = seat.worker.ask("measure", silence=silence, turn=turn, blocks=seat.blocks_per_turn)
        seat.worker.pause()
        self._note(
            seat,
            sync=False,
            blocks=seat.process.blocks + tuple(Block(**block) for block in answer["blocks"]),
            last_loss=answer["last_loss"],
            recompilations=answer["recompilations"],
        )

    def _close(self, seat: Seat) -> None:
        """Probe the device's peak once a cell, take the last facts and let the process go."""
        if not self._pace.probes:
            seat.worker.end()
            return
        facts: dict[str, Any] = {}
        if not seat.cell.probed:
            facts["peaks"] = self._peaks(seat)
            seat.cell.probed = True
        closed = seat.worker.ask("close", silence=self.limits.silence_seconds)
        facts |= {name: closed[name] for name in ("peak_memory_bytes", "device_memory_bytes")}
        self._note(seat, **facts)

    def _peaks(self, seat: Seat) -> tuple[Peak, ...]:
        """How fast the device can be: as it was seen before, or as it is probed now.

        What a data set's loader can do alone is not remembered.
        """
        known, record = self._experience.peaks(seat.cell.record), seat.cell.record
        if known and record.trial.data in SYNTHETIC:
            return known
        self.narrator.probing(self._names[record.id], self._left())
        answer = seat.worker.ask("probe", silence=self.limits.silence_seconds)
        return tuple(Peak(**peak) for peak in answer["peaks"])

    def _guard(self, seats: list[Seat], seat: Seat, act: Callable[[Seat], None]) -> None:
        """Do something with a seat; if its trial fails, only that cell leaves the stage."""
        try:
            act(seat)
        except TrialFailed as failure:
            seats.remove(seat)
            self._fail(seat.cell, failure)
            seat.worker.end()

    def _note(self, seat: Seat, *, sync: bool = True, **facts: Any) -> None:
        """Put what is new of the seat's process into the cell's record, on disk.

        Between turns nobody waits for the disk: the next cell would be measured on a machine that
        has just been idle.
        """
        seat.process = seat.process.but(ranks=seat.worker.ranks, **facts)
        others = tuple(p for p in seat.cell.record.processes if p.round != seat.process.round)
        self._write(seat.cell, sync=sync, processes=(*others, seat.process))

    def _remember(self, cell: StagedCell, opened: dict[str, Any]) -> None:
        settings = dict(opened["settings"])
        if cell.record.versions not in ({}, opened["versions"]):
            # It was taken up, but by another version than before: the two are not to be mixed.
            cell.record, cell.probed = cell.record.but(processes=()), False
        warnings = dict.fromkeys([*cell.record.warnings, *settings.pop("warnings")])
        cell.record = cell.record.but(
            network=NetworkFacts(**opened["network"]),
            settings=settings,
            input=opened["input"],
            energy=Energy(**opened["energy"]) if "energy" in opened else None,
            versions=opened["versions"],
            warnings=tuple(warnings),
        )

    def _fail(self, cell: StagedCell, failure: TrialFailed) -> None:
        cell.failed = True
        failure = self._failures.instead.get(failure.status, failure)
        self._write(cell, status=failure.status, reason=str(failure))
        if self._failures.told:
            self.narrator.failed(cell.record.trial.label, str(failure))

    def _write(self, cell: StagedCell, *, sync: bool = True, **changes: Any) -> None:
        cell.record = cell.record.but(**changes)
        self.store.write(cell.record, sync=sync)

    def _heed(self) -> None:
        if self._stop:
            raise Stopped(self._stop)

    @contextmanager
    def _impatient(self) -> Iterator[None]:
        """While nothing is measured that an early end would lose."""
        self._patient = False
        try:
            self._heed()
            yield
        finally:
            self._patient = True

    def _alive(self) -> list[StagedCell]:
        return [cell for cell in self.cells if not cell.failed]

    def _left(self) -> float:
        return self._deadline - time.monotonic()


def _names(cells: list[StagedCell]) -> dict[str, str]:
    """What tells each cell of a stage from the others, by the id of its record."""
    records = [cell.record for cell in cells]
    names = labels_of([record.trial for record in records])
    if len(cells) == 1:
        names = [records[0].trial.label]
    elif len(set(names)) < len(names):
        names = [record.role or record.trial.label for record in records]
    return {record.id: name for record, name in zip(records, names, strict=True)}

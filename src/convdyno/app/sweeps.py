"""Many cells from one file; killed and started again, it goes on."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from convdyno.app import benchmark
from convdyno.app.cells import looks_anew
from convdyno.app.place import launcher
from convdyno.app.requests import BenchRequest, SweepRequest
from convdyno.app.shown import Shown
from convdyno.app.sweep_jobs import run_jobs
from convdyno.app.sweep_plan import OWN, Plan, make_plan, vocabulary
from convdyno.errors import BadStore, UsageError
from convdyno.launch.launcher import Launcher
from convdyno.machine.kinds import kind
from convdyno.report.console import Screen
from convdyno.report.sweep import flat_cell, plan_lines, show_outcome, show_plan
from convdyno.stage.progress import SILENCE, Narrator
from convdyno.stage.sweep import Means, SweepRun
from convdyno.stats.index_figures import figures
from convdyno.store.cell_locks import holders
from convdyno.store.folder import Store, read_record
from convdyno.store.index import Index
from convdyno.store.record import Record
from convdyno.store.sweep_plan import PlannedTrial, SweepPlan
from convdyno.trial import parse
from convdyno.trial.spec import Trial
from convdyno.trial.sweep import Sweep, Value
from convdyno.trial.sweep_file import read_sweep


@dataclass(frozen=True, eq=False, repr=False)
class SweepStanding(Shown):
    """What a sweep is about to do, or has done."""

    title: str
    agenda: SweepPlan
    """Every trial, and how it stands."""
    groups: list[list[PlannedTrial]]
    """What is left, in the order in which it would be measured."""
    times: tuple[float | None, float]
    unused: list[str]
    """Where the file has rules that mean nothing."""
    folder: Path
    signal: signal.Signals | None = None
    """What ended it early."""
    ran: bool = False
    """Whether it was run, and not only planned."""

    @property
    def ok(self) -> bool:
        """Whether every cell was measured."""
        return all(one.standing == "done" for one in self.agenda.planned)

    def show(self, screen: Screen) -> None:
        """Print how every cell stands; before a run, every trial in its order."""
        if self.ran:
            stopped = self.signal.name if self.signal else None
            show_outcome(screen, self.agenda, stopped, self.folder)
        else:
            show_plan(screen, self.agenda, self.groups, self.times, self.unused)

    def to_dicts(self) -> list[dict[str, Any]]:
        """A flat dict for each cell: its standing, and its figures where there is a record."""
        pairs = zip(self.agenda.planned, self.records(), strict=True)
        return [flat_cell(one, record) for one, record in pairs]

    def records(self) -> list[Record | None]:
        """The record of each trial, where there is one."""
        heads = [one.head for one in self.agenda.planned]
        return [read_record(self.folder / head.file) if head else None for head in heads]


def plan_sweep(request: SweepRequest, narrator: Narrator = SILENCE) -> SweepStanding:
    """Every trial of a sweep and how it stands; nothing is run."""
    with _opened(request, narrator) as (_, wanted, run, _):
        return _plan(request, wanted, run)


@looks_anew
def sweep(request: SweepRequest, narrator: Narrator = SILENCE) -> SweepStanding:
    """Measure what is left of a sweep; signals end it after the turn that is being measured."""
    with _opened(request, narrator) as (plan, wanted, run, how):
        Store(request.out).prepare()
        _announce(_plan(request, wanted, run), narrator)
        if plan.orders:
            run_jobs(run.agenda, plan, how, narrator)
        run.run()
    return replace(_plan(request, wanted, run), ran=True)


@contextmanager
def _opened(
    request: SweepRequest, narrator: Narrator
) -> Iterator[tuple[Plan, Sweep, SweepRun, BenchRequest]]:
    parse.one_of("retry", ("failed",))(request.retry or "failed")
    wanted = read_sweep(request.file, vocabulary(), request.overrides)
    wanted.labels |= benchmark.labels_of(request.labels)
    wanted.title = wanted.title or request.file.name
    own = OWN | {word: int(wanted.settings[word]) for word in OWN if word in wanted.settings}
    once = {word: value for word, value in wanted.settings.items() if word not in OWN}
    how = _how(once, request)
    with launcher(how, request.out, narrator) as there:
        plan = make_plan(wanted, request.file.name, there, how)
        here = [one.trial for one in plan.planned if one.trial.slurm is None]
        if how.nodes is not None and any(trial.staged for trial in here):
            raise UsageError(benchmark.ONLY_HERE)
        there.check(here)
        agenda = _agenda(plan, request, there)
        trials = [one.trial for one in agenda.planned]
        store = Store(how.out)
        means = Means(
            benchmark.goal_of(how),
            benchmark.limits_of(how),
            start=partial(there.start, rank_seconds=how.read("rank_timeout")),
            alone=there.alone,
            prepare=lambda group: _ready(group, trials, there, store, narrator),
            machine=there.machine(),
            command=how.command,
            together=own["together"],
            seed=own["shuffle"],
            narrator=narrator,
            quiet=narrator.quiet,
        )
        yield plan, wanted, SweepRun(agenda, store, means), how


def _how(once: dict[str, Value], request: SweepRequest) -> BenchRequest:
    """What is given once for the whole sweep, as one cell of it would be asked for."""
    paths = {n: Path(str(once[n])) for n in ("nodes", "ssh_config", "slurm_setup") if n in once}
    counts = {n: int(str(once[n])) for n in ("rounds", "per_node", "max_devices") if n in once}
    modules = [str(once["slurm_module"])] if "slurm_module" in once else ()
    more = {"slurm_module": modules, "out": request.out, "command": request.command}
    return BenchRequest.of(**once | paths | counts | more)


def _agenda(plan: Plan, request: SweepRequest, there: Launcher) -> SweepPlan:
    """The plan, and how it stands."""
    agenda = SweepPlan(plan.planned, kind(there.machine()), retry=request.retry is not None)
    try:
        agenda.start(Index(request.out, figures).heads())
    except BadStore:
        if request.out.exists():
            raise
        agenda.start([])
    return agenda


@contextmanager
def _ready(
    group: Sequence[Trial], trials: Sequence[Trial], there: Launcher, store: Store,
    narrator: Narrator,
) -> Iterator[list[Trial]]:  # fmt: skip
    """What a group needs before it starts: certificates, and data where they are to be read."""
    networks = {trial.network for trial in group}
    store.prepare()
    benchmark.certificates_of([one for one in trials if one.network in networks], store, narrator)
    with benchmark.data_in_place(group, narrator) as placed:
        there.check(placed)
        yield placed


def _plan(request: SweepRequest, wanted: Sweep, run: SweepRun) -> SweepStanding:
    groups = run.groups()
    times = run.seconds_left(groups)
    return SweepStanding(
        wanted.title, run.agenda, groups, times, wanted.unused, request.out, run.signal
    )


def _announce(plan: SweepStanding, narrator: Narrator) -> None:
    """Say what is about to happen."""
    for line in plan_lines(plan.agenda, plan.groups, plan.times):
        narrator.tell(line)
    for place in plan.unused:
        narrator.tell(f"mind: {place}: this means none of the combinations")
    others = {h.pid: h for _, h in holders(plan.folder) if h.here and h.pid != os.getpid()}
    for holder in others.values():
        narrator.tell(f"mind: {holder} measures here too: each will disturb the other")

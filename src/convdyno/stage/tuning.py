"""The fastest settings of one trial: a search, and then fresh rounds that say what it brought.

The search keeps what was fastest in it, which is partly what was lucky in it, so its own figures
promise too much (the winner's curse). Whatever is reported comes from rounds after it: the winner
beside the default settings, and beside itself with one setting changed, for each setting.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from convdyno.errors import NothingMeasured, TrialFailed
from convdyno.launch.launcher import Launcher, Team
from convdyno.stage.batch_search import BatchSearch
from convdyno.stage.experience import start_seconds
from convdyno.stage.halving import MEASURING_SHARE, Halving, knock_out, speed
from convdyno.stage.progress import Narrator
from convdyno.stage.rounds import TURN_SECONDS, Failures, Limits, Stage, StagedCell
from convdyno.stats.plan import Goal
from convdyno.store.folder import Store
from convdyno.store.record import Record, new_record
from convdyno.terminal import duration
from convdyno.trial import axes
from convdyno.trial.spec import Trial

SETTINGS = tuple(name for name in axes.names(tuned=True) if name != "batch")
"""Which do not change the mathematics."""
FACTORS = (*SETTINGS, "batch")
SEATS = 8
"""Live processes of a heat at the most; memory may hold fewer."""
SEARCH_SHARE, SETTINGS_SHARE = 0.5, 0.6
"""Of the budget the part of the search, and of that the part before batches are tried."""
BUCKETS = (5.0, 100.0)
"""Megabytes of gradients, beside torch's own 25."""
BATCHES = (0.25, 0.5, 2, 4, 8)
"""Times the default."""

Alternatives = Mapping[str, Sequence[Any]]


@dataclass(frozen=True)
class Contrast:
    """The winner's value of one setting against another, all else being the winner's."""

    factor: str
    ours: Any
    theirs: Any
    record: Record


@dataclass(frozen=True)
class TunedTrial:
    """What a search found, and what fresh rounds say of it."""

    default: Record
    winner: Record
    """The same record as the default's where nothing was faster in the search."""
    contrasts: tuple[Contrast, ...]
    tried: tuple[Record, ...]
    """From the search alone: to see what was tried, not to be quoted."""
    search_seconds: float
    final_seconds: float


def alternatives(trial: Trial, settings: Mapping[str, Any], free: Collection[str]) -> Alternatives:
    """The other values of each setting that may be changed, by what the default ones became."""
    threads = int(settings.get("threads") or 1)
    found: dict[str, list[Any]] = {
        "layout": [one for one in ("nchw", "nhwc") if one != settings.get("layout")],
        "compile": ["off" if settings.get("compiled") else "on"],
        "threads": [n for n in dict.fromkeys((threads // 2, threads // 4)) if n >= 1],
        "bucket_mb": list(BUCKETS) if trial.devices > 1 and trial.mode == "train" else [],
        "batch": [
            size
            for times in BATCHES
            if (size := int(trial.batch * times)) >= 1 and size % trial.accumulate == 0
        ],
    }
    return {name: values for name, values in found.items() if name in free and values}


def variants(trial: Trial, others: Alternatives) -> list[Trial]:
    """Every combination of the settings, those that change least first."""
    names = [name for name in SETTINGS if name in others]
    choices = [(getattr(trial, name), *others[name]) for name in names]
    made = [
        trial.model_copy(update=dict(zip(names, values, strict=True)))
        for values in itertools.product(*choices)
    ]
    return sorted(made, key=lambda one: len(one.differs_in(trial)))


@dataclass
class Tuner:
    """Searches the settings of one trial after the other."""

    store: Store
    narrator: Narrator
    machine: dict[str, Any]
    command: str
    there: Launcher
    goal: Goal
    budget_seconds: float
    silence_seconds: float
    rank_seconds: float
    tried: list[StagedCell] = field(default_factory=list)

    def tune(self, default: Trial, free: Collection[str]) -> TunedTrial:
        """Search what is free to be changed, then measure what it brought."""
        begin = time.monotonic()
        until = begin + SEARCH_SHARE * self.budget_seconds
        names = ", ".join(name.replace("_", " ") for name in free)
        self.narrator.tell(f"searching {names}, {duration(until - begin)} at most")
        scout = self._scout(default, until)
        if scout.record.status == "oom" and "batch" in free:
            default = self._smaller(default, until)
            scout = self._scout(default, until)
        if not scout.record.measured:
            why = f"the default settings: {scout.record.reason}"
            if scout.record.status == "interrupted":
                raise NothingMeasured(f"nothing was measured of {why}; give a longer --budget")
            raise TrialFailed(scout.record.status, why)
        others = alternatives(default, scout.record.settings or {}, free)
        winner = self._search(default, others, scout, until)
        searched = time.monotonic()
        pairs = self._contrasts(default, winner, others)
        fresh = self._measure(default, winner, pairs, begin + self.budget_seconds - searched)
        tried = tuple(cell.record for cell in self.tried)
        return TunedTrial(*fresh, tried, searched - begin, time.monotonic() - searched)

    def _scout(self, trial: Trial, until: float) -> StagedCell:
        """One process alone, to see what the default settings become and what they cost."""
        cell = self._cell(trial, "search")
        self._best([cell], until)
        return cell

    def _smaller(self, trial: Trial, until: float) -> Trial:
        """The same with the largest batch that fits, where its own does not."""
        search = BatchSearch(self._start, trial, until, self.silence_seconds, self.narrator.trying)
        room = search.run()
        self.narrator.say(f"a batch of {trial.batch} does not fit: {room.sentence}")
        return trial.model_copy(update={"batch": room.batch or trial.accumulate})

    def _search(
        self, default: Trial, others: Alternatives, scout: StagedCell, until: float
    ) -> Trial:
        winner = default
        now = time.monotonic()
        share = SETTINGS_SHARE if "batch" in others else 1.0
        trials = variants(default, others)[1:]
        if trials:
            seconds = share * (until - now)
            fitting = (1 - MEASURING_SHARE) * seconds / max(0.5, _start_seconds(scout.record))
            trials = trials[: max(3, int(fitting))]
            cells = [scout, *(self._cell(one, "search") for one in trials)]
            winner = self._best(cells, now + seconds)
        if "batch" in others:
            sizes = [winner.batch, *others["batch"]]
            cells = [self._cell(winner.model_copy(update={"batch": n}), "search") for n in sizes]
            winner = self._best(cells, until)
        return winner

    def _best(self, cells: list[StagedCell], until: float) -> Trial:
        """The fastest of some trials, or the first if none could be measured."""
        # Settings that do not work are part of the search, and told at its end.
        untold = Failures(told=False)

        def heat_of(group: list[StagedCell], doubled: int, seconds: float) -> Stage:
            return self._stage(group, seconds, pace=Halving(doubled, seconds), failures=untold)

        try:
            best = knock_out(cells, SEATS, until, heat_of) or cells[0]
            return best.record.trial
        finally:
            self.tried += [cell for cell in cells if cell not in self.tried]

    def _contrasts(
        self, default: Trial, winner: Trial, others: Alternatives
    ) -> list[tuple[str, Trial]]:
        """For each setting the winner with another value: the default's, or the best other one."""
        found = []
        for name in (name for name in FACTORS if name in others):
            if getattr(winner, name) != getattr(default, name):
                value = getattr(default, name)
            else:
                worked = [
                    cell.record
                    for cell in self.tried
                    if cell.record.measured and getattr(cell.record.trial, name) in others[name]
                ]
                if not worked:
                    continue
                value = getattr(max(worked, key=speed).trial, name)
            found.append((name, winner.model_copy(update={name: value})))
        return found

    def _measure(
        self, default: Trial, winner: Trial, pairs: list[tuple[str, Trial]], seconds: float
    ) -> tuple[Record, Record, tuple[Contrast, ...]]:
        """Fresh rounds of the winner, the default and as many contrasts as the time allows."""
        if seconds <= 0:
            raise NothingMeasured(
                f"nothing is left of the budget of {self.budget_seconds:g} s for rounds after the "
                "search: give a longer --budget"
            )
        pairs = self._affordable(default, winner, pairs, seconds)
        trials = dict.fromkeys([default, winner, *(trial for _, trial in pairs)])
        cells = {trial: self._cell(trial, "tune") for trial in trials}
        self.narrator.plan(len(cells), self.goal.minimum_rounds, self.goal.within, seconds)
        stage = self._stage(list(cells.values()), seconds)
        stage.run()
        if stage.shortfall:
            self.narrator.tell(stage.shortfall)
        contrasts = tuple(
            Contrast(name, getattr(winner, name), getattr(trial, name), cells[trial].record)
            for name, trial in pairs
        )
        return cells[default].record, cells[winner].record, contrasts

    def _affordable(
        self, default: Trial, winner: Trial, pairs: list[tuple[str, Trial]], seconds: float
    ) -> list[tuple[str, Trial]]:
        """The contrasts that fit; what the winner left as it was is given up first."""
        changed = winner.differs_in(default)
        worth = sorted(pairs, key=lambda pair: (pair[0] not in changed, self._cost(pair[1])))
        left = seconds / self.goal.minimum_rounds - self._cost(default) - self._cost(winner)
        kept = []
        for pair in worth:
            left -= self._cost(pair[1])
            if left >= 0 or pair[1] == default:
                kept.append(pair)
        return [pair for pair in pairs if pair in kept]

    def _cost(self, trial: Trial) -> float:
        """What a round takes, by what was seen of that trial, or of all that were tried."""
        own = [cell.record for cell in self.tried if cell.record.trial == trial]
        seen = [_start_seconds(record) for record in own or (cell.record for cell in self.tried)]
        return sum(seen) / max(1, len(seen)) + 2 * TURN_SECONDS

    def _stage(self, cells: list[StagedCell], seconds: float, **how: Any) -> Stage:
        limits = Limits(seconds, self.silence_seconds)
        return Stage(cells, self.goal, limits, self.store, self.narrator, self._start, **how)

    def _start(self, trial: Trial) -> Team:
        return self.there.start(trial, self.rank_seconds)

    def _cell(self, trial: Trial, role: str) -> StagedCell:
        record = new_record(trial, machine=self.machine, command=self.command, role=role)
        return StagedCell(record, self.there.alone(trial))


def _start_seconds(record: Record) -> float:
    """What it takes to make one process of a record ready, as far as was seen."""
    return max(map(start_seconds, record.processes), default=0.0)

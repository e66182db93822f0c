"""What a run takes over from earlier ones on its machine, and leaves to later ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path

import numpy as np

from convdyno.errors import BadStore
from convdyno.stage.progress import Narrator
from convdyno.stats.borrowing import PastRounds, learn
from convdyno.stats.compare import PairedRounds
from convdyno.stats.gate import spread_of_ratio
from convdyno.stats.plan import estimate_spread
from convdyno.stats.rounds import variances_of
from convdyno.stats.rounds_of_record import paired, rounds_of
from convdyno.stats.summary import MINIMUM_ROUNDS
from convdyno.store.history import (
    PastCell,
    PastSpread,
    SpreadOf,
    read_history,
    versions_of,
    work_of,
    write_history,
)
from convdyno.store.record import KnownVariance, Peak, Process, Record
from convdyno.trial.rivalry import rivalry

MOST_PAIRS = 20
"""Of one run so many ratios are remembered at the most."""


@dataclass
class Experience:
    """The history of one machine, as the runs into one results folder have made it."""

    folder: Path
    machine: dict[str, object]
    narrator: Narrator

    def __post_init__(self) -> None:
        self._history, problem = read_history(self.folder, self.machine)
        if problem:
            self.narrator.say(problem)

    def peaks(self, record: Record) -> tuple[Peak, ...]:
        """How fast the device was seen to be at what a record is about, not long ago."""
        return self._history.peaks(record.trial, versions_of(record.versions))

    def borrowed(self, record: Record, run: Sequence[Record]) -> dict[SpreadOf, KnownVariance]:
        """What is known of how much the rounds of a record vary, and their ratios in this run."""
        found: dict[SpreadOf, KnownVariance] = {}
        for what, versions in (("rate", _versions([record])), ("ratio", _versions(run))):
            past = [
                PastRounds(one.rounds, one.variance, one.expected)
                for one in self._history.spreads
                if (one.what, one.versions) == (what, versions)
            ]
            known = learn(past)
            if known.freedom:
                found["rate" if what == "rate" else "ratio"] = KnownVariance(**asdict(known))
        return found

    def remember(self, records: Sequence[Record]) -> None:
        """Keep what a run has shown; that it cannot be written harms nothing."""
        known = [record for record in records if record.status == "ok" and record.measured]
        cells = [_cell(record) for record in known]
        spreads = [_rate_spread(one) for one in known if len(one.measured) >= MINIMUM_ROUNDS]
        pairs = [p for p in combinations(known, 2) if rivalry(p[0].trial, p[1].trial) is not None]
        for a, b in pairs[:MOST_PAIRS]:
            pair = paired(a, b)
            if len(pair.complete()) >= MINIMUM_ROUNDS:
                spreads.append(_ratio_spread(pair, _versions(known)))
        if not cells:
            return
        self._history = self._history.with_run(cells, spreads)
        try:
            write_history(self.folder, self._history, self.machine)
        except BadStore as wrong:
            self.narrator.say(f"{wrong}: later runs will know nothing of this one")


def _versions(records: Sequence[Record]) -> str:
    return " | ".join(sorted({versions_of(record.versions) for record in records}))


def _cell(record: Record) -> PastCell:
    first = record.measured[0]
    seconds = [one.seconds_per_image for one in rounds_of(record)]
    return PastCell(
        created=record.created,
        work=work_of(record.trial),
        versions=versions_of(record.versions),
        seconds_per_image=float(np.mean(seconds)),
        start_seconds=start_seconds(first),
        peaks=tuple(peak for peak in first.peaks if peak.kind != "input"),
    )


def start_seconds(process: Process) -> float:
    """What it took to make a process ready."""
    names = ("import_seconds", "build_seconds", "first_step_seconds", "warmup_seconds")
    return sum(getattr(process, name) or 0.0 for name in names)


def _rate_spread(record: Record) -> PastSpread:
    rounds = rounds_of(record)
    logs = np.array([one.log_rate for one in rounds])
    return PastSpread(
        what="rate",
        versions=_versions([record]),
        rounds=len(rounds),
        variance=float(logs.var(ddof=1)),
        expected=float(np.nan_to_num(variances_of(rounds)).mean()),
        turn=estimate_spread(rounds).within,
    )


def _ratio_spread(pair: PairedRounds, versions: str) -> PastSpread:
    each = [a.against(b) for a, b in pair.complete()]
    return PastSpread(
        what="ratio",
        versions=versions,
        rounds=len(each),
        variance=float(np.var([log for log, _ in each], ddof=1)),
        expected=float(np.nan_to_num([variance for _, variance in each]).mean()),
        turn=spread_of_ratio(pair).within,
    )

"""A candidate held against a base: has it become slower, or something else?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from convdyno import __version__
from convdyno.app.batch_choice import choose_batches
from convdyno.app.cells import looks_anew, make_trials, refuse_idle
from convdyno.app.gate_base import Base, base_of, base_trials, greeted, read_base, stored_records
from convdyno.app.requests import GateRequest
from convdyno.app.shown import Shown
from convdyno.errors import Interrupted, NothingMeasured, UsageError, signal_of
from convdyno.launch.local import Here
from convdyno.machine import facts
from convdyno.report.console import Screen
from convdyno.report.format import duration
from convdyno.report.gate import Gate, KnownFloor, Terms, examine, overall
from convdyno.stage.gate import GateStage, Side
from convdyno.stage.progress import SILENCE, Narrator
from convdyno.stats.gate import Outcome
from convdyno.stats.gate_checks import CHECKS
from convdyno.stats.plan import Goal
from convdyno.store.folder import Store
from convdyno.store.noise_floor import read_floor
from convdyno.store.record import Record
from convdyno.trial import axes, parse

FOLDER = "gate"
"""Where the records of gates are, apart from those of benchmarks."""


@dataclass(frozen=True, eq=False, repr=False)
class Gated(Shown):
    """What a gate found: verdicts, or only the noise floors if those were asked for."""

    within: float
    folder: Path
    """Where its records are."""
    base_folder: Path
    gates: list[Gate] = field(default_factory=list)
    floors: list[KnownFloor] = field(default_factory=list)

    @property
    def verdict(self) -> Outcome | None:
        """The worst of all verdicts; None where only noise floors were measured."""
        return overall(self.gates) if self.gates else None

    def show(self, screen: Screen) -> None:
        """Print each verdict with what it rests on, or the noise floors."""
        for known in self.floors:
            screen.line(f"{known.floor.trial.label}: noise floor {known.words}")
        for one in self.gates:
            one.show(screen)

    def to_dicts(self) -> list[dict[str, Any]]:
        """A flat dict for each candidate."""
        floors = [
            {"trial": known.floor.trial.label, "floor": known.share, "rounds": known.rounds}
            for known in self.floors
        ]
        return [*floors, *(one.flat() for one in self.gates)]


@dataclass
class GatedPair:
    """One candidate, its base, and what is known and left for them."""

    candidate: Side
    base: Side | Record | None
    """What runs here, or a record of earlier; None where only the noise floor is wanted."""
    seconds: float
    known: KnownFloor | None = None


@looks_anew
def gate(request: GateRequest, narrator: Narrator = SILENCE) -> Gated:
    """Hold the candidate, which is this environment, against the base that was asked for."""
    base = read_base(request)
    within = parse.share("--within")(axes.word(request.within))
    least, left_out = request.loss_within, request.ignore
    loss_within = parse.number("--loss-within", zero=True)(least) if least else None
    ignored = parse.several(left_out, parse.one_of("check", CHECKS)) if left_out else ()
    pairs = _pairs(base, request, narrator)
    # With several candidates each has its share of the 5 %, so that all together have no more.
    terms = Terms(
        within=within, loss_within=loss_within, left_out=ignored, level=1 - 0.05 / len(pairs)
    )
    stage = _stage(request, terms, narrator)
    found = Gated(within, stage.store.folder, request.base or stage.store.folder)
    try:
        for pair in pairs if request.floor is not False else ():
            _find_floor(stage, pair, terms, anew=bool(request.floor))
        if request.floor:
            found.floors.extend(pair.known for pair in pairs if pair.known)
            return found
        _refuse_narrow(pairs, terms)
        found.gates.extend(_judged(stage, pair, terms) for pair in pairs)
    except KeyboardInterrupt as end:
        kept = f"there is no verdict; the records are in {stage.store.folder}"
        raise Interrupted(signal_of(end), f"{kept}, and the same command begins anew") from None
    finally:
        for side in (side for pair in pairs for side in (pair.candidate, pair.base)):
            if isinstance(side, Side):
                side.there.close()
    return found


def _pairs(base: Base, request: GateRequest, narrator: Narrator) -> list[GatedPair]:
    """Every candidate with its base."""
    machine = facts.machine()
    records = stored_records(base.stored, machine) if base.stored is not None else []
    given: dict[str, Any] = {}
    batches: Mapping[str, int] = {}
    if records and not request.network:
        trials = [record.trial for record in records]
    else:
        given = request.given
        refuse_idle(given | dict(base.settings or {}))
        if base.folder is not None and "data" in given:
            # The base's workers run elsewhere: a path must not depend on it.
            paths = [Path(word) for word in axes.find("data").values(given["data"])]
            given["data"] = [str(p.absolute() if p.exists() else p) for p in paths]
        batches = _batches(request, records, narrator)
        trials = make_trials(Here(), given, batches)
    bases: Sequence[Side | Record | None] = [None] * len(trials)
    if base.stored is not None:
        bases = [base_of(trial, records, base.stored, machine) for trial in trials]
    elif not request.floor:
        there = Here() if base.command is None else Here(base.command)
        version = __version__ if base.command is None else greeted(base.command)
        bases = [
            Side("base", one, there, version) for one in base_trials(trials, base, given, batches)
        ]
    candidates = [Side("candidate", trial, Here(), __version__) for trial in trials]
    seconds = request.read("budget") / len(trials)
    return [GatedPair(one, other, seconds) for one, other in zip(candidates, bases, strict=True)]


def _batches(request: GateRequest, records: Sequence[Record], narrator: Narrator) -> dict[str, int]:
    """What batch networks have if none is given: that of their stored base, or what suits."""
    if records:
        return {record.trial.network: record.trial.batch for record in records}
    with closing(Here()) as there:
        chosen = choose_batches(there, request, narrator)
    return {name: choice.batch for name, choice in chosen.items()}


def _stage(request: GateRequest, terms: Terms, narrator: Narrator) -> GateStage:
    store = Store(request.out / FOLDER)
    store.prepare()
    return GateStage(
        store=store,
        narrator=narrator,
        machine=facts.machine(),
        command=request.command,
        goal=Goal(terms.within / 2, terms.level, request.read("rounds")),
        silence_seconds=request.read("watchdog"),
        rank_seconds=request.read("rank_timeout"),
        steps=request.loss_steps,
    )


def _find_floor(stage: GateStage, pair: GatedPair, terms: Terms, *, anew: bool) -> None:
    """What the machine can tell of a trial: as it is kept, or measured now and kept.

    It is only measured when it is asked for: the interval of the gate itself says what could be
    told, and the time is better spent on that.
    """
    trial, folder = pair.candidate.trial, stage.store.folder
    found = None if anew else read_floor(folder, trial, stage.machine)
    if anew:
        seconds = duration(pair.seconds)
        stage.narrator.tell(
            f"{trial.label}: measuring the noise floor, which takes {seconds} at most"
        )
        control = stage.floor(pair.candidate, pair.seconds, stage.goal.within)
        if control.floor is None:
            raise NothingMeasured(f"{trial.label}: no noise floor: {control.reason}")
        found = control.floor
        found.write(folder)
    if found is None:
        return
    fitting = int(pair.seconds / found.seconds_per_round)
    least, most = stage.goal.minimum_rounds, stage.goal.maximum_rounds
    shown = len(found.log_ratios) if anew else max(least, min(most, fitting))
    pair.known = KnownFloor(found, shown, terms.level)


def _refuse_narrow(pairs: Sequence[GatedPair], terms: Terms) -> None:
    for pair in pairs:
        if pair.known is not None and terms.within < pair.known.share:
            enough = f"{100 * pair.known.share * 1.1:.2g}%"
            raise UsageError(
                f"--within {100 * terms.within:g}% is less than this machine can tell of "
                f"{pair.candidate.trial.label} in {duration(pair.seconds)}: its noise floor is "
                f"{pair.known.words}. Give --within {enough}, a longer --budget or a quieter "
                "machine; --floor measures it anew, --no-floor goes on all the same"
            )


def _judged(stage: GateStage, pair: GatedPair, terms: Terms) -> Gate:
    in_turns = isinstance(pair.base, Side)
    rounds, within = stage.goal.minimum_rounds, stage.goal.within
    stage.narrator.plan(2 if in_turns else 1, rounds, within, pair.seconds)
    if isinstance(pair.base, Side):
        base, candidate = stage.in_turns(pair.base, pair.candidate, pair.seconds)
    else:
        assert pair.base is not None
        base, candidate = pair.base, stage.alone(pair.candidate, pair.seconds)
    found = examine(base, candidate, terms, in_turns=in_turns, floor=pair.known)
    if found.outcome == "undecided" and (missing := stage.shortfalls.get(candidate.id)):
        stage.narrator.tell(missing)  # A verdict that is there needs no more precision.
    return found

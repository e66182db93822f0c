"""A candidate held against a base: has it become slower, or something else?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from convdyno import __version__
from convdyno.app.cells import make_trials
from convdyno.app.gate_base import Base, base_of, base_trials, greeted, read_base, stored_records
from convdyno.app.requests import GateRequest
from convdyno.errors import NothingMeasured, UsageError
from convdyno.launch.local import Here
from convdyno.machine import facts
from convdyno.report.format import clock
from convdyno.report.gate import Gate, KnownFloor, Terms, examine
from convdyno.stage.gate import Arena, Side
from convdyno.stage.progress import SILENCE, Narrator
from convdyno.stats.gate_checks import CHECKS
from convdyno.stats.plan import Goal
from convdyno.store.folder import Store
from convdyno.store.noise_floor import read_floor
from convdyno.store.record import Record
from convdyno.trial import axes, parse

FLOOR_SHARE = 1 / 3
"""The part of the budget that a noise floor may take where none is known."""
FOLDER = "gate"
"""Where the records of gates are, apart from those of benchmarks."""


@dataclass(frozen=True)
class Gated:
    """What a gate found: verdicts, or only the noise floors if those were asked for."""

    within: float
    folder: Path
    """Where its records are."""
    base_folder: Path
    gates: list[Gate] = field(default_factory=list)
    floors: list[KnownFloor] = field(default_factory=list)


@dataclass
class Bout:
    """One candidate, its base, and what is known and left for them."""

    candidate: Side
    base: Side | Record | None
    """What runs here, or a record of earlier; None where only the noise floor is wanted."""
    seconds: float
    known: KnownFloor | None = None


def gate(request: GateRequest, narrator: Narrator = SILENCE) -> Gated:
    """Hold the candidate, which is this environment, against the base that was asked for."""
    base = read_base(request)
    within = parse.share("--within")(axes.word(request.within))
    least, left_out = request.loss_within, request.ignore
    loss_within = parse.number("--loss-within", zero=True)(least) if least else None
    ignored = parse.several(left_out, parse.one_of("check", CHECKS)) if left_out else ()
    bouts = _bouts(base, request)
    # With several candidates each has its share of the 5 %, so that all together have no more.
    terms = Terms(
        within=within, loss_within=loss_within, left_out=ignored, level=1 - 0.05 / len(bouts)
    )
    arena = _arena(request, terms, narrator)
    found = Gated(within, arena.store.folder, request.base or arena.store.folder)
    try:
        for bout in bouts if request.floor is not False else ():
            _find_floor(arena, bout, terms, anew=bool(request.floor))
        if request.floor:
            found.floors.extend(bout.known for bout in bouts if bout.known)
            return found
        _refuse_narrow(bouts, terms)
        found.gates.extend(_judged(arena, bout, terms) for bout in bouts)
    except KeyboardInterrupt:  # It must not be taken for a regression by its exit code.
        raise NothingMeasured("interrupted: the workers were ended; there is no verdict") from None
    return found


def _bouts(base: Base, request: GateRequest) -> list[Bout]:
    """Every candidate with its base."""
    machine = facts.machine()
    records = stored_records(base.stored, machine) if base.stored is not None else []
    given: dict[str, Any] = {}
    if records and not request.network:
        trials = [record.trial for record in records]
    else:
        given = request.given
        if base.folder is not None and "data" in given:
            # The base's workers run elsewhere: a path must not depend on it.
            paths = [Path(word) for word in axes.find("data").values(given["data"])]
            given["data"] = [str(p.absolute() if p.exists() else p) for p in paths]
        trials = make_trials(Here(), given)
    bases: Sequence[Side | Record | None] = [None] * len(trials)
    if base.stored is not None:
        bases = [base_of(trial, records, base.stored, machine) for trial in trials]
    elif not request.floor:
        there = Here() if base.command is None else Here(base.command)
        version = __version__ if base.command is None else greeted(base.command)
        bases = [Side("base", one, there, version) for one in base_trials(trials, base, given)]
    candidates = [Side("candidate", trial, Here(), __version__) for trial in trials]
    seconds = request.read("budget") / len(trials)
    return [Bout(one, other, seconds) for one, other in zip(candidates, bases, strict=True)]


def _arena(request: GateRequest, terms: Terms, narrator: Narrator) -> Arena:
    store = Store(request.out / FOLDER)
    store.prepare()
    return Arena(
        store=store,
        narrator=narrator,
        machine=facts.machine(),
        command=request.command,
        goal=Goal(terms.within / 2, terms.level, request.read("rounds")),
        silence_seconds=request.read("watchdog"),
        rank_seconds=request.read("rank_timeout"),
        steps=request.loss_steps,
    )


def _find_floor(arena: Arena, bout: Bout, terms: Terms, *, anew: bool) -> None:
    """What the machine can tell of a trial: as it is kept, or measured now and kept."""
    trial, folder = bout.candidate.trial, arena.store.folder
    found = None if anew else read_floor(folder, trial, arena.machine)
    if found is None:
        seconds = bout.seconds * (1 if anew else FLOOR_SHARE)
        arena.narrator.tell(
            f"{trial.label}: measuring the noise floor, which takes {clock(seconds)} at most"
            + ("" if anew else " and is kept")
        )
        control = arena.floor(bout.candidate, seconds, arena.goal.within if anew else 1.0)
        bout.seconds -= 0 if anew else min(seconds, control.seconds)
        found = control.floor
        if found is None:
            sentence = f"{trial.label}: no noise floor: {control.reason}"
            if anew:
                raise NothingMeasured(sentence)
            arena.narrator.say(sentence)
            return
        found.write(folder)
    fitting = int(bout.seconds / found.seconds_per_round)
    least, most = arena.goal.minimum_rounds, arena.goal.maximum_rounds
    shown = len(found.log_ratios) if anew else max(least, min(most, fitting))
    bout.known = KnownFloor(found, shown, terms.level)


def _refuse_narrow(bouts: Sequence[Bout], terms: Terms) -> None:
    for bout in bouts:
        if bout.known is not None and terms.within < bout.known.share:
            enough = f"{100 * bout.known.share * 1.1:.2g}%"
            raise UsageError(
                f"--within {100 * terms.within:g}% is less than this machine can tell of "
                f"{bout.candidate.trial.label} in {clock(bout.seconds)}: its noise floor is "
                f"{bout.known.words}. Give --within {enough}, a longer --budget or a quieter "
                "machine; --floor measures it anew, --no-floor goes on all the same"
            )


def _judged(arena: Arena, bout: Bout, terms: Terms) -> Gate:
    in_turns = isinstance(bout.base, Side)
    rounds, within = arena.goal.minimum_rounds, arena.goal.within
    arena.narrator.plan(2 if in_turns else 1, rounds, within, bout.seconds)
    if isinstance(bout.base, Side):
        base, candidate = arena.duel(bout.base, bout.candidate, bout.seconds)
    else:
        assert bout.base is not None
        base, candidate = bout.base, arena.alone(bout.candidate, bout.seconds)
    return examine(base, candidate, terms, in_turns=in_turns, floor=bout.known)

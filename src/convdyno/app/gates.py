"""A candidate held against a base: has it become slower, or something else?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from convdyno import __version__
from convdyno.app.cells import looks_anew, make_trials
from convdyno.app.gate_base import Base, base_of, base_trials, greeted, read_base, stored_records
from convdyno.app.requests import GateRequest
from convdyno.errors import NothingMeasured, UsageError
from convdyno.launch.local import Here
from convdyno.machine import facts
from convdyno.report.format import clock
from convdyno.report.gate import Gate, KnownFloor, Terms, examine
from convdyno.stage.gate import GateStage, Side
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
    pairs = _pairs(base, request)
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
    except KeyboardInterrupt:  # It must not be taken for a regression by its exit code.
        raise NothingMeasured("interrupted: the workers were ended; there is no verdict") from None
    return found


def _pairs(base: Base, request: GateRequest) -> list[GatedPair]:
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
    return [GatedPair(one, other, seconds) for one, other in zip(candidates, bases, strict=True)]


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
    """What the machine can tell of a trial: as it is kept, or measured now and kept."""
    trial, folder = pair.candidate.trial, stage.store.folder
    found = None if anew else read_floor(folder, trial, stage.machine)
    if found is None:
        seconds = pair.seconds * (1 if anew else FLOOR_SHARE)
        stage.narrator.tell(
            f"{trial.label}: measuring the noise floor, which takes {clock(seconds)} at most"
            + ("" if anew else " and is kept")
        )
        control = stage.floor(pair.candidate, seconds, stage.goal.within if anew else 1.0)
        pair.seconds -= 0 if anew else min(seconds, control.seconds)
        found = control.floor
        if found is None:
            sentence = f"{trial.label}: no noise floor: {control.reason}"
            if anew:
                raise NothingMeasured(sentence)
            stage.narrator.say(sentence)
            return
        found.write(folder)
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
                f"{pair.candidate.trial.label} in {clock(pair.seconds)}: its noise floor is "
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
    return examine(base, candidate, terms, in_turns=in_turns, floor=pair.known)

"""`convdyno gate`: has it become slower, or something else?"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from convdyno.cli import parse
from convdyno.cli.borrow import as_bench_has_them, bench_options
from convdyno.errors import NothingMeasured, UsageError

if TYPE_CHECKING:
    from convdyno.cli.base import Base
    from convdyno.report.gate import Gate, KnownFloor, Terms
    from convdyno.results.record import Record
    from convdyno.stage.gate import Arena, Side

EXAMPLES = """\b
Examples:
  convdyno gate resnet50 --base-python ../main/.venv/bin/python
  convdyno gate resnet50 --base-set layout=nchw --within 5%
  convdyno gate --network mine.nets:small --base-folder ../main --json
  convdyno gate lenet --base-command "env OMP_NUM_THREADS=1 python -m convdyno.run.worker"
  convdyno gate --base results/main --within 3%
  convdyno gate resnet50 --floor --budget 10m

\b
Exit codes: 0 pass, 1 regression, 2 bad usage or a limit below the noise floor, 3 undecided,
4 nothing was measured.
"""
FLOOR_SHARE = 1 / 3
"""The part of the budget that a noise floor may take where none is known."""
FOLDER = "gate"
"""Where the records of gates are, apart from those of benchmarks."""


@dataclass
class Bout:
    """One candidate, its base, and what is known and left for them."""

    candidate: Side
    base: Side | Record | None
    """What runs here, or a record of earlier; None where only the noise floor is wanted."""
    seconds: float
    known: KnownFloor | None = None


@bench_options(without=("rounds", "label"))
def gate(
    within: Annotated[str, typer.Option(help="How much longer a step may take.")] = "3%",
    base: Annotated[
        Path | None,
        typer.Option(help="Records of earlier, of this machine; without NETWORK all of them."),
    ] = None,
    base_python: Annotated[
        str | None, typer.Option(help="The base's environment: the path of its Python.")
    ] = None,
    base_command: Annotated[
        str | None, typer.Option(help="What starts a worker of the base.")
    ] = None,
    base_folder: Annotated[
        Path | None, typer.Option(help="The folder in which the base's workers run.")
    ] = None,
    base_set: Annotated[
        str | None, typer.Option(help="layout=nchw,threads=1: settings of the base.")
    ] = None,
    rounds: Annotated[int, typer.Option(help="Fresh processes of each side, at least.", min=2)] = 3,
    loss_steps: Annotated[int, typer.Option(help="First steps whose loss must agree.", min=1)] = 4,
    loss_within: Annotated[
        str | None, typer.Option(help="How far apart losses may be; 0: the same bits.")
    ] = None,
    ignore: Annotated[
        str | None, typer.Option(help="Of network, parameters, macs, loss, recompilations.")
    ] = None,
    floor: Annotated[
        bool | None,
        typer.Option("--floor/--no-floor", help="Only measure the noise floor; or do without."),
    ] = None,
    **given: Any,
) -> None:
    """Hold a candidate (this environment) against a base, both in the same rounds on this machine.

    The candidate passes when the interval of its speed lies above the limit, and is a regression
    when it lies below. What needs no statistics is compared exactly: the network, its counts, the
    losses of its first steps, compilations while it was measured.

    A limit below the noise floor (what the same trial differs from itself here) is refused. The
    floor is measured first where it is not known, and kept.
    """
    from convdyno.cli.base import Base, read_base
    from convdyno.report.bench_json import to_json
    from convdyno.report.console import Screen
    from convdyno.report.gate import EXIT_CODES, floor_document, gate_document, overall

    options = (base, base_python, base_command, base_folder, base_set)
    whose = Base() if floor and not any(options) else read_base(*options)
    terms = _terms(within, loss_within, ignore)
    bouts = _bouts(whose, given, floor_only=bool(floor))
    terms = _corrected(terms, len(bouts))
    out, quiet = given["out"] / FOLDER, given["as_json"]
    arena = _arena(given, terms, rounds, loss_steps, out)
    with _no_verdict_if_interrupted():
        for bout in bouts if floor is not False else ():
            _find_floor(arena, bout, terms, anew=bool(floor), quiet=quiet)
    if floor:
        known = [bout.known for bout in bouts if bout.known]
        lines = [f"{k.floor.trial.label}: noise floor {k.words}" for k in known]
        typer.echo(to_json(floor_document(known)) if quiet else "\n".join(lines))
        return
    _refuse_narrow(bouts, terms)
    with _no_verdict_if_interrupted():
        gates = [_judged(arena, bout, terms, quiet) for bout in bouts]
    if quiet:
        typer.echo(to_json(gate_document(gates, terms.within, out, base or out)))
    else:
        for one in gates:
            one.show(Screen())
    raise typer.Exit(EXIT_CODES[overall(gates)])


@contextmanager
def _no_verdict_if_interrupted() -> Iterator[None]:
    """Ctrl-C must not be taken for a regression by its exit code."""
    try:
        yield
    except KeyboardInterrupt:
        raise NothingMeasured("interrupted: the workers were ended; there is no verdict") from None


def _terms(within: str, loss_within: str | None, ignore: str | None) -> Terms:
    from convdyno.report.gate import Terms
    from convdyno.stats.gate_checks import CHECKS

    return Terms(
        within=parse.share("--within")(within),
        loss_within=(
            parse.number("--loss-within", zero=True)(loss_within) if loss_within else None
        ),
        left_out=parse.several(ignore, parse.one_of("check", CHECKS)) if ignore else (),
    )


def _corrected(terms: Terms, bouts: int) -> Terms:
    """With several candidates each has its share of the 5 %, so that all together have no more."""
    return replace(terms, level=1 - 0.05 / bouts)


def _bouts(base: Base, given: dict[str, Any], *, floor_only: bool) -> list[Bout]:
    """Every candidate with its base."""
    from convdyno import __version__
    from convdyno.cli.base import base_of, base_trials, greeted, stored_records
    from convdyno.launch.local import Here
    from convdyno.results import facts
    from convdyno.stage.gate import Side

    words, machine = as_bench_has_them(given), facts.machine()
    records = stored_records(base.stored, machine) if base.stored is not None else []
    if records and not (words["networks"] or words["network"]):
        trials = [record.trial for record in records]
    else:
        trials = _trials(words, base)
    bases: Sequence[Side | Record | None] = [None] * len(trials)
    if base.stored is not None:
        bases = [base_of(trial, records, base.stored, machine) for trial in trials]
    elif not floor_only:
        there = Here() if base.command is None else Here(base.command)
        version = __version__ if base.command is None else greeted(base.command)
        theirs = base_trials(trials, base, words)
        bases = [Side("base", trial, there, version) for trial in theirs]
    candidates = [Side("candidate", trial, Here(), __version__) for trial in trials]
    seconds = parse.duration("--budget")(given["budget"]) / len(trials)
    return [Bout(one, other, seconds) for one, other in zip(candidates, bases, strict=True)]


def _trials(words: dict[str, Any], base: Base) -> list[Any]:
    from convdyno.cli.bench import one_of_two
    from convdyno.cli.cells import make_trials
    from convdyno.launch.local import Here

    words["networks"] = one_of_two(words["networks"], words["network"])
    if base.folder is not None:  # The base's workers run elsewhere: a path must not depend on it.
        paths = [Path(word) for word in parse.several(words["data"], str)]
        words["data"] = ",".join(str(p.absolute() if p.exists() else p) for p in paths)
    return make_trials(Here(), words)


def _arena(given: dict[str, Any], terms: Terms, rounds: int, steps: int, out: Path) -> Arena:
    from convdyno.results import facts
    from convdyno.results.store import Store
    from convdyno.stage.gate import Arena
    from convdyno.stage.progress import Narrator
    from convdyno.stats.plan import Goal

    store = Store(out)
    store.prepare()
    return Arena(
        store=store,
        narrator=Narrator(),
        machine=facts.machine(),
        command=shlex.join(["convdyno", *sys.argv[1:]]),
        goal=Goal(terms.within / 2, terms.level, rounds),
        silence_seconds=parse.duration("--watchdog")(given["watchdog"]),
        rank_seconds=parse.duration("--rank-timeout")(given["rank_timeout"]),
        steps=steps,
    )


def _find_floor(arena: Arena, bout: Bout, terms: Terms, *, anew: bool, quiet: bool) -> None:
    """What the machine can tell of a trial: as it is kept, or measured now and kept."""
    from convdyno.report.format import clock
    from convdyno.report.gate import KnownFloor
    from convdyno.results.floor import read_floor

    trial, folder = bout.candidate.trial, arena.store.folder
    found = None if anew else read_floor(folder, trial, arena.machine)
    if found is None:
        seconds = bout.seconds * (1 if anew else FLOOR_SHARE)
        if not quiet:
            arena.narrator.say(
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
    from convdyno.report.format import clock

    for bout in bouts:
        if bout.known is not None and terms.within < bout.known.share:
            enough = f"{100 * bout.known.share * 1.1:.2g}%"
            raise UsageError(
                f"--within {100 * terms.within:g}% is less than this machine can tell of "
                f"{bout.candidate.trial.label} in {clock(bout.seconds)}: its noise floor is "
                f"{bout.known.words}. Give --within {enough}, a longer --budget or a quieter "
                "machine; --floor measures it anew, --no-floor goes on all the same"
            )


def _judged(arena: Arena, bout: Bout, terms: Terms, quiet: bool) -> Gate:
    from convdyno.report.gate import examine
    from convdyno.stage.gate import Side

    in_turns = isinstance(bout.base, Side)
    if not quiet:
        arena.narrator.plan(
            2 if in_turns else 1, arena.goal.minimum_rounds, arena.goal.within, bout.seconds
        )
    if isinstance(bout.base, Side):
        base, candidate = arena.duel(bout.base, bout.candidate, bout.seconds)
    else:
        assert bout.base is not None
        base, candidate = bout.base, arena.alone(bout.candidate, bout.seconds)
    return examine(base, candidate, terms, in_turns=in_turns, floor=bout.known)

"""A sweep's combinations into the trials of a plan, by the names of axes."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from convdyno.app.cells import check_word, make_trials
from convdyno.app.requests import READERS, BenchRequest, Hosts
from convdyno.app.slurm_runs import check_order
from convdyno.data import SOURCES
from convdyno.errors import BadSweep, ConvdynoError, UsageError
from convdyno.launch.launcher import Room
from convdyno.launch.slurm_options import Order, kinds, read_order
from convdyno.store.sweep_plan import CASE, PlannedTrial
from convdyno.trial import parse
from convdyno.trial.axes import AXES, BY_NAME
from convdyno.trial.spec import Trial
from convdyno.trial.sweep import Combination, Sweep
from convdyno.trial.sweep_file import Vocabulary

NOT_OF_ONE_TRIAL = ("case", "devices", "slurm", "stage_from")
OWN = {"together": 4, "shuffle": 0}
"""A sweep's own settings, and what they are when they are not given."""
FOR_JOBS = ("slurm_module", "slurm_setup")
CHECKS: dict[str, Any] = {
    "together": parse.whole("together"),
    "shuffle": parse.whole("shuffle", 0),
    **{name: reader(name.replace("_", "-")) for name, reader in READERS.items()},
}
"""What reads a setting that is more than a word."""


def _check(name: str, word: str) -> None:
    """Say what is wrong with one value, if anything is; settings that are words may be any."""
    if name in BY_NAME:
        check_word(name, word)
    elif name in CHECKS:
        CHECKS[name](word)


def vocabulary() -> Vocabulary:
    """The words of a sweep: what makes trials, and what is given once."""
    words = [axis for axis in AXES if axis.commands or axis.name == "network"]
    hosts = [one.name for one in fields(Hosts)]
    return Vocabulary(
        words=frozenset(axis.name for axis in words),
        settings=frozenset((*CHECKS, *hosts, *FOR_JOBS)),
        flags=frozenset(axis.name for axis in words if axis.kind == "flag"),
        check=_check,
        defaults={axis.name: axis.default for axis in words if axis.default is not None},
    )


@dataclass
class Plan:
    """Every trial of a sweep once, and what Slurm is asked for where it is asked."""

    planned: list[PlannedTrial]
    orders: dict[str, Order]
    """By the trial's own word for it."""


def make_plan(sweep: Sweep, name: str, there: Room, how: BenchRequest) -> Plan:
    """Every trial of a sweep, in the order of the file; `how` has what is given once."""
    combinations = sweep.combinations()
    if not combinations:
        raise BadSweep(f"{name}: nothing is left to run: every combination is excluded")
    orders = _orders(combinations, name)
    axes = list(dict.fromkeys(word for one in combinations for word in one))
    found: dict[str, PlannedTrial] = {}
    for family in _families(combinations):
        text = str(family[0].get("slurm", ""))
        kind, order = orders.get(text, (None, None))
        try:
            trials = _trials(family, order or there, how, order)
        except ConvdynoError as wrong:
            said = ", ".join(f"{word} {value}" for word, value in family[0].items())
            raise BadSweep(f"{name}: {wrong} ({said.replace('_', '-')})") from None
        by_count = {str(one.get("devices")): one for one in family}
        for trial in trials:
            own = trial.model_copy(update={"slurm": kind, "staged": family[0].get("stage_from")})
            if own.digest not in found:
                combination = by_count.get(str(own.devices), family[0])
                case = {CASE: str(combination[CASE])} if CASE in combination else {}
                path = tuple(str(combination.get(axis, "")) for axis in axes)
                found[own.digest] = PlannedTrial(own, case | sweep.labels, path)
    return Plan(list(found.values()), dict(orders.values()))


def _orders(combinations: list[Combination], name: str) -> dict[str, tuple[str, Order]]:
    """What Slurm is asked for, by what the file says."""
    texts = list(dict.fromkeys(str(one["slurm"]) for one in combinations if "slurm" in one))
    try:
        orders = [read_order(text) for text in texts]
        return dict(zip(texts, zip(kinds(orders), orders, strict=True), strict=True))
    except ConvdynoError as wrong:
        raise BadSweep(f"{name}: {wrong}") from None


def _families(combinations: list[Combination]) -> list[list[Combination]]:
    """Combinations that differ in their devices alone: they share a machine's cores out alike."""
    found: dict[tuple[tuple[str, Any], ...], list[Combination]] = {}
    for one in combinations:
        rest = tuple(item for item in one.items() if item[0] != "devices")
        found.setdefault(rest, []).append(one)
    return list(found.values())


def _trials(
    family: list[Combination], there: Room, how: BenchRequest, order: Order | None
) -> list[Trial]:
    said = {word: value for word, value in family[0].items() if word not in NOT_OF_ONE_TRIAL}
    counts = [one["devices"] for one in family if "devices" in one]
    given = said | ({"devices": counts} if counts else {})
    trials = make_trials(there, given)
    if order is not None:
        check_order(order, trials, how, given)
    if "stage_from" in family[0] and any(trial.data in SOURCES for trial in trials):
        raise UsageError("stage-from copies real data: give them with data")
    return trials

"""A sweep's combinations into the trials of a plan, by the words of `bench`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from convdyno.cli import options, parse
from convdyno.errors import BadSweep, ConvdynoError, UsageError

if TYPE_CHECKING:
    from convdyno.launch.crew import Room
    from convdyno.stage.agenda import Planned
    from convdyno.trial.spec import Trial
    from convdyno.trial.sweep import Combination, Sweep
    from convdyno.trial.sweep_file import Vocabulary

TOGETHER, SHUFFLE = 4, 0
"""What a sweep's own settings are when they are not given."""
FOR_JOBS = ("slurm_module", "slurm_setup")
SETTINGS: dict[str, Callable[[str], Any]] = {
    "together": parse.whole("together"),
    "shuffle": parse.whole("shuffle", 0),
    "within": parse.share("within"),
    "budget": parse.duration("budget"),
    "rounds": parse.whole("rounds"),
    "watchdog": parse.duration("watchdog"),
    "rank_timeout": parse.duration("rank-timeout"),
    "per_node": parse.whole("per-node"),
    "max_devices": parse.whole("max-devices"),
}
"""What reads a setting that is more than a word."""


def vocabulary() -> Vocabulary:
    """The words of a sweep: what makes trials, and what is given once."""
    from convdyno.cli.bench import FAR
    from convdyno.cli.cells import check_word, readers
    from convdyno.trial.sweep_file import Vocabulary

    others = {
        "network", "engine", "devices", "exchange", "optimiser", "rate", "seed", "stage_from",
        "slurm",
    }  # fmt: skip
    words = frozenset(readers()) | others | options.FLAGS
    known = options.defaults()
    return Vocabulary(
        words=words,
        settings=frozenset((*SETTINGS, *FAR, *FOR_JOBS)),
        flags=options.FLAGS,
        check=lambda name, word: (SETTINGS.get(name) or partial(check_word, name))(word),
        defaults={name: known[name] for name in words if known[name] is not None},
    )


def make_plan(
    sweep: Sweep, name: str, room: Callable[[str | None], Room], labels: dict[str, str]
) -> list[Planned]:
    """Every trial of a sweep once, in the order of the file.

    `room` tells where trials run that ask Slurm for something, or for nothing.
    """
    combinations = sweep.combinations()
    if not combinations:
        raise BadSweep(f"{name}: nothing is left to run: every combination is excluded")
    axes = list(dict.fromkeys(word for one in combinations for word in one))
    found: dict[str, Planned] = {}
    for family in _families(combinations):
        for combination, trial in _trials(family, name, room):
            if trial.digest not in found:
                found[trial.digest] = _planned(trial, combination, axes, labels)
    return list(found.values())


def _planned(
    trial: Trial, combination: Combination, axes: list[str], labels: dict[str, str]
) -> Planned:
    from convdyno.stage.agenda import CASE, Planned

    case = {CASE: str(combination[CASE])} if CASE in combination else {}
    path = tuple(str(combination.get(axis, "")) for axis in axes)
    return Planned(trial, case | labels, path)


def _families(combinations: list[Combination]) -> list[list[Combination]]:
    """Combinations that differ in their devices alone: they share a machine's cores out alike."""
    found: dict[tuple[tuple[str, Any], ...], list[Combination]] = {}
    for one in combinations:
        rest = tuple(item for item in one.items() if item[0] != "devices")
        found.setdefault(rest, []).append(one)
    return list(found.values())


def _trials(
    family: list[Combination], name: str, room: Callable[[str | None], Room]
) -> list[tuple[Combination, Trial]]:
    from convdyno.cli.cells import make_trials

    words = {word: value for word, value in family[0].items() if word not in ("case", "devices")}
    counts = [one["devices"] for one in family if "devices" in one]
    if counts:
        words["devices"] = counts  # type: ignore[assignment]
    text = words.pop("slurm", None)
    storage = words.pop("stage_from", None)
    try:
        there = room(None if text is None else str(text))
        trials = make_trials(there, options.given(words))
        _check_storage(storage, trials)
    except ConvdynoError as wrong:
        said = ", ".join(f"{word.replace('_', '-')} {value}" for word, value in family[0].items())
        raise BadSweep(f"{name}: {wrong} ({said})") from None
    changes = {"slurm": getattr(there, "kind", None), "staged": storage}
    by_count = {str(one.get("devices")): one for one in family}
    return [
        (by_count.get(str(trial.devices), family[0]), trial.model_copy(update=changes))
        for trial in trials
    ]


def _check_storage(storage: object, trials: list[Trial]) -> None:
    from convdyno.data import SOURCES

    if storage is not None and any(trial.data in SOURCES for trial in trials):
        raise UsageError("stage-from copies real data: give them with data")

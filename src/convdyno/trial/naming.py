"""Trials and their settings in words: what tells each of some trials from the others."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from convdyno.trial import axes

if TYPE_CHECKING:  # A list of records needs no trials.
    from convdyno.trial.spec import Trial

BARE = frozenset(axes.names(bare=True))
"""Settings whose value says what they are."""
MAIN = frozenset(axes.names(main=True))
"""The settings that every table shows."""


def written(value: Any) -> str:
    """The value of a setting as the command line has it."""
    if value is None:
        return "auto"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return "x".join(map(str, value))
    if hasattr(value, "kind"):
        return f"{value.kind}, rate {value.rate:g}"
    return f"{value:g}" if isinstance(value, float) else str(value)


def said(trial: Trial, name: str) -> str:
    """One setting in words."""
    value, words = getattr(trial, name), name.replace("_", " ")
    if name in BARE:
        return written(value)
    if isinstance(value, bool):
        return words if value else f"no {words}"
    return f"{words} {written(value)}"


def varying(trials: Sequence[Trial], always: Collection[str] = ()) -> list[str]:
    """The settings in which some trials differ from each other, and those that are always told."""
    differing = {name for trial in trials for name in trial.differs_in(trials[0])}
    names = trials[0].__dict__ if trials else always
    return [name for name in names if name in differing or name in always]


def labels_of(trials: Sequence[Trial]) -> list[str]:
    """What tells each of some trials from the others; what is the default goes without saying."""
    shown = [name for name in varying(trials) if name != "optimiser"] or ["engine"]
    return [
        ", ".join(
            said(trial, name)
            for name in shown
            if name in MAIN or getattr(trial, name) != type(trial).model_fields[name].default
        )
        for trial in trials
    ]

"""What a sweep runs: every combination of some values, without some, and with exceptions.

A combination is what one trial is made of, in the words of `convdyno bench`. The file that a sweep
is read from is `sweep_file`'s business, and what the words mean is the command line's.
"""

from __future__ import annotations

import itertools
import operator
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from convdyno.trial.spec import Trial, make_trial

T = TypeVar("T")
Value = str | int | float | bool
Combination = dict[str, Value]
"""One value for each word that is given; `case` is the name of the case, where there are cases."""
Values = dict[str, list[Value]]

CASE = "case"
_COMPARE = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
_COMPARISON = re.compile(r"\s*(<=|>=|!=|<|>)\s*(.+?)\s*")


def expand(axes: Mapping[str, Sequence[object]]) -> list[Trial]:
    """One trial for each combination of the axes' values; the last axis changes fastest."""
    return [make_trial(**values) for values in _product(axes)]


@dataclass
class Rule:
    """Which combinations are meant: those that have one of the values of each word."""

    values: Values
    place: str = ""
    """Where it was written, for people."""
    used: bool = False
    """Whether any combination was meant."""

    def means(self, combination: Combination, defaults: dict[str, Value]) -> bool:
        """Whether a combination has what the rule asks for; what it does not say is the default."""
        known = defaults | combination
        meant = all(
            name in known and any(_is(known[name], value) for value in values)
            for name, values in self.values.items()
        )
        self.used = self.used or meant
        return meant


@dataclass
class When:
    """Values that some combinations have instead of their own; a list makes several of each."""

    rule: Rule
    values: Values


@dataclass
class Sweep:
    """Values and axes, cases, exceptions and exclusions."""

    values: Values
    """In the order of the file; one value is fixed, several are an axis."""
    cases: dict[str, Values] = field(default_factory=dict)
    when: list[When] = field(default_factory=list)
    exclude: list[Rule] = field(default_factory=list)
    defaults: dict[str, Value] = field(default_factory=dict)
    """What words mean that are not given, for conditions."""
    labels: dict[str, str] = field(default_factory=dict)
    title: str = ""
    settings: dict[str, Value] = field(default_factory=dict)
    """What is given once for the whole sweep: how and where it is measured."""

    def combinations(self) -> list[Combination]:
        """All of them in order: cases first, then axes as in the file, the last fastest."""
        found: list[Combination] = []
        for case, own in self.cases.items() or {"": {}}.items():
            named: Values = {CASE: [case]} if case else {}
            axes = named | self.values | own
            for one in _product(axes):
                found += self._exceptions(one)
        return [one for one in found if not self._excluded(one)]

    @property
    def unused(self) -> list[str]:
        """Where rules were written that meant no combination: perhaps a slip of the pen."""
        rules = [*(one.rule for one in self.when), *self.exclude]
        return [rule.place for rule in rules if not rule.used]

    def _exceptions(self, combination: Combination) -> list[Combination]:
        several = [combination]
        for one in self.when:
            several = [
                before | instead for before in several for instead in self._instead(one, before)
            ]
        return several

    def _instead(self, one: When, combination: Combination) -> Iterable[Combination]:
        return _product(one.values) if one.rule.means(combination, self.defaults) else [{}]

    def _excluded(self, combination: Combination) -> bool:
        # Not `any`: each rule shall know whether it meant something.
        return bool([r for r in self.exclude if r.means(combination, self.defaults)])


def plain(value: Value) -> str:
    """A value as text, in one way however it was written: 16 and 16.0, true and yes."""
    text = str(value).strip()
    if text.lower() in ("true", "yes", "on"):
        return "yes"
    if text.lower() in ("false", "no", "off"):
        return "no"
    try:
        return f"{float(text):.15g}"
    except ValueError:
        return text


def _is(value: Value, wanted: Value) -> bool:
    """Whether a value is as wanted: equal, or as a comparison such as `>= 64` says."""
    comparison = _COMPARISON.fullmatch(wanted) if isinstance(wanted, str) else None
    if comparison is None:
        return plain(value) == plain(wanted)
    sign, text = comparison[1], comparison[2]
    if sign == "!=":
        return plain(value) != plain(text)
    try:
        return bool(_COMPARE[sign](float(value), float(text)))
    except ValueError:
        return False


def _product(axes: Mapping[str, Sequence[T]]) -> Iterator[dict[str, T]]:
    """Every combination of the values; the last name's change fastest."""
    for values in itertools.product(*axes.values()):
        yield dict(zip(axes, values, strict=True))

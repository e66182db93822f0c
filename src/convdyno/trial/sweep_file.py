"""Sweeps as TOML files, with the words of `convdyno bench`'s options.

    network = "resnet50"          # one value: fixed
    batch = [16, 32, 64]          # a list: an axis
    engine = ["torch", "jax"]
    budget = "3m"                 # for each cell

    [case.cpu]                    # named cases: each with values and axes of its own
    device = "cpu"

    [[when]]                      # values for some combinations
    if = { engine = "jax", batch = ">= 64" }
    set = { precision = "bf16" }

    [[exclude]]                   # combinations that are left out
    engine = "jax"
    batch = 16

    [labels]                      # what records are called by; they do not change what is run
    gpu = "k80"

What cannot be understood is answered with the file, the line and the nearest name.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from convdyno.errors import BadSweep, ConvdynoError, UnknownName
from convdyno.trial.sweep import CASE, Rule, Sweep, Value, Values, When
from convdyno.trial.toml_lines import Lines

TABLES = (CASE, "when", "exclude", "labels")
LABEL = "label."
WITH_COMMAS = ("slurm",)
"""Words whose one value may have commas in it."""


@dataclass(frozen=True)
class Vocabulary:
    """The words that a sweep may use."""

    words: frozenset[str]
    """What makes a trial: each may be an axis."""
    settings: frozenset[str]
    """What is given once for the whole sweep."""
    flags: frozenset[str]
    """Words that are either on or off."""
    check: Callable[[str, str], None]
    """Raises an error if a word cannot have a value."""
    defaults: dict[str, Value]


def read_sweep(path: Path, vocabulary: Vocabulary, overrides: Iterable[str] = ()) -> Sweep:
    """The sweep in a file, some of its values replaced by `KEY=VALUE[,VALUE...]`.

    `KEY=` takes a value out, and `case=NAME,...` leaves the other cases out.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as wrong:
        raise BadSweep(f"{path} cannot be read: {wrong.strerror}") from None
    except UnicodeDecodeError:
        raise BadSweep(f"{path} is no text in UTF-8") from None
    return parse_sweep(text, path.name, vocabulary, overrides)


def parse_sweep(
    text: str, name: str, vocabulary: Vocabulary, overrides: Iterable[str] = ()
) -> Sweep:
    """The sweep in a text; `name` is what the text is called in sentences."""
    try:
        # After its last line a text has no line numbers.
        document = tomllib.loads(text + "\n")
    except tomllib.TOMLDecodeError as wrong:
        raise BadSweep(f"{name} is no TOML: {wrong}") from None
    reader = _Reader(name, Lines(text), vocabulary)
    sweep = reader.sweep(document)
    for override in overrides:
        reader.replace(sweep, override)
    if "network" not in sweep.values and not all(
        "network" in own for own in sweep.cases.values() or [{}]
    ):
        raise BadSweep(f'{name} names no network: give one, as in network = "resnet50"')
    return sweep


class _Reader:
    def __init__(self, name: str, lines: Lines, vocabulary: Vocabulary) -> None:
        self._name, self._lines, self._known = name, lines, vocabulary

    def sweep(self, document: dict[str, Any]) -> Sweep:
        """The whole document."""
        known = self._known
        sweep = Sweep(values={}, defaults=known.defaults)
        for key, value in document.items():
            word = key.replace("-", "_")
            if key == "title":
                sweep.title = str(value)
            elif key in TABLES:
                continue
            elif word in known.settings:
                sweep.settings[word] = self._setting(word, value, self._at(key))
            else:
                self._word(key, known.words, key, also=(*known.settings, "title", *TABLES))
                sweep.values[word] = self._list(value, key)
        for name, table in self._mapping(document, CASE).items():
            sweep.cases[name] = self._values(table, CASE, name)
        for number, table in enumerate(self._array(document, "when")):
            sweep.when.append(self._when(table, number, sweep))
        for number, table in enumerate(self._array(document, "exclude")):
            sweep.exclude.append(self._rule(table, sweep, "exclude", number))
        for name, value in self._mapping(document, "labels").items():
            if not isinstance(value, str | int | float | bool):
                raise BadSweep(f"{self._at('labels', name)}: a label is text, not {value!r}")
            sweep.labels[name] = str(value)
        return sweep

    def replace(self, sweep: Sweep, override: str) -> None:
        """Let `KEY=VALUE[,VALUE...]` stand in place of whatever the file says of that key."""
        key, equals, text = override.partition("=")
        word = key.strip().replace("-", "_")
        known = self._known
        if not equals:
            raise BadSweep(f"--set {override!r} is not KEY=VALUE, as in --set batch=8,16")
        if key.startswith(LABEL):
            sweep.labels[key.removeprefix(LABEL)] = text
            return
        values: list[Value] = [text] if word in WITH_COMMAS else list(text.split(","))
        if word == CASE:
            for name in map(str, values):
                if name not in sweep.cases:
                    raise BadSweep(f"--set {override}: {UnknownName('case', name, sweep.cases)}")
            sweep.cases = {name: own for name, own in sweep.cases.items() if name in values}
            return
        if word in known.settings:
            sweep.settings.pop(word, None)
            if text:
                sweep.settings[word] = self._setting(word, text, f"--set {override}")
            return
        if word not in known.words:
            names = sorted(name.replace("_", "-") for name in known.words | known.settings)
            wrong = UnknownName("option", key, [*names, CASE])
            raise BadSweep(f"--set {override}: {wrong}")
        for place in (sweep.values, *sweep.cases.values(), *(one.values for one in sweep.when)):
            if place is not sweep.values or not text:
                place.pop(word, None)
        if text:
            sweep.values[word] = [self._word_value(word, v, f"--set {override}") for v in values]

    def _values(self, table: Any, *path: str | int) -> Values:
        """The values of a table of words."""
        if not isinstance(table, dict):
            raise BadSweep(f"{self._at(*path)}: {path[-1]} is a table of words and values")
        for key in table:
            self._word(key, self._known.words, *path, key)
        return {
            key.replace("-", "_"): self._list(value, *path, key) for key, value in table.items()
        }

    def _when(self, table: dict[str, Any], number: int, sweep: Sweep) -> When:
        place = ("when", number)
        for key in table:
            if key not in ("if", "set"):
                wrong = UnknownName("part of [[when]]", key, ("if", "set"))
                raise BadSweep(f"{self._at(*place, key)}: {wrong}")
        if set(table) != {"if", "set"}:
            raise BadSweep(
                f"{self._at(*place)}: [[when]] has an `if` and a `set`, as in "
                "if = { batch = 64 } and set = { precision = 'bf16' }"
            )
        rule = self._rule(table["if"], sweep, *place, "if")
        return When(rule, self._values(table["set"], *place, "set"))

    def _rule(self, table: Any, sweep: Sweep, *path: str | int) -> Rule:
        """A condition; it may name the case besides, and compare with <, >= and so on."""
        if not isinstance(table, dict) or not table:
            raise BadSweep(f"{self._at(*path)}: a condition is a table of words and values")
        values: Values = {}
        for key, value in table.items():
            self._word(key, self._known.words | {CASE}, *path, key)
            values[key.replace("-", "_")] = self._list(value, *path, key, check=False)
        for name in values.get(CASE, ()):
            if name not in sweep.cases:
                wrong = UnknownName(CASE, str(name), sweep.cases or ["(no case)"])
                raise BadSweep(f"{self._at(*path, CASE)}: {wrong}")
        return Rule(values, self._at(*path))

    def _word(
        self, key: str, words: frozenset[str], *path: str | int, also: Iterable[str] = ()
    ) -> None:
        word = key.replace("-", "_")
        if word in words:
            return
        if word in self._known.settings:
            raise BadSweep(
                f"{self._at(*path)}: {key} is given once for the whole sweep, at the top of the "
                "file, and cannot differ between trials"
            )
        names = [name.replace("_", "-") for name in (*words, *also)]
        raise BadSweep(f"{self._at(*path)}: {UnknownName('option', key, sorted(names))}")

    def _list(self, value: Any, *path: str | int, check: bool = True) -> list[Value]:
        """One value or several, each of a kind that the word can have."""
        several = value if isinstance(value, list) else [value]
        if not several:
            raise BadSweep(f"{self._at(*path)}: {path[-1]} is an empty list, so nothing would run")
        word = str(path[-1]).replace("-", "_")
        for one in several:
            if not isinstance(one, str | int | float | bool):
                kinds = "text, a number, true or false, or a list of those"
                raise BadSweep(f"{self._at(*path)}: {path[-1]} cannot be {one!r}: give {kinds}")
        if not check:
            return several
        return [self._word_value(word, one, self._at(*path)) for one in several]

    def _word_value(self, word: str, value: Value, place: str) -> Value:
        """A value that the word can have; a flag may be written as text too."""
        name = word.replace("_", "-")
        if word in self._known.flags:
            meant = {"true": True, "yes": True, "false": False, "no": False}
            if str(value).lower() not in meant:
                raise BadSweep(f"{place}: {name} is true or false, not {value!r}")
            return meant[str(value).lower()]
        if isinstance(value, bool):
            # TOML's true and false are what some options call on and off.
            value = "on" if value else "off"
        if "," in str(value) and word not in WITH_COMMAS:
            raise BadSweep(f"{place}: several values of {name} are a list: [..., ...]")
        self._check(word, str(value), place)
        return value

    def _setting(self, word: str, value: Any, place: str) -> Value:
        """One value that a setting can have."""
        if not isinstance(value, str | int | float) or isinstance(value, bool):
            raise BadSweep(f"{place}: {word.replace('_', '-')} has one value, not {value!r}")
        self._check(word, str(value), place)
        return value

    def _check(self, word: str, text: str, place: str) -> None:
        try:
            self._known.check(word, text)
        except ConvdynoError as wrong:
            raise BadSweep(f"{place}: {wrong}") from None

    def _mapping(self, document: dict[str, Any], key: str) -> dict[str, Any]:
        value = document.get(key, {})
        if not isinstance(value, dict):
            raise BadSweep(f"{self._at(key)}: {key} is a table: [{key}] or [{key}.NAME]")
        return value

    def _array(self, document: dict[str, Any], key: str) -> list[Any]:
        value = document.get(key, [])
        if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
            raise BadSweep(f"{self._at(key)}: every {key} is a table of its own: [[{key}]]")
        return value

    def _at(self, *path: str | int) -> str:
        line = self._lines.of(*path)
        return f"{self._name}, line {line}" if line else self._name

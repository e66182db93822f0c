"""Words into values; what does not fit is one sentence."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from convdyno.errors import UnknownName, UsageError

T = TypeVar("T")
UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


def several(text: str, read: Callable[[str], T]) -> list[T]:
    """A comma list of values, each once and in the order given."""
    words = [word.strip() for word in text.split(",")]
    if not text.strip():
        raise UsageError("an empty value was given: leave the option out for its default")
    if not all(words):
        raise UsageError(f"{text!r} has an empty value between its commas")
    return [read(word) for word in words]


def one_of(kind: str, choices: Sequence[str]) -> Callable[[str], str]:
    """A reader of one of a few words; another word is answered with the nearest."""

    def read(word: str) -> str:
        if word not in choices:
            raise UnknownName(kind, word, choices)
        return word

    return read


def whole(name: str, low: int = 1) -> Callable[[str], int]:
    """A reader of a whole number."""

    def read(word: str) -> int:
        if not re.fullmatch(r"[0-9]{1,12}", word) or int(word) < low:
            raise UsageError(f"{name} must be a whole number from {low} up, not {word!r}")
        return int(word)

    return read


def number(name: str, *, zero: bool = False) -> Callable[[str], float]:
    """A reader of a positive number."""

    def read(word: str) -> float:
        try:
            value = float(word)
        except ValueError:
            value = -1.0
        if not (value >= 0 if zero else value > 0) or value == float("inf"):
            raise UsageError(f"{name} must be a {'' if zero else 'positive '}number, not {word!r}")
        return value

    return read


def image_size(word: str) -> tuple[int, int]:
    """`224` or `224x160` (height x width)."""
    found = re.fullmatch(r"([0-9]{1,6})(?:x([0-9]{1,6}))?", word)
    if not found or not int(found[1]) or not int(found[2] or 1):
        raise UsageError(f"an image size is 224 or 224x160 (height x width), not {word!r}")
    return int(found[1]), int(found[2] or found[1])


def duration(name: str) -> Callable[[str], float]:
    """A reader of `90`, `90s`, `5m` or `1h30m`, in seconds."""

    def read(word: str) -> float:
        parts = re.findall(r"([0-9.]+)([smh]?)", word)
        try:
            seconds = sum(float(value) * UNITS[unit or "s"] for value, unit in parts)
        except ValueError:
            seconds = 0.0
        if "".join(a + b for a, b in parts) != word or seconds <= 0:
            raise UsageError(f"{name} is a time such as 90s, 5m or 1h30m, not {word!r}")
        return seconds

    return read


def share(name: str) -> Callable[[str], float]:
    """A reader of `3%` or `0.03`."""

    def read(word: str) -> float:
        value = number(name)(word.removesuffix("%")) / (100 if word.endswith("%") else 1)
        if value >= 1:
            raise UsageError(f"{name} is a share such as 3% or 0.03, not {word!r}")
        return value

    return read


def width(name: str) -> Callable[[str], float]:
    """A reader of a share, or of `any`: however wide."""
    return lambda word: math.inf if word == "any" else share(name)(word)


def labels(words: Iterable[str]) -> dict[str, str]:
    """`NAME=VALUE` each; the value may be anything."""
    found: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not re.fullmatch(r"[A-Za-z0-9_.-]+", name) or not equals:
            raise UsageError(f"a label is NAME=VALUE, such as gpu=k80, not {word!r}")
        if found.setdefault(name, value) != value:
            raise UsageError(f"the label {name} is given twice: {found[name]!r} and {value!r}")
    return found


def labelled(
    name: str, text: str, example: str = "scratch=/mnt/scratch,local=/tmp"
) -> dict[str, str]:
    """`label=value,label=value`, each label once."""
    pairs = [word.partition("=") for word in several(text, str)]
    labels = [label for label, _, value in pairs if label and value]
    if len(labels) != len(pairs) or len(set(labels)) != len(labels):
        raise UsageError(f"{name} is a list such as {example}, not {text!r}")
    return {label: value for label, _, value in pairs}


ENGINE_ALIASES = {
    "tf": "tensorflow", "pytorch": "torch", "keras/tf": "keras/tensorflow",
    "keras/pytorch": "keras/torch",
}  # fmt: skip


def engine(word: str) -> str:
    """An engine by its name, also by what hands type instead."""
    return ENGINE_ALIASES.get(word, word)

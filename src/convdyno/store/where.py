"""Some of the records, by conditions such as `network=resnet50` or `label.gpu!=k80`.

A condition names a field of the trial or of the record, or a label, and one value or several with
commas. Values are compared as the command line writes them: `image-size=224`, `auxiliary=yes`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from convdyno.errors import UnknownName, UsageError
from convdyno.store.record import Record, Status
from convdyno.trial.spec import Trial

LABEL = "label."
_OF_RECORD: Mapping[str, Callable[[Record], Any]] = {
    "id": lambda record: record.id,
    "status": lambda record: record.status,
    "global_batch": lambda record: record.trial.global_batch,
    "optimiser": lambda record: record.trial.optimiser.kind,
    "rate": lambda record: record.trial.optimiser.rate,
    "host": lambda record: record.machine.get("host"),
    "cpu": lambda record: record.machine.get("cpu"),
    "convdyno": lambda record: record.convdyno,
}
FIELDS = (*dict.fromkeys((*Trial.model_fields, *_OF_RECORD)),)
"""What a condition may name, besides labels."""


@dataclass(frozen=True)
class Condition:
    """A field and the values that it must have, or must not."""

    field: str
    values: tuple[str, ...]
    wanted: bool

    def holds(self, record: Record) -> bool:
        """Whether a record is as the condition says."""
        return bool(_words(record, self.field) & set(self.values)) == self.wanted

    @property
    def choices(self) -> tuple[str, ...]:
        """The only values that the field can have, where there are such."""
        if self.field == "status":
            return get_args(Status)
        known = Trial.model_fields.get(self.field)
        words = get_args(known.annotation) if known else ()
        return words if all(isinstance(word, str) for word in words) else ()


def select(records: Iterable[Record], conditions: Sequence[str]) -> list[Record]:
    """The records for which all conditions hold.

    A field or a value that no record has, and none could have by its kind, is a slip of the pen and
    answered with the nearest.
    """
    held = list(records)
    parsed = [parse_condition(text) for text in conditions]
    for condition in parsed if held else ():
        _check(condition, held)
    return [record for record in held if all(one.holds(record) for one in parsed)]


def parse_condition(text: str) -> Condition:
    """`FIELD=VALUE[,VALUE...]` or the same with `!=`."""
    name, equals, given = text.partition("=")
    wanted = not name.endswith("!")
    field = name.removesuffix("!").strip().replace("-", "_")
    values = tuple(_plain(word.strip()) for word in given.split(","))
    if not (field and equals and all(values)):
        raise UsageError(
            f"a condition is FIELD=VALUE or FIELD!=VALUE, such as engine=torch, not {text!r}"
        )
    if field.startswith(LABEL):
        field = LABEL + name.removesuffix("!").strip().removeprefix(LABEL)
    elif field not in FIELDS:
        raise UnknownName("field", field, FIELDS, see=f"Labels are asked for as {LABEL}NAME.")
    return Condition(field, values, wanted)


def _check(condition: Condition, records: Sequence[Record]) -> None:
    if condition.field.startswith(LABEL):
        labels = dict.fromkeys(LABEL + name for record in records for name in record.labels)
        if condition.field not in labels:
            raise UnknownName("label", condition.field, labels or ["(no record has any)"])
    there = dict.fromkeys(word for r in records for word in sorted(_words(r, condition.field)))
    for value in condition.values:
        if value not in there and value not in condition.choices:
            raise UnknownName(condition.field, value, there or ["(none in any record)"])


def _words(record: Record, field: str) -> set[str]:
    """A field's value as one may write it; a square image size may be written in two ways."""
    if field.startswith(LABEL):
        label = record.labels.get(field.removeprefix(LABEL))
        return set() if label is None else {_plain(label)}
    value = _OF_RECORD[field](record) if field in _OF_RECORD else getattr(record.trial, field)
    if isinstance(value, tuple):
        height, width = value
        return {f"{height}x{width}"} | ({str(height)} if height == width else set())
    if isinstance(value, bool):
        return {"yes", "true"} if value else {"no", "false"}
    return {"auto", "none"} if value is None else {_plain(str(value))}


def _plain(word: str) -> str:
    """Numbers are the same however they are written: 1, 1.0, 1e0."""
    try:
        return f"{float(word):.15g}"
    except ValueError:
        return word

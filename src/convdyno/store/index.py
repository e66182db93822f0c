"""The heads of all records of a folder, without reading what has not changed.

What was read is remembered in one file, `.index`. It is safe to lose, to be written by several
processes at once, and to be written by somebody who means harm: whatever it does not know, knows of
another state of a file, or says in a way that we would not have written, is read from the records
themselves. Names of files come from the folder alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from convdyno import __version__
from convdyno.errors import BadStore
from convdyno.files import read_plain, write_whole
from convdyno.store.names import ID, record_files, shortened

if TYPE_CHECKING:
    from convdyno.store.record import Record

NAME = ".index"
LARGEST = 1e18
"""No figure of ours is larger."""
Figures = Callable[["Record"], dict[str, Any]]
"""What is derived of a record and remembered with its head."""


@dataclass(frozen=True, slots=True)
class RecordHead:
    """A record without its samples."""

    file: str
    """Its name in the folder."""
    id: str
    created: str
    status: str
    reason: str | None
    label: str
    """The trial in words."""
    digest: str
    trial: dict[str, Any]
    """Without what is the default."""
    labels: dict[str, str]
    host: str
    kind: str
    """The kind of machine it ran on."""
    role: str = ""
    run: str = ""
    convdyno: str = ""
    figures: dict[str, Any] = field(default_factory=dict)

    def record(self) -> Record:
        """A record with this head and no samples, to be chosen by."""
        from convdyno.store.record import Record
        from convdyno.trial.spec import Trial

        return Record.model_construct(
            trial=Trial.model_validate(self.trial),
            trial_digest=self.digest,
            machine={"host": self.host, "cpu": self.kind.partition(",")[0]},
            **{name: getattr(self, name) for name in AS_IN_RECORD},
        )


AS_IN_RECORD = ("id", "created", "status", "reason", "labels", "role", "run", "convdyno")
"""What a head has as its record has it."""
MADE_BY = [__version__, *(field.name for field in fields(RecordHead))]
"""Another version remembers other things."""


class Index:
    """The heads of a results folder; `skipped` has a sentence for each file that is no record."""

    def __init__(self, folder: Path, figures: Figures) -> None:
        self._folder, self._figures = folder, figures
        self._known: dict[str, list[Any]] | None = None
        self.skipped: list[str] = []

    def heads(self) -> list[RecordHead]:
        """All records as they are now, oldest first."""
        if self._known is None:
            self._known = self._remembered()
        before, self._known, self.skipped = self._known, {}, []
        changed = 0
        for name, stamp in self._files():
            entry = before.get(name)
            if entry is None or entry[:2] != stamp:
                entry = [*stamp, *self._read(name)]
                changed += 1
            self._known[name] = entry
        if changed or len(before) != len(self._known):
            self._remember()
        self.skipped = [sentence for *_, sentence in self._known.values() if sentence]
        return [RecordHead(file, **head) for file, (_, _, head, _) in self._known.items() if head]

    def select(self, conditions: Sequence[str]) -> list[RecordHead]:
        """Those for which all conditions hold."""
        heads = self.heads()
        if not conditions:
            return heads
        from convdyno.store.where import select

        try:
            records = [head.record() for head in heads]
        except ValueError:  # A trial that was remembered is none: read all of them again.
            self._known = {}
            heads = self.heads()
            records = [head.record() for head in heads]
        chosen = {id(record) for record in select(records, conditions)}
        return [h for h, record in zip(heads, records, strict=True) if id(record) in chosen]

    def find(self, wanted: str) -> RecordHead:
        """The record whose id is or begins with `wanted`; `last` is the newest."""
        heads = {head.id: head for head in self.heads()}
        return heads[shortened(wanted, [*heads], f"record of {str(self._folder)!r}")]

    def _files(self) -> list[tuple[str, list[int]]]:
        """The files that may be records, with their size and time."""
        found = []
        for entry in record_files(self._folder):
            with suppress(OSError):  # It was moved away, or is a link to nothing.
                about = entry.stat()
                found.append((entry.name, [about.st_size, about.st_mtime_ns]))
        return found

    def _read(self, name: str) -> tuple[dict[str, Any] | None, str]:
        """A record's head, or the sentence that says why there is none."""
        from convdyno.store.folder import read_record

        try:
            head = asdict(head_of(name, read_record(self._folder / name), self._figures))
        except BadStore as wrong:
            return None, str(wrong)
        del head["file"]
        return head, ""

    def _remembered(self) -> dict[str, list[Any]]:
        try:
            data = json.loads(read_plain(self._folder / NAME))
        except (OSError, ValueError, RecursionError):
            return {}
        if not isinstance(data, dict) or data.get("made_by") != MADE_BY:
            return {}
        files = data.get("files")
        known = files.items() if isinstance(files, dict) else ()
        return {name: entry for name, entry in known if _is_entry(entry)}

    def _remember(self) -> None:
        data = {"made_by": MADE_BY, "files": self._known}
        with suppress(OSError):  # It only saves time; a folder that cannot be written can be read.
            write_whole(self._folder / NAME, json.dumps(data, separators=(",", ":")), sync=False)


def head_of(file: str, record: Record, figures: Figures) -> RecordHead:
    """What is remembered of a record."""
    from convdyno.machine.kinds import kind

    return RecordHead(
        file=file,
        label=record.trial.label,
        digest=record.trial_digest,
        trial=record.trial.model_dump(mode="json", exclude_defaults=True),
        host=str(record.machine.get("host", "")),
        kind=kind(record.machine),
        figures=figures(record),
        **{name: getattr(record, name) for name in AS_IN_RECORD},
    )


def _is_entry(entry: Any) -> bool:
    """Whether it is what we remember of a file: size, time, head, or the sentence in its place."""
    match entry:
        case [int(), int(), None, str(sentence)]:
            return bool(sentence)
        case [int(), int(), dict(head), ""]:
            return _is_head(head)
    return False


def _is_head(head: dict[str, Any]) -> bool:
    return (
        head.keys() == _KEYS
        and {str} == {type(head[name]) for name in _TEXTS}
        and ID.fullmatch(head["id"]) is not None
        and (head["reason"] is None or isinstance(head["reason"], str))
        and isinstance(head["trial"], dict)
        and type(head["trial"].get("batch")) is int
        and isinstance(head["labels"], dict)
        and {str} >= {*map(type, head["labels"].values())}
        and isinstance(head["figures"], dict)
        and all(value is None or is_figure(value) for value in head["figures"].values())
    )


def is_figure(value: Any) -> bool:
    """Whether it is a number that can be reckoned with."""
    return type(value) in (int, float) and -LARGEST < value < LARGEST


_KEYS = {found.name for found in fields(RecordHead)} - {"file"}
_TEXTS = _KEYS - {"reason", "trial", "labels", "figures"}

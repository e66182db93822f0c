"""The heads of all records of a folder, without reading what has not changed.

What was read is remembered in one file, `.index`. It is safe to lose, and to be written by
several processes at once: whatever it does not know, or knows of another state of a file, is read
from the records themselves.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from convdyno import __version__
from convdyno.errors import BadStore

if TYPE_CHECKING:
    from convdyno.results.record import Record

NAME = ".index"
Figures = Callable[["Record"], dict[str, Any]]
"""What is derived of a record and remembered with its head."""


@dataclass(frozen=True, slots=True)
class Head:
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
    """Of the machine."""
    role: str = ""
    run: str = ""
    convdyno: str = ""
    figures: dict[str, Any] = field(default_factory=dict)

    def record(self) -> Record:
        """A record with this head and no samples, to be chosen by."""
        from convdyno.results.record import Record
        from convdyno.trial.spec import Trial

        return Record.model_construct(
            id=self.id,
            created=self.created,
            status=self.status,
            reason=self.reason,
            trial=Trial.model_validate(self.trial),
            trial_digest=self.digest,
            labels=self.labels,
            convdyno=self.convdyno,
            machine={"host": self.host, "cpu": self.kind.partition(",")[0]},
        )


MADE_BY = [__version__, *(field.name for field in fields(Head))]
"""Another version remembers other things."""


class Index:
    """The heads of a results folder; `skipped` has a sentence for each file that is no record."""

    def __init__(self, folder: Path, figures: Figures) -> None:
        self._folder, self._figures = folder, figures
        self._known: dict[str, list[Any]] | None = None
        self.skipped: list[str] = []

    def heads(self) -> list[Head]:
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
        entries = list(self._known.values())
        self.skipped = [sentence for _, _, _, sentence in entries if sentence]
        return [Head(**head) for _, _, head, _ in entries if head]

    def _files(self) -> list[tuple[str, list[int]]]:
        """The files that may be records, with their size and time."""
        found = []
        try:
            with os.scandir(self._folder) as entries:
                for entry in entries:
                    if entry.name.endswith(".json") and not entry.name.startswith("."):
                        with suppress(FileNotFoundError):  # It was moved away meanwhile.
                            about = entry.stat()
                            found.append((entry.name, [about.st_size, about.st_mtime_ns]))
        except OSError as wrong:
            if isinstance(wrong, FileNotFoundError | NotADirectoryError):
                raise BadStore(
                    f"there is no results folder {str(self._folder)!r}; `convdyno bench` makes one"
                ) from None
            raise BadStore(f"{self._folder} cannot be read: {wrong.strerror}") from None
        return sorted(found)

    def _read(self, name: str) -> tuple[dict[str, Any] | None, str]:
        """A record's head, or the sentence that says why there is none."""
        from convdyno.results.store import read_record

        try:
            return asdict(head_of(name, read_record(self._folder / name), self._figures)), ""
        except BadStore as wrong:
            return None, str(wrong)

    def _remembered(self) -> dict[str, list[Any]]:
        try:
            data = json.loads((self._folder / NAME).read_bytes())
            if data["made_by"] == MADE_BY:
                return dict(data["files"])
        except (OSError, ValueError, LookupError, TypeError):
            pass
        return {}

    def _remember(self) -> None:
        data = {"made_by": MADE_BY, "files": self._known}
        part = self._folder / f"{NAME}-{os.getpid()}.part"
        try:
            part.write_text(json.dumps(data, separators=(",", ":")), encoding="utf-8")
            part.replace(self._folder / NAME)
        except OSError:  # It only saves time; a folder that cannot be written can be read.
            with suppress(OSError):
                part.unlink(missing_ok=True)


def head_of(file: str, record: Record, figures: Figures) -> Head:
    """What is remembered of a record."""
    from convdyno.results.machines import kind

    return Head(
        file=file,
        id=record.id,
        created=record.created,
        status=record.status,
        reason=record.reason,
        label=record.trial.label,
        digest=record.trial_digest,
        trial=record.trial.model_dump(mode="json", exclude_defaults=True),
        labels=record.labels,
        host=str(record.machine.get("host", "")),
        kind=kind(record.machine),
        role=record.role,
        run=record.run,
        convdyno=record.convdyno,
        figures=figures(record),
    )

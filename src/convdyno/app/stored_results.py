"""What has been measured: looked at, put away, brought together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from convdyno.errors import BadStore
from convdyno.store.index import Index, RecordHead

if TYPE_CHECKING:  # Ten thousand records are listed from their index, without any of these.
    from convdyno.stage.progress import Narrator
    from convdyno.store.archive import Archived
    from convdyno.store.cell_locks import Holder
    from convdyno.store.merge import Merged
    from convdyno.store.record import Record


@dataclass(frozen=True)
class PutAway:
    """Records that were archived, and those that stay because they are being measured."""

    moved: list[RecordHead]
    staying: dict[str, Holder]
    """Who measures it, by the record's name."""
    archived: Archived | None
    """Where they are; None if there was nothing to archive."""


def heads(out: Path, where: Sequence[str], narrator: Narrator) -> list[RecordHead]:
    """The heads of the records for which all conditions hold, oldest first."""
    index = Index(out, _figures)
    try:
        return index.select(where)
    finally:
        for sentence in index.skipped:
            narrator.say(f"skipped: {sentence}")


def records(out: Path, where: Sequence[str], narrator: Narrator) -> Iterator[Record]:
    """The same in full, one at a time."""
    from convdyno.store.folder import Store, read_record

    store = Store(out)
    for head in heads(out, where, narrator) if where else ():
        with suppress(BadStore):  # It was moved away meanwhile.
            yield read_record(out / head.file)
    yield from () if where else store.records()
    for sentence in store.skipped:
        narrator.say(f"skipped: {sentence}")


def find_record(out: Path, wanted: str) -> Record:
    """One record by the beginning of its id, or `last`."""
    from convdyno.store.folder import read_record

    return read_record(out / Index(out, _figures).find(wanted).file)


def archive(out: Path, where: Sequence[str], narrator: Narrator) -> PutAway:
    """Move records out of the way; what is being measured now stays."""
    from convdyno.store.archive import archive
    from convdyno.store.cell_locks import cell_name, holders

    found = heads(out, where, narrator)
    busy = dict(holders(out)) if found else {}
    cells = {head.id: cell_name(head.digest, head.kind) for head in found}
    staying = {name: busy[cell] for name, cell in cells.items() if cell in busy}
    moving = [head for head in found if head.id not in staying]
    derived = not where and not staying
    done = archive(out, [head.file for head in moving], derived=derived) if moving else None
    return PutAway(moving, staying, done)


def merge(sources: Sequence[Path], out: Path) -> list[Merged]:
    """Bring the records of other folders into one."""
    from convdyno.store.folder import Store
    from convdyno.store.merge import merge
    from convdyno.store.names import record_files

    for source in sources:
        record_files(source)  # Says so if there is no such folder, before one is made.
    store = Store(out)
    store.prepare()
    return [merge(source, store) for source in sources]


def load(out: Path, where: Sequence[str]) -> tuple[list[dict[str, Any]], list[str]]:
    """The records of a folder as flat rows, and a sentence for each file that is none."""
    from convdyno.report.cell import cell_of
    from convdyno.report.columns import flat
    from convdyno.store.folder import Store
    from convdyno.store.where import select

    store = Store(out)
    # Ten thousand records in full would not fit into memory; their heads and figures do.
    kept: dict[str, dict[str, Any]] = {}
    found = []
    for record in store.records():
        kept[record.id] = flat(cell_of(record))
        found.append(record.but(processes=()))
    return [kept[record.id] for record in select(found, where)], list(store.skipped)


def _figures(record: Record) -> dict[str, Any]:
    from convdyno.stats.index_figures import figures

    return figures(record)

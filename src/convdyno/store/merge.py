"""Stores from several machines into one: every record once, none changed, none averaged.

A record that is there already is left; one that is there in an earlier state is replaced by the
later; and if another record has its name, it gets a name of its own, always the same one.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from convdyno.errors import BadStore
from convdyno.machine.kinds import kind
from convdyno.store.folder import Store, read_record
from convdyno.store.names import MOST_LETTERS
from convdyno.store.record import Record


@dataclass
class Merged:
    """What became of the records of one store."""

    source: Path
    added: list[str] = field(default_factory=list)
    updated: list[str] = field(default_factory=list)
    renamed: dict[str, str] = field(default_factory=dict)
    """Old name to new, where another record had the name; these are among `added`."""
    present: int = 0
    """Records that were there already."""
    skipped: list[str] = field(default_factory=list)
    """A sentence for each file that was left out."""
    machines: Counter[str] = field(default_factory=Counter)
    """Records of each kind of machine."""


def merge(source: Path, target: Store) -> Merged:
    """Take over what another store has: records, and certificates that are missing."""
    if source.resolve() == target.folder.resolve():
        raise BadStore(f"{str(source)!r} is the folder that is merged into: name another")
    theirs, done = Store(source), Merged(source)
    for record in theirs.records():
        done.machines[f"{record.machine.get('host', '?')}: {kind(record.machine)}"] += 1
        _take(record, target, done)
    done.skipped += theirs.skipped
    for certificate in theirs.certificates():
        own = target.certificate(certificate.network, certificate.manner)
        if own is None:
            target.write_certificate(certificate)
        elif own.hash != certificate.hash:
            done.skipped.append(
                f"the certificate of {certificate.network} ({certificate.manner.words}): "
                "there is another one already"
            )
    return done


def _take(record: Record, target: Store, done: Merged) -> None:
    # A record that had to be renamed once ends with its fingerprint.
    mark = f"-{hashlib.sha256(' '.join(_origin(record)).encode()).hexdigest()[:8]}"
    plain = record.id.removesuffix(mark)
    marked = plain[: MOST_LETTERS - len(mark)] + mark
    for name in (plain, marked):
        there = _there(target, name)
        if there is not None and _origin(record) == _origin(there):
            if _progress(record) > _progress(there):
                target.write(record.but(id=name))
                done.updated.append(name)
            else:
                done.present += 1
            return
    name = record.id if _there(target, record.id) is None else marked
    target.write(record.but(id=name))
    done.added.append(name)
    if name != record.id:
        done.renamed[record.id] = name


def _there(target: Store, name: str) -> Record | None:
    """The record of that name, if there is a readable one; a damaged one is replaced."""
    with suppress(BadStore):
        return read_record(target.folder / f"{name}.json")
    return None


def _progress(record: Record) -> tuple[int, bool]:
    """How far a record has come."""
    blocks = sum(len(process.blocks) for process in record.processes)
    return blocks, record.status != "interrupted"


def _origin(record: Record) -> tuple[str, str, str]:
    """Moment, trial and machine: what tells records of one name apart, and stays as they grow."""
    return record.created, record.trial_digest, str(record.machine.get("host"))

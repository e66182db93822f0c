"""A folder of records: written atomically, read tolerantly."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from convdyno.errors import BadStore
from convdyno.files import clear_parts, read_plain
from convdyno.files import write_whole as write_file
from convdyno.store.certificate import Certificate
from convdyno.store.names import ID, record_files
from convdyno.store.record import SCHEMA, Frozen, Record
from convdyno.terminal import visible
from convdyno.trial.manner import Manner

Document = TypeVar("Document", bound=Frozen)


@dataclass
class Store:
    """A results folder; `skipped` collects a sentence for each file that is not a record."""

    folder: Path
    skipped: list[str] = field(default_factory=list)

    def prepare(self) -> None:
        """Make the folder and prove that it can be written, before anything is measured."""
        probe = self.folder / f".probe-{os.getpid()}"
        try:
            write_file(probe, bytes(64 * 1024)).unlink()
        except OSError as wrong:
            raise BadStore(
                f"results cannot be written to {str(self.folder)!r}: {wrong.strerror}. "
                "Choose another folder with --out."
            ) from None
        clear_parts(self.folder)

    def write(self, record: Record, *, sync: bool = True) -> Path:
        """Write a record in place of its earlier state; a kill leaves the old or the new.

        Without `sync` it is not waited for the disk, so that a power cut may take what is new.
        """
        if not ID.fullmatch(record.id):
            raise BadStore(f"{record.id!r} cannot be the name of a record")
        text = record.model_dump_json(indent=1)
        return write_whole(self.folder / f"{record.id}.json", text, sync=sync)

    def certificate(self, network: str, manner: Manner) -> Certificate | None:
        """The stored certificate of a network and a manner, if there is a readable one."""
        with suppress(BadStore):
            return read_document(Certificate, self._certificate_path(network, manner), "proof")
        return None

    def write_certificate(self, certificate: Certificate) -> Path:
        """Keep a certificate in place of an earlier one of the same network and manner."""
        path = self._certificate_path(certificate.network, certificate.manner)
        return write_whole(path, certificate.model_dump_json(indent=1))

    def certificates(self) -> Iterator[Certificate]:
        """All certificates that can be read."""
        for path in sorted((self.folder / "certificates").glob("*.json")):
            with suppress(BadStore):
                yield read_document(Certificate, path, "proof")

    def _certificate_path(self, network: str, manner: Manner) -> Path:
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", f"{network}-{manner.words}")
        return self.folder / "certificates" / f"{name}.json"

    def records(self) -> Iterator[Record]:
        """All records, oldest first; anything else in the folder is named in `skipped`."""
        return (record for _, record in self.files())

    def files(self) -> Iterator[tuple[Path, Record]]:
        """The same, each with its file."""
        self.skipped.clear()
        for path in map(Path, record_files(self.folder)):
            try:
                yield path, read_record(path)
            except BadStore as wrong:
                self.skipped.append(str(wrong))


def write_whole(path: Path, text: str, *, sync: bool = True) -> Path:
    """Write a file of a store; `BadStore` says why it cannot be."""
    try:
        return write_file(path, text, sync=sync)
    except OSError as wrong:
        raise BadStore(
            f"{path.name} cannot be written to {str(path.parent)!r}: {wrong.strerror}"
        ) from None


def read_document(kind: type[Document], path: Path, what: str) -> Document:
    """A file of a store as what it should be; `BadStore` names it and what is wrong with it."""
    try:
        return kind.model_validate_json(read_plain(path))
    except OSError as wrong:
        raise BadStore(f"{path} cannot be read: {wrong.strerror}") from None
    except ValidationError as wrong:
        raise BadStore(f"{path} is no {what}: {wrong.errors()[0]['msg']}") from None


def read_record(path: Path) -> Record:
    """One record file; `BadStore` names the file and what is wrong with it."""
    try:
        text = read_plain(path)
    except OSError as wrong:
        raise BadStore(f"{visible(path)} cannot be read: {wrong.strerror}") from None
    try:
        return Record.model_validate_json(text)
    except ValidationError as wrong:
        raise BadStore(f"{visible(path)} is not a record: {_why_not(text, wrong)}") from None


def _why_not(text: bytes, wrong: ValidationError) -> str:
    try:
        data = json.loads(text)
    except ValueError:
        return "it is not complete JSON"
    except RecursionError:
        return "it is nested too deeply"
    version = data.get("schema_version") if isinstance(data, dict) else None
    if isinstance(version, int) and version > SCHEMA:
        return f"it has schema {version} and this version reads up to {SCHEMA}; update convdyno"
    error = wrong.errors()[0]
    where = ".".join(map(str, error["loc"])) or "the document"
    return visible(f"{where}: {error['msg']}")


def stored_certificates(stores: list[Store]) -> dict[tuple[str, Manner], Certificate]:
    """The proofs of several folders, by network and manner."""
    return {
        (certificate.network, certificate.manner): certificate
        for store in reversed(stores)
        for certificate in store.certificates()
    }

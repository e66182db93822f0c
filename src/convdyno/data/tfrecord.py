"""TFRecord files: a length, its checksum, the data, its checksum; and sets of them.

Reading is by memory map. The offsets of a file's records are found once by walking the lengths,
each checked against its checksum and the file's end before it is used, and are kept in the cache
folder under the file's path, size and time of change.
"""

from __future__ import annotations

import bisect
import contextlib
import hashlib
import itertools
import mmap
import os
import re
import resource
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from convdyno.data.dataset_json import DATASET_JSON, read_dataset_json
from convdyno.data.files import listed, reason
from convdyno.data.optional_import import need
from convdyno.data.source import Example, Facts, Parted, Split
from convdyno.data.tf_example import class_name, find_filename, find_label, parse_example
from convdyno.errors import BadData
from convdyno.files import whole_file

Offsets = NDArray[np.int64]
HEADER = 12
"""Bytes before the data: its length in eight, the length's checksum in four."""
FOOTER = 4
MASK = 0xA282EAD8
SHARD = re.compile(r"(train|validation|val|test)\b.*-of-\d+$")
"""The usual name of a shard."""
INDEX_VERSION = 1
MOST_CLASSES = 1_000_000
SPARE_FILES = 256
"""Open files left for everything else."""


def masked(crc: int) -> int:
    """The checksum as TFRecord stores it: rotated, plus a constant."""
    return ((crc >> 15 | crc << 17) + MASK) & 0xFFFFFFFF


class RecordWriter:
    """Writes records to an open file."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._crc: Callable[[bytes], int] = need("google_crc32c").value

    def write(self, data: bytes) -> None:
        """Append one record."""
        length = struct.pack("<Q", len(data))
        self._file.write(length + struct.pack("<I", masked(self._crc(length))))
        self._file.write(data)
        self._file.write(struct.pack("<I", masked(self._crc(data))))


class RecordFile:
    """One TFRecord file, its records found by number; `read` may be called by many threads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._crc: Callable[[bytes], int] = need("google_crc32c").value
        try:
            with path.open("rb") as file:
                self._stat = os.fstat(file.fileno())
                # An empty file cannot be mapped; it has no records.
                self._map: mmap.mmap | bytes = b""
                if self._stat.st_size:
                    self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            raise BadData(f"{path} cannot be read: {reason(error)}") from error
        self.size = self._stat.st_size
        self.offsets = self._kept("offsets", self._plausible, self._walk)
        """Where each record begins, and the end of the last."""

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def where(self, index: int) -> str:
        """File and offset of a record, for sentences."""
        return f"{self.path} at byte {self.offsets[index]}"

    def read(self, index: int) -> bytes:
        """The data of one record; `BadData` where a byte of it has changed."""
        start, end = self._span(index)
        data = self._map[start:end]
        (stored,) = struct.unpack("<I", self._map[end : end + FOOTER])
        if masked(self._crc(data)) != stored:
            raise BadData(f"the record in {self.where(index)} is damaged: its checksum differs")
        return data

    def labels(self) -> Offsets:
        """Every record's label as stored, found without reading the images."""
        return self._kept("labels", lambda labels: len(labels) == len(self), self._labels)

    def filename(self, index: int) -> str:
        """The file name that a record has, found without reading the image."""
        return find_filename(self._map, *self._span(index))

    def close(self) -> None:
        """Give back the map."""
        if isinstance(self._map, mmap.mmap):
            self._map.close()

    def _span(self, index: int) -> tuple[int, int]:
        return int(self.offsets[index]) + HEADER, int(self.offsets[index + 1]) - FOOTER

    def _labels(self) -> Offsets:
        spans = ((*self._span(index), self.where(index)) for index in range(len(self)))
        return np.array([find_label(self._map, *span) for span in spans], np.int64)

    def _walk(self) -> Offsets:
        offsets, position = [0], 0
        unpack = struct.Struct("<QI").unpack_from
        while position < self.size:
            if position + HEADER + FOOTER > self.size:
                raise BadData(f"{self.path} is cut off at byte {position}: no whole record is left")
            length, stored = unpack(self._map, position)
            if masked(self._crc(self._map[position : position + 8])) != stored:
                raise BadData(
                    f"{self.path} is damaged or no TFRecord file: "
                    f"the length at byte {position} does not fit its checksum"
                )
            following = position + HEADER + length + FOOTER
            if following > self.size:
                raise BadData(
                    f"{self.path} is cut off: the record at byte {position} has {length} bytes, "
                    f"more than are left"
                )
            offsets.append(following)
            position = following
        return np.array(offsets, np.int64)

    def _plausible(self, offsets: Offsets) -> bool:
        if not len(offsets) or offsets[0] != 0 or offsets[-1] != self.size:
            return False
        return bool((np.diff(offsets) >= HEADER + FOOTER).all())

    def _kept(
        self, what: str, fits: Callable[[Offsets], bool], make: Callable[[], Offsets]
    ) -> Offsets:
        """What the cache has for this very file, or what is made now and kept there."""
        name = hashlib.sha256(os.fsencode(self.path.absolute())).hexdigest()[:32]
        note = cache_folder() / "index" / f"{name}.{what}.npy"
        key = [INDEX_VERSION, self.size, self._stat.st_mtime_ns]
        with contextlib.suppress(OSError, ValueError, EOFError):
            found: Any = np.load(note, allow_pickle=False)
            if found.dtype == np.int64 and found.ndim == 1 and found[: len(key)].tolist() == key:
                kept: Offsets = found[len(key) :]
                if fits(kept):
                    return kept
        made = make()
        # A cache that cannot be written costs time, nothing else.
        with contextlib.suppress(OSError):
            note.parent.mkdir(parents=True, exist_ok=True)
            with whole_file(note, sync=False) as file:
                content = np.concatenate([key, made]).astype(np.int64)
                np.save(file, content, allow_pickle=False)
        return made


@dataclass
class Records:
    """One split of a TFRecord set."""

    facts: Facts
    files: list[RecordFile]
    first_label: int
    _starts: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self._starts = [0, *itertools.accumulate(len(file) for file in self.files)]

    def __len__(self) -> int:
        return self._starts[-1]

    def read(self, index: int) -> Example:
        """One example; `BadData` where its checksum, its form or its label is wrong."""
        file, row = self._find(index)
        where = file.where(row)
        found = parse_example(file.read(row), where)
        label = found.label - self.first_label
        if not 0 <= label < len(self.facts.classes):
            raise BadData(_out_of_range(where, found.label, self.first_label, self.facts.classes))
        return Example(found.encoded, label, where)

    def labels(self) -> Offsets:
        """Every example's label, 0 being the first class; found without reading the images."""
        return np.concatenate([file.labels() for file in self.files]) - self.first_label

    def name(self, index: int) -> str:
        """The image's file name as the record has it; empty where it has none."""
        file, row = self._find(index)
        return file.filename(row)

    def close(self) -> None:
        """Give back the maps."""
        for file in self.files:
            file.close()

    def _find(self, index: int) -> tuple[RecordFile, int]:
        if not 0 <= index < len(self):
            raise IndexError(index)
        number = bisect.bisect_right(self._starts, index) - 1
        return self.files[number], index - self._starts[number]


@dataclass(frozen=True)
class RecordSet(Parted[list[Path]]):
    """A set of TFRecord files."""

    kind: str = "tfrecord"

    def open(self, split: Split) -> Records:
        """The split's files mapped, their classes taken from `dataset.json` or counted."""
        _allow_files(sum(len(paths) for paths in self.parts.values()))
        files = [RecordFile(path) for path in self.parts[split]]
        count = sum(len(file) for file in files)
        if not count:
            raise BadData(f"{self.path} has no records in its {split} files")
        first, classes = self._classes(split, files)
        size = sum(file.size for file in files)
        return Records(Facts(self.kind, self.path, split, count, classes, None, size), files, first)

    def _classes(self, split: Split, files: list[RecordFile]) -> tuple[int, tuple[str, ...]]:
        folder = self.path if self.path.is_dir() else self.path.parent
        told = read_dataset_json(folder)
        if told is not None:
            return told
        # Both splits must agree about the classes, and training knows them all.
        others = {s: [RecordFile(p) for p in ps] for s, ps in self.parts.items() if s != split}
        try:
            return 1, _counted([file for held in others.values() for file in held] + files)
        finally:
            for file in itertools.chain(*others.values()):
                file.close()


def find_records(path: Path) -> RecordSet | None:
    """The TFRecord set at a path, if there is one: a file, or a folder of shards."""
    paths = [path] if path.is_file() else [Path(e.path) for e in listed(path) if e.is_file()]
    parts: dict[Split, list[Path]] = {"train": [], "validation": []}
    if not any(looks_like_records(each) for each in paths[:SPARE_FILES]):
        return None
    for each in paths:
        # A shard whose first bytes are damaged belongs to the set all the same.
        if SHARD.match(each.name) or looks_like_records(each):
            parts[_split(each.name)].append(each)
    return RecordSet(path, {split: files for split, files in parts.items() if files})


def looks_like_records(path: Path) -> bool:
    """Whether a file begins like a TFRecord file: a length that fits its checksum."""
    try:
        with path.open("rb") as file:
            head = file.read(HEADER)
    except OSError:
        return False
    if len(head) < HEADER:
        return False
    crc: Callable[[bytes], int] = need("google_crc32c").value
    return masked(crc(head[:8])) == int.from_bytes(head[8:], "little")


def cache_folder() -> Path:
    """Where what can be made again is kept."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "convdyno"


def _split(name: str) -> Split:
    return "validation" if name.lower().startswith(("val", "test")) else "train"


def _counted(files: Sequence[RecordFile]) -> tuple[str, ...]:
    """Class names of a foreign set: labels count from 1, as ImageNet's do."""
    seen: dict[int, tuple[RecordFile, int]] = {}
    for file in files:
        labels = file.labels()
        for label, index in zip(*np.unique(labels, return_index=True), strict=True):
            if not 1 <= label <= MOST_CLASSES:
                raise BadData(_out_of_range(file.where(int(index)), int(label), 1, ()))
            seen.setdefault(int(label), (file, int(index)))
    names = {label: class_name(file.read(index)) for label, (file, index) in seen.items()}
    return tuple(names.get(label) or str(label) for label in range(1, max(seen) + 1))


def _out_of_range(where: str, label: int, first: int, classes: Sequence[str]) -> str:
    last = f" to {first + len(classes) - 1}" if classes else ""
    hint = (
        ""
        if first == 0 or label
        else f"; a {DATASET_JSON} beside it can say that they count from 0"
    )
    return f"the record in {where} has label {label}, but labels go from {first}{last}{hint}"


def _allow_files(count: int) -> None:
    """Raise the soft limit of open files for sets of many shards; each map holds a file open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * count + SPARE_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))

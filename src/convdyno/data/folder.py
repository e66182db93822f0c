"""Images in one folder a class, with or without folders for the splits above them."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from convdyno.data.dataset_json import folder_name, read_dataset_json
from convdyno.data.encoded_image import HEAD, sniff
from convdyno.data.files import Blob, listed, reason
from convdyno.data.source import Example, Facts, Parted, Split
from convdyno.errors import BadData

SPLITS: dict[Split, tuple[str, ...]] = {
    "train": ("train", "training"),
    "validation": ("validation", "val", "valid", "test", "testing"),
}
USUAL = (".jpg", ".jpeg", ".png", ".gif", ".bmp", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
"""Names that are believed while a folder is listed; other files are looked into."""
PEEK = 16
"""Files of a folder that are looked at to tell what it is."""
WHOLE = -1


class ImagePlace(NamedTuple):
    """Where one image is: a file of a folder, or a stretch of a tar archive."""

    holder: str
    """The folder or the archive."""
    name: str
    label: int
    size: int
    offset: int = WHOLE
    """Where the file begins in its archive."""


@dataclass
class Pictures:
    """Images read one by one from files or archives; `read` may be called by many threads."""

    facts: Facts
    holders: list[str]
    holder: NDArray[np.int32]
    names: list[str]
    labels: NDArray[np.int64]
    sizes: NDArray[np.int64]
    offsets: NDArray[np.int64]
    _open: dict[int, int] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __len__(self) -> int:
        return len(self.names)

    def read(self, index: int) -> Example:
        """One image's bytes; `BadData` if they cannot be read or are no image."""
        holder, offset = int(self.holder[index]), int(self.offsets[index])
        where = self._where(index)
        try:
            if offset == WHOLE:
                data = Path(where).read_bytes()
            else:
                data = os.pread(self._handle(holder), int(self.sizes[index]), offset)
        except OSError as error:
            raise BadData(f"{where} cannot be read: {reason(error)}") from error
        if offset != WHOLE and len(data) < self.sizes[index]:
            raise BadData(f"{where} is cut off")
        if sniff(data) is None:
            raise BadData(f"{where} is {'empty' if not data else 'no image that can be read'}")
        return Example(data, int(self.labels[index]), where)

    def name(self, index: int) -> str:
        """The image's own file name, below its class."""
        return self.names[index]

    def close(self) -> None:
        """Give back open archives."""
        with self._lock:
            for handle in self._open.values():
                os.close(handle)
            self._open.clear()

    def _where(self, index: int) -> str:
        holder = self.holders[self.holder[index]]
        if self.offsets[index] == WHOLE:
            return f"{holder}/{self.names[index]}"
        return f"{holder} at byte {self.offsets[index]} ({self.names[index]})"

    def _handle(self, holder: int) -> int:
        with self._lock:
            if holder not in self._open:
                self._open[holder] = os.open(self.holders[holder], os.O_RDONLY)
            return self._open[holder]


@dataclass(frozen=True)
class ImageFolder(Parted[Path]):
    """A set of images in one folder a class."""

    kind: str = "folder"

    def open(self, split: Split) -> Pictures:
        """The split's files, listed; labels follow the sorted names of the class folders."""
        folders = class_folders(self.parts.get("train", self.parts[split]))
        told = read_dataset_json(self.path)
        classes = folders if told is None else told[1]
        if told is not None:
            folders = tuple(map(folder_name, classes))
        found = places(self.parts[split], folders, self.path)
        return gather(self.kind, self.path, split, classes, found)


def find_folder(path: Path) -> ImageFolder | None:
    """The image folders at a path, if there are any."""
    if not path.is_dir():
        return None
    parts: dict[Split, Path] = {}
    for split, names in SPLITS.items():
        below = (path / name for name in names)
        found = next((folder for folder in below if folder.is_dir() and _has_classes(folder)), None)
        if found is not None:
            parts[split] = found
    if not parts and _has_classes(path):
        parts["train"] = path
    return ImageFolder(path, parts) if parts else None


def class_folders(folder: Path) -> tuple[str, ...]:
    """The names of the classes of a split."""
    return tuple(entry.name for entry in listed(folder) if entry.is_dir())


def places(folder: Path, classes: Sequence[str], top: Path) -> Iterator[ImagePlace]:
    """Every image of a split's class folders."""
    number = {name: label for label, name in enumerate(classes)}
    for name in class_folders(folder):
        if name not in number:
            raise BadData(f"{folder / name} is a class that {top} does not have for training")
        empty = True
        for file in images_in(folder / name):
            empty = False
            holder = str(folder / name)
            yield ImagePlace(
                holder, file.path[len(holder) + 1 :], number[name], file.stat().st_size
            )
        if empty:
            raise BadData(f"{folder / name} is a class folder without images")


def images_in(folder: Path) -> Iterator[os.DirEntry[str]]:
    """The images of a folder and of those below it, in the order of their names."""
    for entry in listed(folder):
        if entry.is_dir():
            yield from images_in(Path(entry.path))
        elif not entry.is_file() and not entry.is_symlink():
            continue
        elif entry.name.lower().endswith(USUAL) or is_image(Path(entry.path)):
            yield entry


def is_image(path: Path) -> bool:
    """Whether a file's first bytes are an image's."""
    return sniff(Blob(path.name, str(path), path).head(HEAD)) is not None


def gather(
    kind: str, path: Path, split: Split, classes: Sequence[str], found: Iterable[ImagePlace]
) -> Pictures:
    """A source of the images at these places."""
    numbers: dict[str, int] = {}
    names: list[str] = []
    rows: list[tuple[int, int, int, int]] = []
    try:
        for place in found:
            holder = numbers.setdefault(place.holder, len(numbers))
            names.append(place.name)
            rows.append((holder, place.label, place.size, place.offset))
    except OSError as error:
        raise BadData(f"{error.filename or path} cannot be read: {reason(error)}") from error
    if not rows:
        raise BadData(f"{path} has no images in its {split} split")
    table = np.array(rows, np.int64)
    size = int(table[:, 2].sum())
    facts = Facts(kind, path, split, len(rows), tuple(classes), None, size)
    columns = (np.ascontiguousarray(table[:, column]) for column in range(4))
    holder_column, labels, sizes, offsets = columns
    return Pictures(
        facts, list(numbers), holder_column.astype(np.int32), names, labels, sizes, offsets
    )


def _has_classes(folder: Path) -> bool:
    """Whether there are folders with images in them below a folder."""
    classes = [entry for entry in listed(folder) if entry.is_dir()]
    return any(_has_image(Path(entry.path)) for entry in classes[:PEEK])


def _has_image(folder: Path, depth: int = 1) -> bool:
    entries = listed(folder)[:PEEK]
    if any(entry.is_file() and is_image(Path(entry.path)) for entry in entries):
        return True
    below = [Path(entry.path) for entry in entries if entry.is_dir()] if depth else []
    return any(_has_image(each, depth - 1) for each in below)

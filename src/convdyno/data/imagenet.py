"""ImageNet as it is distributed, read in place.

Training images are a tar archive of one tar archive a synset; validation images are one flat
archive with a file of labels: numbers of the development kit, whose meta.mat says which synset each
is, or one synset a line. Each part may also be unpacked, wholly or once. Labels follow the sorted
synsets, as in every framework.
"""

from __future__ import annotations

import re
import tarfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

from convdyno.data.encoded_image import HEAD, sniff
from convdyno.data.files import Blob, groups, is_tar, listed, looks_like_tar, members, reason
from convdyno.data.folder import (
    SPLITS,
    ImagePlace,
    Pictures,
    class_folders,
    gather,
    images_in,
    is_image,
    places,
)
from convdyno.data.imagenet_meta import read_synsets
from convdyno.data.source import Parted, Split
from convdyno.errors import BadData

Form = Literal["tars", "images"]
"""What a tar archive or a folder holds: one archive a class, or images."""
MOST_NOTE = 32 << 20
"""Bytes of a file that may hold labels, or of the development kit."""
PEEK = 16
DAMAGED = (tarfile.TarError, OSError, EOFError, ValueError)
"""What reading a broken archive raises."""


@dataclass(frozen=True)
class ImageNet(Parted[Path]):
    """The archives or folders of ImageNet."""

    kind: str = "imagenet"

    def open(self, split: Split) -> Pictures:
        """The split's images, found in their archives."""
        train = self.parts.get("train")
        classes = _classes(train) if train is not None else None
        if split == "train":
            assert train is not None and classes is not None
            return gather(self.kind, self.path, split, classes, _training(train, classes))
        part = self.parts[split]
        if part.is_dir() and class_folders(part):
            classes = classes or class_folders(part)
            return gather(self.kind, self.path, split, classes, places(part, classes, self.path))
        return self._validation(part, classes)

    def _validation(self, part: Path, classes: Sequence[str] | None) -> Pictures:
        flat = sorted(_images(part), key=lambda place: place.name)
        synsets = _labels(self.path, len(flat), classes)
        classes = classes or sorted(set(synsets))
        number = {name: label for label, name in enumerate(classes)}
        for line, synset in enumerate(synsets, 1):
            if synset not in number:
                raise BadData(f"{synset!r}, label {line} of {self.path}, is no training class")
        found = (
            place._replace(label=number[synset])
            for place, synset in zip(flat, synsets, strict=True)
        )
        return gather(self.kind, self.path, "validation", classes, found)


def find_imagenet(path: Path) -> ImageNet | None:
    """ImageNet's archives at a path, if they are there: one, or a folder with both."""
    if path.is_file():
        form = _form(path)
        if form == "tars":
            return ImageNet(path, {"train": path})
        return ImageNet(path, {"validation": path}) if form == "images" else None
    entries = listed(path)
    parts: dict[Split, Path] = {}
    packed = False
    for entry in [entry for entry in entries if entry.is_file()][: 2 * PEEK]:
        form = _form(Path(entry.path))
        split: Split = "train" if form == "tars" else "validation"
        # The test images are packed like the validation images, and have no labels.
        if form is not None and (split not in parts or "val" in entry.name.lower()):
            parts[split] = Path(entry.path)
            packed = True
    for split, names in SPLITS.items():
        for entry in entries:
            if split not in parts and entry.is_dir() and entry.name.lower() in names:
                folder = Path(entry.path)
                tars = split == "train" and _all(folder, _is_class)
                # Images without class folders are ImageNet's beside training images alone; they
                # may as well be a class that has the name of a split.
                flat = split == "validation" and "train" in parts and _all(folder, is_image)
                if tars or flat or class_folders(folder):
                    parts[split] = folder
                    packed = packed or tars or flat
    if not packed and _all(path, _is_class):
        return ImageNet(path, {"train": path})
    return ImageNet(path, parts) if packed else None


def _all(folder: Path, test: Callable[[Path], bool]) -> bool:
    entries = listed(folder)[:PEEK]
    return bool(entries) and all(entry.is_file() and test(Path(entry.path)) for entry in entries)


def _is_class(path: Path) -> bool:
    """Whether a file is the archive of one class."""
    return _form(path) == "images"


def _form(path: Path) -> Form | None:
    """What an uncompressed tar archive holds, told by its first file."""
    try:
        with path.open("rb") as file:
            if not looks_like_tar(file.read(512)):
                return None
        with tarfile.open(path, "r:") as archive:
            first = next((member for member in archive if member.isreg()), None)
            opened = archive.extractfile(first) if first is not None else None
            head = opened.read(512) if opened is not None else b""
    except DAMAGED:
        return None
    if looks_like_tar(head):
        return "tars"
    return "images" if sniff(head) else None


def _stretches(path: Path) -> Iterator[tarfile.TarInfo]:
    """The files of an uncompressed archive."""
    try:
        with tarfile.open(path, "r:") as archive:
            yield from (member for member in archive if member.isreg())
    except DAMAGED as error:
        raise BadData(f"{path} is a damaged archive: {reason(error)}") from error


def _stem(name: str) -> str:
    return name.rpartition("/")[2].removesuffix(".tar")


def _classes(train: Path) -> tuple[str, ...]:
    if train.is_file():
        names = [_stem(member.name) for member in _stretches(train)]
    elif folders := class_folders(train):
        return folders
    else:
        names = [_stem(entry.name) for entry in listed(train) if entry.is_file()]
    if len(set(names)) != len(names):
        raise BadData(f"{train} has the same class twice")
    return tuple(sorted(names))


def _training(train: Path, classes: Sequence[str]) -> Iterator[ImagePlace]:
    number = {name: label for label, name in enumerate(classes)}
    if train.is_dir() and class_folders(train):
        yield from places(train, classes, train)
    elif train.is_dir():
        for name in classes:
            yield from _inside(train / f"{name}.tar", number[name])
    else:
        try:
            with tarfile.open(train, "r:") as archive:
                for member in archive:
                    file = archive.extractfile(member) if member.isreg() else None
                    if file is not None:
                        label = number[_stem(member.name)]
                        yield from _nested(file, train, member, label)
        except DAMAGED as error:
            raise BadData(f"{train} is a damaged archive: {reason(error)}") from error


def _nested(
    file: IO[bytes], outer: Path, member: tarfile.TarInfo, label: int
) -> Iterator[ImagePlace]:
    """The images of an archive within an archive, at their offsets in the outer one."""
    count = 0
    try:
        with tarfile.open(fileobj=file, mode="r:") as inner:
            for image in inner:
                if image.isreg():
                    count += 1
                    offset = member.offset_data + image.offset_data
                    yield ImagePlace(str(outer), image.name, label, image.size, offset)
    except tarfile.TarError as error:
        raise BadData(
            f"{outer} at byte {member.offset_data}: {member.name} is a damaged archive"
        ) from error
    if not count:
        raise BadData(f"{outer} at byte {member.offset_data}: {member.name} has no images")


def _inside(archive: Path, label: int) -> Iterator[ImagePlace]:
    for member in _stretches(archive):
        yield ImagePlace(str(archive), member.name, label, member.size, member.offset_data)


def _images(part: Path) -> Iterator[ImagePlace]:
    if part.is_file():
        yield from _inside(part, 0)
        return
    for entry in images_in(part):
        yield ImagePlace(str(part), entry.path[len(str(part)) + 1 :], 0, entry.stat().st_size)


def _labels(path: Path, count: int, classes: Sequence[str] | None) -> list[str]:
    """The synset of each validation image, from whichever file has one label for each."""
    notes = list(_notes(path))
    known = set(classes or ())
    for note in notes:
        words = _words(note, count)
        if words and all(word in known or re.fullmatch(r"n\d{8}", word) for word in words):
            return words
        if words and all(re.fullmatch(r"\d{1,7}", word) for word in words):
            return _translated(note, [int(word) for word in words], _numbers(path, notes))
    raise BadData(
        f"{path} has {count} validation images but no file with as many labels: put "
        "ILSVRC2012_validation_ground_truth.txt and meta.mat (or the development kit's archive) "
        "beside them, or a file with one synset a line"
    )


def _translated(note: Blob, numbers: list[int], synsets: dict[int, str]) -> list[str]:
    for line, number in enumerate(numbers, 1):
        if number not in synsets:
            raise BadData(f"line {line} of {note.where} has label {number}, which no synset has")
    return [synsets[number] for number in numbers]


def _words(note: Blob, count: int) -> list[str]:
    """The lines of a text file, if there are just so many."""
    if sniff(note.head(HEAD)) or b"\0" in note.head(512):
        return []
    words = _lines(note)
    return words if len(words) == count else []


def _lines(note: Blob) -> list[str]:
    lines = note.read(MOST_NOTE).decode("utf-8", "replace").splitlines()
    return [line.strip() for line in lines if line.strip()]


def _numbers(path: Path, notes: Sequence[Blob]) -> dict[int, str]:
    """The development kit's number of each synset."""
    for note in notes:
        head = note.head(512)
        if head.startswith(b"MATLAB 5.0"):
            return read_synsets(note.read(MOST_NOTE), note.where)
        if re.match(rb"n\d{8} \d+ ", head):
            rows = [line.split() for line in _lines(note)]
            if all(len(row) > 1 and row[1].isdecimal() for row in rows):
                return {int(row[1]): row[0] for row in rows}
    raise BadData(
        f"{path} has validation labels that are numbers of the development kit, but not its "
        "meta.mat, which says what they mean"
    )


def _notes(path: Path) -> Iterator[Blob]:
    """Small files that may hold labels: beside the archives, and in the development kit."""
    folder = path if path.is_dir() else path.parent
    for entry in listed(folder):
        here = Path(entry.path)
        if entry.is_dir() and "devkit" in entry.name.lower():
            for group in groups(here):
                yield from group
        elif entry.is_file() and entry.stat().st_size <= MOST_NOTE:
            file = Blob(entry.name, entry.path, here)
            yield from members(here, MOST_NOTE) if is_tar(here) else [file]

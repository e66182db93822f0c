"""What a path holds, found by looking into it; and the names of well-known sets."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol

from convdyno.data import KNOWN
from convdyno.data.cifar import find_cifar
from convdyno.data.files import groups
from convdyno.data.folder import find_folder
from convdyno.data.idx import find_idx
from convdyno.data.imagenet import find_imagenet
from convdyno.data.source import Source, Split
from convdyno.data.tfrecord import cache_folder, find_records
from convdyno.errors import BadData, closest

NAMES = tuple(KNOWN)
"""Sets that `convdyno data get` brings."""
PACKAGED = {"fashion-mnist": Path("/usr/share/datasets/fashion-mnist")}
"""Where Debian's packages put them."""


class DataSet(Protocol):
    """A recognised set: its format, its splits, and how to open one."""

    @property
    def kind(self) -> str:
        """How it is stored; `Facts` has the same word."""

    @property
    def path(self) -> Path:
        """The file or folder that it is."""

    @property
    def splits(self) -> tuple[Split, ...]:
        """What can be opened."""

    def open(self, split: Split) -> Source:
        """One split; `BadData` where it is damaged."""


def open_source(path_or_name: str, split: Split) -> Source:
    """One split of the data set that a path or name stands for."""
    found = recognise(path_or_name)
    if split not in found.splits:
        raise BadData(f"{path_or_name} has no {split} images; it has {' and '.join(found.splits)}")
    return found.open(split)


def splits(path_or_name: str) -> tuple[Split, ...]:
    """The splits of the data set that a path or name stands for."""
    return recognise(path_or_name).splits


def recognise(path_or_name: str) -> DataSet:
    """The data set that a path or name stands for; a path with a dot or slash is never a name."""
    path = locate(path_or_name)
    found = _look(path)
    if found is None:
        raise BadData(
            f"{str(path)!r} is no data set: it holds neither idx files, CIFAR-10, TFRecord files, "
            "ImageNet's archives nor folders of images, one a class"
        )
    return found


def locate(path_or_name: str) -> Path:
    """The path itself, or where the set of that name is."""
    if path_or_name in NAMES:
        return _named(path_or_name)
    path = Path(path_or_name).expanduser()
    try:
        there = path.is_file() or path.is_dir()
    except (OSError, ValueError):
        there = False
    if not there:
        near = closest(path_or_name, NAMES)
        hint = f" Did you mean {near!r}?" if near else ""
        raise BadData(f"there is no file or folder {path_or_name!r}.{hint}")
    return path


def default_folder(name: str) -> Path:
    """Where `convdyno data get` puts a set unless it is told another place."""
    base = os.environ.get("CONVDYNO_DATA")
    return (Path(base).expanduser() if base else cache_folder() / "data") / name


def _named(name: str) -> Path:
    places = [default_folder(name), *([PACKAGED[name]] if name in PACKAGED else [])]
    for place in places:
        if place.is_dir():
            return place
    raise BadData(f"{name} is not in {places[0]}; `convdyno data get {name}` brings it there")


def _look(path: Path) -> DataSet | None:
    for find in (find_records, find_imagenet):
        found = find(path)
        if found is not None:
            return found
    for blobs in groups(path):
        few = find_idx(path, blobs) or find_cifar(path, blobs)
        if few is not None:
            return few
    return find_folder(path)

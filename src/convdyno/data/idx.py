"""MNIST-style idx files, raw or gzip: a magic number, the dimensions, then one byte a value."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

import numpy as np
from numpy.typing import NDArray

from convdyno.data.files import GZIP, Blob
from convdyno.data.source import DecodedImages, Facts, Parted, Split
from convdyno.errors import BadData

Role = Literal["images", "labels"]
MAGIC = b"\x00\x00\x08"
"""Two zero bytes and the type `unsigned byte`; the number of dimensions follows."""
ROLES: dict[int, Role] = {1: "labels", 3: "images", 4: "images"}
DIGITS = tuple("0123456789")
GARMENTS = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag",
    "Ankle boot",
)  # fmt: skip
TRAIN = "train"
VALIDATION = ("t10k", "test", "val")


@dataclass(frozen=True)
class Idx(Parted[dict[Role, Blob]]):
    """A set of idx files."""

    kind: str = "idx"

    def open(self, split: Split) -> DecodedImages:
        """The images, memory-mapped where the file is not compressed, and the labels."""
        files = self.parts[split]
        images = read_idx(files["images"])
        labels = read_idx(files["labels"]).astype(np.int64)
        if images.ndim not in (3, 4) or labels.ndim != 1:
            raise BadData(f"{files['images'].where} has no images, or its labels are none")
        if len(images) != len(labels):
            raise BadData(
                f"{files['images'].where} has {len(images)} images but "
                f"{files['labels'].where} has {len(labels)} labels"
            )
        if not images.size:
            raise BadData(f"{files['images'].where} has no images")
        images = images if images.ndim == 4 else images[..., None]
        if images.shape[3] not in (1, 3):
            raise BadData(f"{files['images'].where} has images of {images.shape[3]} channels")
        _, height, width, channels = images.shape
        shape = (height, width, channels)
        names = _names(self.path, shape, int(labels.max()) + 1)
        size = sum(blob.size for blob in files.values())
        facts = Facts(self.kind, self.path, split, len(labels), names, shape, size)
        return DecodedImages(facts, images, labels)


def find_idx(path: Path, blobs: Sequence[Blob]) -> Idx | None:
    """The set of idx files among these files, if there is one."""
    found: dict[Split, dict[Role, Blob]] = {}
    for blob in blobs:
        head = blob.head(4)
        role = ROLES.get(head[3]) if head[:3] == MAGIC and len(head) == 4 else None
        split = _split(blob.name)
        if role is None or split is None:
            continue
        held = found.setdefault(split, {}).get(role)
        # The same file raw and gzip, side by side: the raw one can be mapped.
        if held is None or _zipped(held):
            found[split][role] = blob
    parts = {split: roles for split, roles in sorted(found.items()) if len(roles) == 2}
    return Idx(path, parts) if parts else None


def read_idx(blob: Blob) -> NDArray[np.uint8]:
    """The array of one idx file; a file that is shorter or longer than it says is damaged."""
    head = blob.head(20)
    if len(head) < 8 or head[:3] != MAGIC or head[3] not in ROLES:
        raise BadData(f"{blob.where} is no idx file of bytes")
    start = 4 + 4 * head[3]
    if len(head) < start:
        raise BadData(f"{blob.where} ends within its header")
    shape = struct.unpack(f">{head[3]}I", head[4:start])
    end = start + math.prod(shape)
    if blob.path is not None and not _zipped(blob):
        _check_size(blob, shape, blob.size, end)
        if end == start:
            return np.zeros(shape, np.uint8)
        return np.memmap(blob.path, np.uint8, "r", start, shape)
    content = blob.read(end + 1)
    _check_size(blob, shape, len(content), end)
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def write_idx(file: BinaryIO, values: NDArray[np.uint8]) -> None:
    """Write an array of bytes as a raw idx file."""
    file.write(MAGIC + bytes([values.ndim]) + struct.pack(f">{values.ndim}I", *values.shape))
    file.write(np.ascontiguousarray(values).data)


def _check_size(blob: Blob, shape: tuple[int, ...], size: int, wanted: int) -> None:
    if size != wanted:
        more = "more" if size > wanted else "less"
        raise BadData(
            f"{blob.where} says {'x'.join(map(str, shape))} bytes of data but has {more}: "
            f"{wanted} bytes were expected in all, {size} read"
        )


def _zipped(blob: Blob) -> bool:
    with blob.open() as file:
        return file.read(len(GZIP)) == GZIP


def _split(name: str) -> Split | None:
    """Which split a file is of: what its content cannot say."""
    word = name.rpartition("/")[2].lower()
    if TRAIN in word:
        return "train"
    return "validation" if any(part in word for part in VALIDATION) else None


def _names(path: Path, shape: tuple[int, ...], count: int) -> tuple[str, ...]:
    """Class names: Fashion-MNIST's where the path says so, for the files do not."""
    if "fashion" in str(path).lower() and shape == (28, 28, 1) and count <= len(GARMENTS):
        return GARMENTS
    return DIGITS if count <= len(DIGITS) else tuple(map(str, range(count)))

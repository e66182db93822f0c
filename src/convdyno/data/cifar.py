"""CIFAR-10 in its three forms: python batches, binary batches, and images packed into PNG rows."""

from __future__ import annotations

import io
import json
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from convdyno.data.files import Blob
from convdyno.data.optional_import import need
from convdyno.data.safe_pickle import read_pickled
from convdyno.data.source import DecodedImages, Facts, Labels, Parted, Pixels, Split
from convdyno.errors import BadData

CLASSES = (
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
)  # fmt: skip
SIDE = 32
VALUES = SIDE * SIDE * 3
ROW = 1 + VALUES
"""Bytes of one image in the binary form: its label, then red, green and blue planes."""
PNG = b"\x89PNG\r\n\x1a\n"
PNG_WIDTH = SIDE * SIDE
"""One image a row, in the PNG form."""
DENSEST = 1100
"""Bytes that one compressed byte can become at most, a little rounded up."""
PICKLE = b"\x80"
PEEK = 512
MOST_LABELS = 1 << 24
"""Bytes of a label list; the real one has 100,001."""

Batch = tuple[Pixels, Labels]


@dataclass(frozen=True)
class Cifar(Parted[list[Blob]]):
    """CIFAR-10 as files of one form."""

    labels: dict[Split, Blob]
    """The label lists of the PNG form."""

    def open(self, split: Split) -> DecodedImages:
        """All images of a split, decoded."""
        files = self.parts[split]
        if self.kind == "cifar10-png":
            images = np.concatenate([_png(blob) for blob in files])
            labels = _label_list(self.labels[split])
        else:
            read = _python if self.kind == "cifar10-python" else _binary
            batches = [read(blob) for blob in files]
            images = np.concatenate([batch[0] for batch in batches])
            labels = np.concatenate([batch[1] for batch in batches])
        if len(images) != len(labels):
            raise BadData(f"{files[0].where} has {len(images)} images but {len(labels)} labels")
        if not len(labels):
            raise BadData(f"{files[0].where} has no images")
        outside = (labels < 0) | (labels >= len(CLASSES))
        if outside.any():
            first = int(outside.argmax())
            raise BadData(
                f"image {first} of {self.path} ({split}) has label {labels[first]}; "
                f"CIFAR-10 has 0 to {len(CLASSES) - 1}"
            )
        size = sum(blob.size for blob in files)
        facts = Facts(self.kind, self.path, split, len(labels), CLASSES, (SIDE, SIDE, 3), size)
        return DecodedImages(facts, images, labels)


def find_cifar(path: Path, blobs: Sequence[Blob]) -> Cifar | None:
    """CIFAR-10 among these files, if it is there."""
    for kind, looks in LOOKS.items():
        batches = [blob for blob in blobs if looks(blob)]
        if not batches:
            continue
        # A batch that is damaged beyond recognition belongs to the set all the same.
        endings = {_ending(blob) for blob in batches} - {None}
        batches = [blob for blob in blobs if blob in batches or _ending(blob) in endings]
        parts: dict[Split, list[Blob]] = {}
        for blob in sorted(batches, key=lambda blob: (_split(blob.name), blob.name)):
            parts.setdefault(_split(blob.name), []).append(blob)
        if kind != "cifar10-png":
            return Cifar(path, parts, kind, {})
        lists = {_split(blob.name): blob for blob in blobs if _looks_like_list(blob)}
        if all(split in lists for split in parts):
            return Cifar(path, parts, kind, lists)
    return None


def write_binary(file: BinaryIO, images: Pixels, labels: Labels) -> None:
    """Write a batch in the binary form."""
    rows = np.empty((len(labels), ROW), np.uint8)
    rows[:, 0] = labels
    rows[:, 1:] = images.transpose(0, 3, 1, 2).reshape(len(labels), VALUES)
    file.write(rows.data)


def _ending(blob: Blob) -> str | None:
    """What follows the usual name of a batch; None if a file is not called like one."""
    found = re.fullmatch(r"(?:data_batch_\d+|test_batch)(|\.\w+)", blob.name.rpartition("/")[2])
    return found[1] if found else None


def _split(name: str) -> Split:
    return "validation" if "test" in name.rpartition("/")[2].lower() else "train"


def _looks_python(blob: Blob) -> bool:
    head = blob.head(PEEK)
    batch = any(word in head for word in (b"batch_label", b"labels", b"data"))
    return head[:1] == PICKLE and batch and b"label_names" not in head


def _looks_binary(blob: Blob) -> bool:
    head = blob.head(ROW * 4)
    rows = len(head) // ROW
    if not rows or blob.size % ROW:
        return False
    return all(head[row * ROW] < len(CLASSES) for row in range(rows))


def _looks_png(blob: Blob) -> bool:
    head = blob.head(24)
    return head[:8] == PNG and int.from_bytes(head[16:20], "big") == PNG_WIDTH


def _looks_like_list(blob: Blob) -> bool:
    head = blob.head(PEEK)
    return head[:1] == b"[" and set(head) <= set(b"[]0123456789, \r\n\t")


LOOKS: dict[str, Callable[[Blob], bool]] = {
    "cifar10-python": _looks_python,
    "cifar10-png": _looks_png,
    "cifar10-binary": _looks_binary,
}


def _planes(values: NDArray[np.uint8]) -> Pixels:
    return np.ascontiguousarray(values.reshape(-1, 3, SIDE, SIDE).transpose(0, 2, 3, 1))


def _python(blob: Blob) -> Batch:
    found = read_pickled(blob.read(), blob.where)
    values, labels = found.get("data"), found.get("labels")
    flat = isinstance(values, np.ndarray) and values.ndim == 2 and values.dtype == np.uint8
    if not flat or values.shape[1] != VALUES:  # type: ignore[union-attr]
        raise BadData(f"{blob.where} has no rows of {VALUES} bytes under 'data'")
    labels = labels.tolist() if isinstance(labels, np.ndarray) else labels
    wrong = "has no list of whole numbers under 'labels'"
    return _planes(values), _whole(labels, blob, wrong)  # type: ignore[arg-type]


def _binary(blob: Blob) -> Batch:
    content = blob.read()
    if not content:
        raise BadData(f"{blob.where} is empty")
    if len(content) % ROW:
        raise BadData(
            f"{blob.where} has {len(content)} bytes, which is no whole number of {ROW}-byte "
            f"images: it is cut off in image {len(content) // ROW}"
        )
    rows = np.frombuffer(content, np.uint8).reshape(-1, ROW)
    return _planes(rows[:, 1:]), rows[:, 0].astype(np.int64)


def _png(blob: Blob) -> Pixels:
    image = need("PIL.Image")
    if int.from_bytes(blob.head(24)[20:24], "big") * PNG_WIDTH > DENSEST * blob.size:
        raise BadData(f"{blob.where} says that it has more images than its bytes can hold")
    try:
        with warnings.catch_warnings(), image.open(io.BytesIO(blob.read())) as opened:
            warnings.simplefilter("ignore")
            rows = np.asarray(opened.convert("RGB"))
    except (OSError, SyntaxError, ValueError, image.DecompressionBombError) as error:
        raise BadData(f"{blob.where} is a damaged PNG: {error}") from error
    if rows.shape[1] != PNG_WIDTH:
        raise BadData(f"{blob.where} is {rows.shape[1]} pixels wide, not {PNG_WIDTH}")
    return rows.reshape(-1, SIDE, SIDE, 3)


def _label_list(blob: Blob) -> Labels:
    try:
        labels = json.loads(blob.read(MOST_LABELS))
    except (ValueError, RecursionError) as error:
        raise BadData(f"{blob.where} is no list of labels: {error}") from error
    return _whole(labels, blob, "is no list of labels")


def _whole(labels: object, blob: Blob, wrong: str) -> Labels:
    if not isinstance(labels, list) or not all(type(n) is int for n in labels):
        raise BadData(f"{blob.where} {wrong}")
    try:
        return np.array(labels, np.int64)
    except OverflowError as error:
        raise BadData(f"{blob.where} has a label out of range") from error

"""What a data set is: one split of it, so many examples, each found by its number.

Two kinds, because they are fed differently: `Arrays` holds small images decoded (MNIST, CIFAR), and
`Encoded` reads compressed files or records one by one (folders, TFRecord).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Literal, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

Split = Literal["train", "validation"]
Pixels = NDArray[np.uint8]
Labels = NDArray[np.int64]
Part = TypeVar("Part")


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of a split without decoding it."""

    kind: str
    """How it is stored: "idx", "cifar10-python", "cifar10-binary", "cifar10-png", "folder",
    "tfrecord"."""
    path: Path
    split: Split
    count: int
    classes: tuple[str, ...]
    """Names, in the order of their labels 0, 1, 2, ..."""
    image: tuple[int, int, int] | None
    """Height, width and channels, where all images have the same."""
    bytes: int
    """How large it is on disk."""


class Example(NamedTuple):
    """One compressed image and its class."""

    data: bytes | memoryview
    label: int
    where: str
    """File, and offset or name in it: for the sentence when it turns out to be damaged."""


@dataclass(frozen=True)
class DecodedImages:
    """A split whose images are held decoded."""

    facts: Facts
    images: Pixels
    """NHWC; may be memory-mapped."""
    labels: Labels

    def __len__(self) -> int:
        return len(self.labels)


class Encoded(Protocol):
    """A split whose images are read one by one; `read` may be called by many threads at once."""

    facts: Facts

    def __len__(self) -> int: ...

    def read(self, index: int) -> Example:
        """One example; `BadData` names file and offset where it is damaged."""

    def close(self) -> None:
        """Give back files and maps."""


Source = DecodedImages | Encoded


@dataclass(frozen=True)
class Parted(Generic[Part]):
    """A data set each split of which is a part of its own: a folder, an archive, some files."""

    path: Path
    parts: dict[Split, Part]
    kind: str

    @property
    def splits(self) -> tuple[Split, ...]:
        """The splits that are there."""
        return tuple(self.parts)

"""Small images and sources in memory, for the tests of the pipeline."""

import io
from dataclasses import dataclass, field
from pathlib import Path

import cv2
import numpy as np
from PIL import Image, ImageFile

from convdyno.data.source import DecodedImages, Example, Facts, Labels, Pixels
from convdyno.errors import BadData

# Pillow writes a progressive JPEG through one buffer, which is small for noise.
ImageFile.MAXBLOCK = 1 << 22


def photo(height: int, width: int, seed: int = 0, channels: int = 3) -> Pixels:
    """Something with slopes, edges and grain, as photographs have."""
    random = np.random.default_rng(seed)
    coarse = random.integers(0, 256, (height // 12 + 2, width // 12 + 2, channels), np.uint8)
    smooth = cv2.resize(coarse, (width, height), interpolation=cv2.INTER_CUBIC)
    grain = random.integers(-8, 9, (height, width, channels))
    return np.clip(smooth.reshape(height, width, channels) + grain, 0, 255).astype(np.uint8)


def encoded(pixels: Pixels, kind: str = "JPEG", mode: str | None = None, **how: object) -> bytes:
    """An image as the bytes of a file."""
    picture = Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels)
    out = io.BytesIO()
    (picture.convert(mode) if mode else picture).save(out, kind, **how)
    return out.getvalue()


def by_pillow(data: bytes) -> Pixels:
    """What Pillow makes of it."""
    pixels = np.asarray(Image.open(io.BytesIO(data)))
    return pixels if pixels.ndim == 3 else pixels[..., None]


@dataclass
class Memory:
    """A source of encoded images; None stands for one that cannot be read."""

    data: list[bytes | None]
    classes: int = 10
    reads: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        size = sum(len(one or b"") for one in self.data)
        names = tuple(str(i) for i in range(self.classes))
        self.facts = Facts("folder", Path("mem"), "train", len(self.data), names, None, size)

    def __len__(self) -> int:
        return len(self.data)

    def read(self, index: int) -> Example:
        self.reads.append(index)
        data = self.data[index]
        if data is None:
            raise BadData(f"image {index} cannot be read")
        return Example(data, index % self.classes, f"image {index}")

    def close(self) -> None:
        pass


def photos(count: int, height: int = 60, width: int = 72) -> Memory:
    """So many different JPEGs."""
    return Memory([encoded(photo(height, width, seed)) for seed in range(count)])


def arrays(count: int, size: int = 8, channels: int = 3) -> DecodedImages:
    """Decoded images; each holds its number in its first pixel."""
    images = np.random.default_rng(0).integers(0, 256, (count, size, size, channels), np.uint8)
    labels: Labels = np.arange(count, dtype=np.int64)
    facts = Facts("cifar10-binary", Path("mem"), "train", count, (), images.shape[1:], 0)
    return DecodedImages(facts, images, labels)

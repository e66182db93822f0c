"""Pictures for trying things out: not photographs, but as costly to decode.

A texture with the 1/f spectrum of natural scenes, larger shapes with sharp edges and the grain of a
sensor. The class shows in the shapes' colour and number of corners, so that a network can learn it.
"""

from __future__ import annotations

import colorsys
import functools
import io
import math
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from convdyno.data.optional_import import need
from convdyno.data.source import Example, Facts, Split
from convdyno.errors import UsageError

FIELDS = 6
"""Textures that all pictures are cut from."""
SMALLEST_FIELD = 1024
LARGEST = 4096
"""Pixels of a side."""
QUALITY = 92
SPREAD = 0.22
"""How much the sides vary around the size asked for, as a share."""
TYPICAL_BYTES = 100_000
"""Of a picture of 500x375."""
CORNERS = (3, 4, 5, 6, 8, 40)
NUMBER: dict[Split, int] = {"train": 0, "validation": 1}

Field = NDArray[np.float32]


@dataclass(frozen=True)
class MadeSet:
    """So many pictures of so many classes, a tenth of them for validation."""

    images: int
    classes: int
    size: tuple[int, int] = (375, 500)
    """Height and width that sizes vary around."""
    seed: int = 0
    splits: tuple[Split, ...] = ("train", "validation")
    kind: str = "made"
    path: Path = Path("made")

    def __post_init__(self) -> None:
        if self.classes < 1 or self.images < 2 * self.classes:
            raise UsageError(
                f"{self.images} images are too few for {self.classes} classes: each needs one "
                "for training and one for validation"
            )

    def open(self, split: Split) -> Made:
        """The pictures of a split, drawn when they are read."""
        held = max(self.classes, self.images // 10)
        count = held if split == "validation" else self.images - held
        digits = len(str(self.classes - 1))
        names = tuple(f"class{label:0{digits}d}" for label in range(self.classes))
        bytes_each = TYPICAL_BYTES * math.prod(self.size) / (375 * 500)
        size = round(count * bytes_each)
        facts = Facts(self.kind, self.path, split, count, names, None, size)
        return Made(facts, self)


@dataclass
class Made:
    """One split of made pictures."""

    facts: Facts
    of: MadeSet

    def __len__(self) -> int:
        return self.facts.count

    def read(self, index: int) -> Example:
        """Draw a picture; the same one for the same seed, split and number."""
        label = index % self.of.classes
        random = np.random.default_rng([self.of.seed, NUMBER[self.facts.split], index])
        pixels = draw(random, label / self.of.classes, CORNERS[label % len(CORNERS)], self.of)
        out = io.BytesIO()
        need("PIL.Image").fromarray(pixels).save(out, "JPEG", quality=QUALITY)
        return Example(out.getvalue(), label, f"made {self.facts.split} picture {index}")

    def name(self, index: int) -> str:
        """A file name for a picture."""
        return f"{self.facts.split}_{index:08d}.jpg"

    def close(self) -> None:
        """There is nothing to give back."""


def draw(random: np.random.Generator, hue: float, corners: int, of: MadeSet) -> NDArray[np.uint8]:
    """One picture: background, a few shapes of one colour, grain."""
    fields = textures(of.seed, _field_side(of.size))
    height, width = of.size if random.random() < 0.75 else of.size[::-1]
    height = max(8, round(height * random.uniform(1 - SPREAD, 1 + SPREAD)))
    width = max(8, round(width * random.uniform(1 - SPREAD, 1 + SPREAD)))
    painter = _Painter(random, fields, random.uniform(0.6, 1.2))
    scene = painter.surface((height, width), random.random(), 0.25)
    for _ in range(random.integers(2, 5)):
        painter.add_shape(scene, hue, corners)
    grain = random.standard_normal((height, width, 1), np.float32) * np.float32(5 * painter.rough)
    pixels: NDArray[np.uint8] = np.clip(scene + grain, 0, 255).astype(np.uint8)
    return pixels


@functools.lru_cache(maxsize=2)
def textures(seed: int, side: int) -> Field:
    """Fields of noise whose amplitude falls with frequency as 1/f; mean 0, deviation 1."""
    rows = np.fft.fftfreq(side)[:, None]
    columns = np.fft.rfftfreq(side)[None, :]
    amplitude = 1 / np.maximum(np.hypot(rows, columns), 1 / side)
    made = np.empty((FIELDS, side, side), np.float32)
    for number in range(FIELDS):
        random = np.random.default_rng([seed, 0xF1E1D, number])
        spectrum = np.fft.rfft2(random.standard_normal((side, side))) * amplitude
        spectrum[0, 0] = 0
        field = np.fft.irfft2(spectrum, (side, side))
        made[number] = field / field.std()
    return made


def _field_side(size: tuple[int, int]) -> int:
    largest = math.ceil(max(size) * (1 + SPREAD)) + 1
    return max(SMALLEST_FIELD, 1 << (largest - 1).bit_length())


class _Painter(NamedTuple):
    random: np.random.Generator
    fields: Field
    rough: float

    def surface(self, size: tuple[int, int], hue: float, saturation: float) -> Field:
        """A textured surface of about one colour, lit from one side."""
        random = self.random
        light = self.cut(size) * np.float32(38 * self.rough)
        light = light + self.cut(size) * np.float32(14)
        slope = np.linspace(-1, 1, size[1], dtype=np.float32) * np.float32(random.uniform(-30, 30))
        colour = colorsys.hsv_to_rgb(
            (hue + random.normal(0, 0.02)) % 1, saturation, random.uniform(0.45, 0.75)
        )
        tint = self.cut(size)[..., None] * np.array([6, 0, -6], np.float32)
        base = np.array(colour, np.float32) * np.float32(255)
        lit: Field = (light + slope)[..., None] + tint + base
        return lit

    def cut(self, size: tuple[int, int]) -> Field:
        """A window of one of the textures, perhaps mirrored."""
        field = self.fields[self.random.integers(len(self.fields))]
        top, left = (self.random.integers(field.shape[0] - side + 1) for side in size)
        window: Field = field[top : top + size[0], left : left + size[1]]
        return window[:, ::-1] if self.random.random() < 0.5 else window

    def add_shape(self, scene: Field, hue: float, corners: int) -> None:
        """Lay a shape over the scene; its edge is softened over about a pixel."""
        random = self.random
        height, width, _ = scene.shape
        radius = random.uniform(0.12, 0.3) * min(height, width)
        row, column = random.uniform(0.1, 0.9) * height, random.uniform(0.1, 0.9) * width
        top, bottom = max(0, math.floor(row - radius)), min(height, math.ceil(row + radius))
        left, right = max(0, math.floor(column - radius)), min(width, math.ceil(column + radius))
        part = scene[top:bottom, left:right]
        # Drawn twice as large, then halved: 1 inside and 0 outside.
        image = need("PIL.Image")
        double = image.new("L", (2 * part.shape[1], 2 * part.shape[0]))
        turn, wide = random.uniform(0, math.tau), 2 * radius
        points = [
            (2 * (column - left) + wide * math.cos(angle), 2 * (row - top) + wide * math.sin(angle))
            for angle in (turn + math.tau * corner / corners for corner in range(corners))
        ]
        need("PIL.ImageDraw").Draw(double).polygon(points, fill=255)
        mask = np.asarray(double.resize(part.shape[1::-1], image.Resampling.BOX), np.float32)
        inside = (mask / np.float32(255))[..., None]
        part += inside * (self.surface(part.shape[:2], hue, 0.75) - part)

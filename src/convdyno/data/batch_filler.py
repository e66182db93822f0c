"""Fills the slots of a batch: read, decode, transform; one by one, or all at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from convdyno.data import augment, colour
from convdyno.data.augment import LAWS, Box, Transform
from convdyno.data.counter_rng import Dice, shuffled, uniforms
from convdyno.data.decode import Choice, Reader
from convdyno.data.source import DecodedImages, Example, Facts, Labels, Pixels, Source
from convdyno.errors import BadData, UsageError

Bad = Callable[[BadData], None]
_COLOURS = 0xC0105
"""Colours have numbers of their own: switching them on moves no crop."""


@dataclass
class Held:
    """Some examples of a source in memory, used in turn: compressed, or decoded."""

    facts: Facts
    total: int
    """Examples of the source: there seem to be as many."""
    examples: Sequence[Example]
    pixels: Sequence[Pixels]
    """Empty where they are held compressed."""

    def __len__(self) -> int:
        return self.total

    def read(self, index: int) -> Example:
        """One of those held."""
        return self.examples[index % len(self.examples)]

    def close(self) -> None:
        """Nothing to give back."""


@dataclass(frozen=True)
class PixelRecipe:
    """Everything that decides the pixels of an example."""

    source: Source
    image: tuple[int, int, int]
    train: bool
    transform: Transform
    seed: int
    decoder: Choice
    classes: int | None = None
    """Labels from here up are damage."""

    def __post_init__(self) -> None:
        if self.image[2] not in (1, 3) or min(self.image) < 1:
            raise UsageError(f"images are height x width x 1 or 3 channels, not {self.image}")

    def reader(self) -> Reader:
        """A decoder with these settings, for one thread."""
        how = self.transform
        return Reader(self.decoder, self.image[2], how.fidelity, how.resize)

    def holding(self, count: int, *, decoded: bool) -> PixelRecipe:
        """The same from so many examples held in memory, chosen by the seed."""
        source = self.source
        if isinstance(source, DecodedImages):
            return replace(self, source=replace(source, images=np.array(source.images)))
        chosen = shuffled(self.seed, 0, len(source))[:count]
        examples = [source.read(int(index)) for index in chosen]
        if decoded:
            reader = self.reader()
            pixels = [reader.whole(example.data, example.where) for example in examples]
            examples = [example._replace(data=b"") for example in examples]
        else:
            pixels = []
            examples = [example._replace(data=bytes(example.data)) for example in examples]
        return replace(self, source=Held(source.facts, len(source), examples, pixels))

    def filler(self) -> Filler:
        """What fills slots, for one thread."""
        if isinstance(self.source, DecodedImages) and self.transform.crop not in LAWS:
            return _Together(self, self.source)
        return _OneByOne(self)


class _OneByOne:
    """Images that differ in size, or are cropped at random."""

    def __init__(self, recipe: PixelRecipe) -> None:
        self._recipe = recipe
        self._reader = recipe.reader()
        self._room = colour.room_for(recipe.image)

    def fill(
        self, epoch: int, examples: Labels, images: Pixels, labels: Labels, bad: Bad
    ) -> list[int]:
        """Fill a slot for each example; damaged ones go to `bad`, their slots are returned."""
        missing = []
        for slot, index in enumerate(examples.tolist()):
            try:
                labels[slot] = self._one(epoch, index, images[slot])
            except BadData as problem:
                bad(problem)
                missing.append(slot)
        recipe, how = self._recipe, self._recipe.transform
        if recipe.train and how.crop == "pad":
            images[:] = augment.pad_and_crop(images, recipe.seed, epoch, examples, how.mirror)
        return missing

    def _one(self, epoch: int, index: int, out: Pixels) -> int:
        recipe, reader = self._recipe, self._reader
        how = recipe.transform
        label, (height, width) = self._open(index)
        if not recipe.train:
            size = recipe.image[0], recipe.image[1]
            reader.read(augment.evaluation_box(how.view, height, width, size), out)
            return label
        dice = Dice(recipe.seed, epoch, index)
        # Moving small images by a few pixels also mirrors them.
        mirror = dice.uniform() < 0.5 and how.mirror and how.crop != "pad"
        box = Box(0, 0, height, width)
        if how.crop in LAWS:
            box = augment.training_box(dice, height, width, LAWS[how.crop])
        if how.colour == "off":
            reader.read(box, out, mirror)
            return label
        tint = colour.tint(Dice(recipe.seed ^ _COLOURS, epoch, index))
        if how.colour == "folded":
            reader.read(box, out, mirror, tint.folded())
        else:
            reader.read(box, out, mirror)
            colour.distort_exactly(out, tint, self._room)
        return label

    def _open(self, index: int) -> tuple[int, tuple[int, int]]:
        source = self._recipe.source
        if isinstance(source, DecodedImages):
            label = int(source.labels[index])
            _check_label(label, self._recipe, f"{source.facts.path}, example {index}")
            return label, self._reader.take(source.images[index])
        example = source.read(index)
        _check_label(example.label, self._recipe, example.where)
        if isinstance(source, Held) and source.pixels:
            return example.label, self._reader.take(source.pixels[index % len(source.pixels)])
        return example.label, self._reader.open(example.data, example.where)


class _Together:
    """Small images of one size, moved and mirrored a batch at a time."""

    def __init__(self, recipe: PixelRecipe, source: DecodedImages) -> None:
        self._recipe = recipe
        self._source = source
        self._room = colour.room_for(recipe.image)
        height, width = source.images.shape[1:3]
        self._reader = None if (height, width) == recipe.image[:2] else recipe.reader()

    def fill(
        self, epoch: int, examples: Labels, images: Pixels, labels: Labels, bad: Bad
    ) -> list[int]:
        """The same, for all examples at once."""
        recipe, how = self._recipe, self._recipe.transform
        labels[:] = self._source.labels[examples]
        pixels = augment.with_channels(self._source.images[examples], recipe.image[2])
        if recipe.train and how.crop == "pad":
            pixels = augment.pad_and_crop(pixels, recipe.seed, epoch, examples, how.mirror)
        elif recipe.train and how.mirror:
            turned = uniforms(recipe.seed, epoch, examples, 1)[:, 0] < 0.5
            pixels[turned] = pixels[turned, :, ::-1]
        if self._reader is None:
            images[:] = pixels
        else:
            self._resize(self._reader, pixels, images)
        if recipe.train and how.colour != "off":
            self._tint(epoch, examples, images)
        return self._missing(examples, labels, bad)

    def _resize(self, reader: Reader, pixels: Pixels, images: Pixels) -> None:
        height, width = self._recipe.image[:2]
        view = "whole" if self._recipe.train else self._recipe.transform.view
        box = augment.evaluation_box(view, pixels.shape[1], pixels.shape[2], (height, width))
        for image, out in zip(pixels, images, strict=True):
            reader.take(image)
            reader.read(box, out)

    def _tint(self, epoch: int, examples: Labels, images: Pixels) -> None:
        for index, image in zip(examples.tolist(), images, strict=True):
            tint = colour.tint(Dice(self._recipe.seed ^ _COLOURS, epoch, index))
            if self._recipe.transform.colour == "folded":
                colour.distort(image, tint.folded())
            else:
                colour.distort_exactly(image, tint, self._room)

    def _missing(self, examples: Labels, labels: Labels, bad: Bad) -> list[int]:
        if self._recipe.classes is None or int(labels.max(initial=0)) < self._recipe.classes:
            return []
        missing = []
        for slot, index in enumerate(examples.tolist()):
            try:
                where = f"{self._source.facts.path}, example {index}"
                _check_label(int(labels[slot]), self._recipe, where)
            except BadData as problem:
                bad(problem)
                missing.append(slot)
        return missing


Filler = _OneByOne | _Together


def _check_label(label: int, recipe: PixelRecipe, where: str) -> None:
    if label < 0 or (recipe.classes is not None and label >= recipe.classes):
        raise BadData(f"{where}: label {label} is not one of {recipe.classes} classes")

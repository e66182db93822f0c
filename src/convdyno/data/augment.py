"""What happens to an image between decoding and the network: crop, resize, mirror."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from convdyno.data.counter_rng import Dice, uniforms
from convdyno.data.optional_import import need
from convdyno.data.source import Labels, Pixels
from convdyno.errors import UnknownName

Crop = Literal["nvcnn", "inception", "torch", "pad", "whole"]
View = Literal["squash", "centre", "centre-1.145", "whole"]
Resize = Literal["plain", "antialiased"]
Colour = Literal["off", "folded", "exact"]
Fidelity = Literal["fast", "accurate"]

CENTRAL = 0.875
PAD = 4

RESIZES = {
    "plain": "bilinear from the four nearest pixels (OpenCV's INTER_LINEAR, tf.image's default)",
    "antialiased": "triangle filter as wide as the shrinking (Pillow's BILINEAR, torchvision)",
}
COLOURS = {
    "off": "colours are left alone",
    "folded": "brightness, saturation, hue and contrast as one matrix that turns around grey",
    "exact": "the same with saturation and hue in HSV, as TensorFlow has them",
}
VIEWS = {
    "squash": "the central 0.875 of height and width, its aspect not kept (nvcnn)",
    "centre": "a central crop of the network's aspect, 0.875 of the largest (torchvision)",
    "centre-1.145": "the same, 1/1.145 of the largest (tf_cnn_benchmarks)",
    "whole": "the whole image, its aspect not kept",
}


@dataclass(frozen=True, slots=True)
class CropLaw:
    """How a random crop is drawn."""

    area: tuple[float, float]
    """The share of the image."""
    aspect: tuple[float, float]
    """Width by height."""
    attempts: int
    draws: Literal["height", "area"]
    """What is uniform: the height, as in TensorFlow, or the area, as in torchvision."""


LAWS = {
    "nvcnn": CropLaw((0.1, 1.0), (0.8, 1.25), 100, "height"),
    "inception": CropLaw((0.05, 1.0), (0.75, 1.33), 100, "height"),
    "torch": CropLaw((0.08, 1.0), (3 / 4, 4 / 3), 10, "area"),
}
CROPS = {
    "nvcnn": "a random crop of 0.1 to 1 of the area, aspect 0.8 to 1.25",
    "inception": "a random crop of 0.05 to 1 of the area, aspect 0.75 to 1.33 (tf_cnn_benchmarks)",
    "torch": "a random crop of 0.08 to 1 of the area, aspect 3/4 to 4/3 (torchvision)",
    "pad": f"{PAD} black pixels around the image, and a random crop of its size (CIFAR)",
    "whole": "the whole image, its aspect not kept",
}


class Box(NamedTuple):
    """A part of an image, in pixels."""

    top: int
    left: int
    height: int
    width: int


@dataclass(frozen=True, slots=True)
class Transform:
    """What is done to the images of a split."""

    crop: Crop = "nvcnn"
    """How images are cropped in training."""
    view: View = "squash"
    """What is seen of an image in evaluation."""
    resize: Resize = "plain"
    mirror: bool = True
    """Left and right exchanged in half of the training images."""
    colour: Colour = "off"
    """How colours are changed in training."""
    fidelity: Fidelity = "fast"
    """JPEG decoding: "fast" is the fast integer DCT with plain chroma (TensorFlow's
    INTEGER_FAST), "accurate" the slow integer DCT with smooth chroma (Pillow, libjpeg)."""

    def __post_init__(self) -> None:
        known: dict[str, Any] = {
            "crop": CROPS,
            "view": VIEWS,
            "resize": RESIZES,
            "colour": COLOURS,
            "fidelity": ("fast", "accurate"),
        }
        for field, words in known.items():
            if getattr(self, field) not in words:
                raise UnknownName(field, str(getattr(self, field)), words)


def usual(kind: str) -> Transform:
    """What is usual for a kind of data set (`Facts.kind`): digits are left as they are."""
    if kind == "idx":
        return Transform(crop="whole", view="whole", mirror=False)
    if kind.startswith("cifar"):
        return Transform(crop="pad", view="whole")
    return Transform()


def training_box(dice: Dice, height: int, width: int, law: CropLaw) -> Box:
    """A random crop; the whole image when no attempt fits."""
    draw = _by_height if law.draws == "height" else _by_area
    for _ in range(law.attempts):
        size = draw(dice, height, width, law)
        if size is not None:
            tall, wide = size
            return Box(dice.below(height - tall + 1), dice.below(width - wide + 1), tall, wide)
    return Box(0, 0, height, width)


def _by_height(dice: Dice, height: int, width: int, law: CropLaw) -> tuple[int, int] | None:
    """As TensorFlow's sample_distorted_bounding_box with the whole image as its box."""
    aspect = dice.uniform(*law.aspect)
    least, most = law.area[0] * height * width, law.area[1] * height * width
    low = round(math.sqrt(least / aspect))
    high = min(round(math.sqrt(most / aspect)), int((width + 0.5) / aspect), height)
    tall = low + dice.below(high - low + 1) if low < high else high
    wide = round(tall * aspect)
    fits = 0 < wide <= width and tall > 0 and least <= tall * wide <= most
    return (tall, wide) if fits else None


def _by_area(dice: Dice, height: int, width: int, law: CropLaw) -> tuple[int, int] | None:
    """As torchvision's RandomResizedCrop."""
    area = height * width * dice.uniform(*law.area)
    aspect = math.exp(dice.uniform(math.log(law.aspect[0]), math.log(law.aspect[1])))
    wide, tall = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
    return (tall, wide) if 0 < wide <= width and 0 < tall <= height else None


def evaluation_box(view: View, height: int, width: int, out: tuple[int, int]) -> Box:
    """The part of an image that is evaluated, to the nearest pixel."""
    tall, wide = float(height), float(width)
    if view == "squash":
        tall, wide = tall * CENTRAL, wide * CENTRAL
    elif view != "whole":
        share = CENTRAL if view == "centre" else 1 / 1.145
        scale = share * min(height / out[0], width / out[1])
        tall, wide = out[0] * scale, out[1] * scale
    rows, columns = max(1, round(tall)), max(1, round(wide))
    return Box((height - rows) // 2, (width - columns) // 2, rows, columns)


def resample(image: Pixels, out: Pixels, resize: Resize, mirror: bool) -> None:
    """Resize an image (a view of a larger one, often) into another, mirrored if so asked."""
    height, width, channels = out.shape
    if resize == "antialiased" and (image.shape[0] > height or image.shape[1] > width):
        pil = need("PIL.Image")
        picture = pil.fromarray(image if channels == 3 else image[..., 0])
        small = picture.resize((width, height), pil.Resampling.BILINEAR)
        image = np.asarray(small).reshape(out.shape)
    if image.shape == out.shape:
        out[...] = image[:, ::-1] if mirror else image
        return
    cv2 = need("cv2")
    if mirror:
        small = cv2.resize(image, (width, height), interpolation=cv2.INTER_LINEAR)
        cv2.flip(small, 1, dst=out)
    else:
        cv2.resize(image, (width, height), dst=out, interpolation=cv2.INTER_LINEAR)


def pad_and_crop(images: Pixels, seed: int, epoch: int, examples: Labels, mirror: bool) -> Pixels:
    """Every image of a batch moved by up to four pixels, and mirrored or not."""
    count, height, width, channels = images.shape
    draws = uniforms(seed, epoch, examples, 3)
    if mirror:
        turned = draws[:, 0] < 0.5
        images[turned] = images[turned, :, ::-1]
    padded = np.zeros((count, height + 2 * PAD, width + 2 * PAD, channels), np.uint8)
    padded[:, PAD:-PAD, PAD:-PAD] = images
    windows = np.lib.stride_tricks.sliding_window_view(padded, (height, width), axis=(1, 2))
    tops, lefts = (draws[:, 1:] * (2 * PAD + 1)).astype(np.int64).T
    return np.moveaxis(windows[np.arange(count), tops, lefts], 1, 3)


def with_channels(images: Pixels, channels: int) -> Pixels:
    """Images (the last axis is the channel) as grey or as RGB; luma as JPEG has it."""
    if images.shape[-1] == channels:
        return images
    if channels == 3:
        return np.repeat(images[..., :1], 3, axis=-1)
    luma = images[..., :3] @ np.array([299, 587, 114], np.int32)
    return ((luma + 500) // 1000).astype(np.uint8)[..., None]

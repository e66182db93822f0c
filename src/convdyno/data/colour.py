"""Colours distorted at random with the older tools' parameters, as one matrix or step by step."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from convdyno.data.counter_rng import Dice
from convdyno.data.optional_import import need
from convdyno.data.source import Pixels

BRIGHTNESS = 32.0
SATURATION = (0.5, 1.5)
HUE = 0.2
CONTRAST = (0.5, 1.5)

# Of a colour: its grey (the mean of the three), what it has beyond grey, and that turned by 90
# degrees around the grey axis. Of the linear forms this is the nearest to what is done in HSV.
_GREY = np.full((3, 3), 1 / 3)
_BEYOND = np.eye(3) - _GREY
_TURNED = np.array([[0.0, -1.0, 1.0], [1.0, 0.0, -1.0], [-1.0, 1.0, 0.0]]) / math.sqrt(3)


class Tint(NamedTuple):
    """One draw of the colour distortion."""

    brightness: float
    """Added, in levels."""
    saturation: float
    hue: float
    """Of the colour circle."""
    contrast: float
    contrast_first: bool
    """Before saturation and hue, or after; the older tools alternate."""

    def folded(self) -> NDArray[np.float32]:
        """A matrix by rows, the contrast and the brightness: see `distort`.

        In this form the order does not matter: all parts are linear, and turn around grey.
        """
        angle = 2 * math.pi * self.hue
        along, across = self.saturation * math.cos(angle), self.saturation * math.sin(angle)
        numbers = np.empty(11, np.float32)
        numbers[:9] = (_GREY + along * _BEYOND + across * _TURNED).ravel()
        numbers[9], numbers[10] = self.contrast, self.brightness
        return numbers


def tint(dice: Dice) -> Tint:
    """Draw a colour distortion with the older tools' parameters."""
    return Tint(
        dice.uniform(-BRIGHTNESS, BRIGHTNESS),
        dice.uniform(*SATURATION),
        dice.uniform(-HUE, HUE),
        dice.uniform(*CONTRAST),
        dice.uniform() < 0.5,
    )


def distort(image: Pixels, numbers: NDArray[np.float32]) -> None:
    """Apply a folded tint in place: matrix (contrast x + (1 - contrast) mean) + brightness."""
    cv2 = need("cv2")
    contrast, brightness = numbers[9], numbers[10]
    mean = np.asarray(cv2.mean(image)[: image.shape[2]])
    matrix = numbers[:9].reshape(3, 3) if image.shape[2] == 3 else np.ones((1, 1), np.float32)
    added = (1 - contrast) * (matrix @ mean) + brightness
    cv2.transform(image, np.column_stack([contrast * matrix, added]), dst=image)


def room_for(image: tuple[int, int, int]) -> NDArray[np.float32]:
    """Memory for `distort_exactly`, used again and again: fresh memory costs more than the work."""
    return np.empty((2, *image), np.float32)


def distort_exactly(image: Pixels, drawn: Tint, room: NDArray[np.float32]) -> None:
    """Apply a tint in place as TensorFlow's image operations do, one after another."""
    cv2 = need("cv2")
    x, hsv = room
    np.multiply(image, np.float32(1 / 255), out=x)
    x += np.float32(drawn.brightness / 255)
    if drawn.contrast_first:
        _turn_around_mean(x, drawn.contrast)
    if image.shape[2] == 3:
        cv2.cvtColor(x, cv2.COLOR_RGB2HSV, dst=hsv)
        # Hues beyond the circle are taken round it on the way back.
        hue, saturation = hsv[..., 0], hsv[..., 1]
        hue += np.float32(360 * drawn.hue)
        saturation *= np.float32(drawn.saturation)
        np.clip(saturation, 0, 1, out=saturation)
        cv2.cvtColor(hsv, cv2.COLOR_HSV2RGB, dst=x)
    if not drawn.contrast_first:
        _turn_around_mean(x, drawn.contrast)
    x *= np.float32(255)
    np.rint(np.clip(x, 0, 255, out=x), out=x)
    image[...] = x


def _turn_around_mean(x: NDArray[np.float32], contrast: float) -> None:
    cv2 = need("cv2")
    mean = cv2.mean(x)
    x *= np.float32(contrast)
    cv2.add(x, tuple((1 - contrast) * channel for channel in mean), dst=x)

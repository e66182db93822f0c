"""Figures with how well they are known, for charts and the page: in few words, and in a frame.

A cell that is hardly known at all has an interval of many digits that would stretch every axis.
Such an interval is told as a factor, and drawn as far as the frame goes, with an arrow at its end.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from statistics import median_low
from typing import Any

from convdyno.report.cell import Cell
from convdyno.report.format import around, rate

FAR = 3.0
"""What may be this many times as much is told as a factor, not by the ends of its interval."""
FARTHEST = 1000.0
"""Whoever knows no more than this factor knows nothing."""
ROOM, ABOVE = 1.0, 0.4
"""What intervals may add to the room of the points at each side, and above bars that begin at 0."""

Ends = tuple[float | None, float | None]
"""An interval; None where it is not known."""
Frame = tuple[float, float]
"""The lowest and the highest value that a chart shows."""


def ends_of(cell: Cell) -> Ends:
    """A cell's interval, if it knows how much processes differ."""
    return (None, None) if cell.one_process else (cell.low, cell.high)


def known(value: float | None, ends: Ends, write: Callable[[float | None], str] = rate) -> str:
    """A figure with its interval, or with the factor by which it may be wrong."""
    low, high = ends
    if value is None or low is None or high is None:
        return thousands(write(value))
    if (vague := vagueness(value, ends)) is None:
        return thousands(around(value, low, high, write))
    return f"{thousands(write(value))}, {vague}"


def vagueness(value: float, ends: Ends) -> str | None:
    """The factor by which a figure may be wrong, in words, where that is a large one."""
    low, high = ends
    if low is None or high is None:
        return None
    factor = max(high / value, value / low if low > 0 else math.inf)
    if factor <= FAR:
        return None
    if factor >= FARTHEST:
        return "hardly known"
    return f"give or take a factor of {factor:{'.2g' if factor < 99.5 else '.0f'}}"


def thousands(text: str) -> str:
    """The same text with commas in its long numbers: 1,658,925."""
    return re.sub(r"(?<![\d.])\d{5,}", lambda found: f"{int(found[0]):,}", text)


def frame(points: Sequence[float], ends: Sequence[Ends], room: float = ROOM) -> Frame:
    """What an axis has to show: all points, and of their intervals what does not dwarf these."""
    inner = [(low, high) for low, high in ends if low is not None and high is not None]
    widths = [high - low for low, high in inner]
    least, most = min(points), max(points)
    usual = min(median_low(widths), abs(most) / 2) if widths else 0.0
    reach = max(room * (most - least), usual)
    lowest = min((low for low, _ in inner), default=least)
    highest = max((high for _, high in inner), default=most)
    return min(least, max(lowest, least - reach)), max(most, min(highest, most + reach))


def frame_from_zero(cells: Sequence[Cell]) -> Frame:
    """The same of the images per second of some cells."""
    rates = [cell.images_per_second or 0.0 for cell in cells]
    return frame([0.0, *rates], [ends_of(cell) for cell in cells], ABOVE)


def clipped(ends: Ends, shown: Frame) -> dict[str, Any]:
    """An interval as far as a frame goes: its two ends, and at which side it goes on."""
    low, high = ends
    if low is None or high is None:
        return {}
    least, most = shown
    found: dict[str, Any] = {"low": max(low, least), "high": min(high, most)}
    return (
        found | ({"below": least} if low < least else {}) | ({"above": most} if high > most else {})
    )

"""Figures and settings as people write them: the same words on screen, page and in files."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from convdyno.terminal import duration as duration
from convdyno.trial import axes
from convdyno.trial.naming import MAIN as MAIN
from convdyno.trial.naming import labels_of as labels_of
from convdyno.trial.naming import said as said
from convdyno.trial.naming import varying as varying
from convdyno.trial.naming import written as written

if TYPE_CHECKING:  # A list of records needs neither arithmetic nor trials.
    from convdyno.stats.compare import Comparison
    from convdyno.stats.ladder import Share
    from convdyno.trial.spec import Trial

WIDE = 0.1
"""From this half width on a figure deserves two digits, not three."""
ONE_PROCESS = "n/a (1 process)"
"""Instead of an interval that would not know how much processes differ."""
UNPAIRED = "measured in different runs: how the machine changed in between was not seen"
MODES = {"train": "training", "infer": "inference"}
UNTOLD = MAIN | frozenset(axes.names(aside=True))
"""Settings that are shown elsewhere, or that say little."""


def gmac(macs: int) -> str:
    """Multiply-accumulates, with the floating-point operations that others count beside them."""
    for size, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if macs >= size:
            return f"{macs / size:.3g} {prefix}MAC ({2 * macs / size:.3g} {prefix}FLOP)"
    return f"{macs} MAC ({2 * macs} FLOP)"


def quantity(value: float, unit: str = "") -> str:
    """A number with a prefix: 25.6 M, 3.2 GB."""
    for size, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{_three(value / size)} {prefix}{unit}"
    return f"{_three(value)} {unit}".rstrip()


def rate(images_per_second: float | None) -> str:
    """Images per second with as many digits as mean something."""
    return "-" if images_per_second is None else _three(images_per_second)


def size(memory_bytes: float | None) -> str:
    """An amount of memory: 3.2 GB."""
    return quantity(memory_bytes, "B") if memory_bytes else "-"


def ratio(times: float | None) -> str:
    """How many times as fast: 1.250."""
    return "-" if times is None else f"{times:.3f}"


def rough_ratio(times: float | None) -> str:
    """The same of what is not decided, which deserves fewer digits: 1.25."""
    return "-" if times is None else f"{times:.2f}"


def ratio_writer(found: Comparison) -> Callable[[float | None], str]:
    """What writes a ratio and the ends of its interval, with the digits that it deserves."""
    return rough_ratio if found.verdict == "undecided" else ratio


def between(low: float | None, high: float | None, write: Callable[[float], str] = rate) -> str:
    """The two ends of an interval: 9.81 to 10.2, or 8.1 to 12 of a wide one."""
    if low is None or high is None:
        return "-"
    if write is rate and high > (1 + WIDE) ** 2 * low:
        write = _two
    return f"{write(low)} to {write(high)}"


def reached(value: float | None, high: float | None) -> str:
    """Images per second with how well they are known: 11.4 ±2 %, or 11 ±23 %."""
    if value is None or high is None:
        return rate(value)
    width = high / value - 1
    written = rate(value) if width <= WIDE else _two(value)
    return f"{written} ±{100 * width:.2g} %" if width < 0.995 else f"{written} ±{100 * width:.0f} %"


def times(found: Comparison) -> str:
    """A ratio with its interval, if it has one: 1.250 [1.230, 1.270]."""
    return around(found.ratio, found.low, found.high, ratio_writer(found))


def around(
    value: float | None,
    low: float | None,
    high: float | None,
    write: Callable[[float | None], str] = rate,
) -> str:
    """A figure with its interval, if it has one: 10.0 [9.81, 10.2]."""
    known = low is not None and high is not None
    return write(value) + (f" [{write(low)}, {write(high)}]" if known else "")


def share(found: Share) -> str:
    """A share of one with its interval, if it has one: 38 % [36, 40]."""
    if found.low is None or found.high is None:
        return percent(found.share)
    return f"{100 * found.share:.0f} % [{100 * found.low:.0f}, {100 * found.high:.0f}]"


def span(seconds: float | None) -> str:
    """A short time: 1.63 s, 22.1 ms, 830 us."""
    if seconds is None:
        return "-"
    for size, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if seconds >= size:
            return f"{_three(seconds / size)} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def percent(share: float | None) -> str:
    """A share of one: 38 %, 1.2 %."""
    if share is None:
        return "-"
    return f"{100 * share:.0f} %" if share >= 0.1 else f"{100 * share:.1f} %"


def accuracy(share: float, low: float | None = None, high: float | None = None) -> str:
    """A share of right answers, with its interval if it has one: 75.12 % [74.70, 75.53]."""
    told = f"{100 * share:.2f} %"
    return told if low is None or high is None else f"{told} [{100 * low:.2f}, {100 * high:.2f}]"


def noun(count: int, one: str, many: str = "") -> str:
    """A count with its noun: 1 round, 3 rounds."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def ranges(numbers: Iterable[int]) -> str:
    """Whole numbers as stretches: 0-3, 8."""
    found: list[list[int]] = []
    for number in sorted(set(numbers)):
        if found and number == found[-1][-1] + 1:
            found[-1][1:] = [number]
        else:
            found.append([number])
    return ", ".join("-".join(map(str, stretch)) for stretch in found)


def settings_of(trial: Trial, untold: Collection[str] = UNTOLD) -> str:
    """The settings of a cell that are not what they are by default, in words."""
    known = type(trial).model_fields
    return ", ".join(
        said(trial, name)
        for name, value in trial.__dict__.items()
        if name not in untold and value != known[name].default
    )


def pairs(values: Mapping[str, Any], separator: str = ", ", sign: str = "=") -> str:
    """Names with their values: gpu=k80, branch=main."""
    return separator.join(f"{name}{sign}{value}" for name, value in values.items())


def natural(text: str) -> list[tuple[int, int | str]]:
    """A key that sorts 2 before 10."""
    parts = re.split(r"(\d+)", text)
    return [(0, int(part)) if part.isdigit() else (1, part) for part in parts]


def _three(value: float) -> str:
    """Three significant digits, and never an exponent."""
    for least, digits in ((100, 0), (10, 1), (1, 2)):
        if abs(value) >= least:
            return f"{value:.{digits}f}"
    return f"{value:.3g}"


def _two(value: float) -> str:
    """Two significant digits, and never an exponent."""
    digits = 1 - math.floor(math.log10(abs(value))) if value else 0
    return f"{round(value, digits):.{max(0, digits)}f}"

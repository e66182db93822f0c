"""Numbers as people write them."""

from __future__ import annotations

from collections.abc import Iterable

UNPAIRED = "measured in different runs: how the machine changed in between was not seen"


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


def span(seconds: float | None) -> str:
    """A short time: 1.63 s, 22.1 ms, 830 us."""
    if seconds is None:
        return "-"
    for size, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if seconds >= size:
            return f"{_three(seconds / size)} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def clock(seconds: float) -> str:
    """A length of time: 4:07, 1:02:30."""
    whole = max(0, round(seconds))
    hours, rest = divmod(whole, 3600)
    short = f"{rest // 60:02d}:{rest % 60:02d}" if hours else f"{rest // 60}:{rest % 60:02d}"
    return f"{hours}:{short}" if hours else short


def percent(share: float | None) -> str:
    """A share of one."""
    return (
        "-" if share is None else f"{100 * share:.0f} %" if share >= 0.1 else f"{100 * share:.1f} %"
    )


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


def _three(value: float) -> str:
    """Three significant digits, and never an exponent."""
    if abs(value) >= 100:
        return f"{value:.0f}"
    return (
        f"{value:.1f}"
        if abs(value) >= 10
        else f"{value:.2f}"
        if abs(value) >= 1
        else f"{value:.3g}"
    )

"""Text onto the screen: what would command a terminal is shown instead.

Records, host names and the words of other programs are data, and data may hold escape sequences
that move the cursor, rename the window or hide what follows. Everything that `convdyno` prints goes
through `Visible`; only `commands` lets our own styles and progress lines past it.
"""

from __future__ import annotations

import codecs
import io
import math
import os
import re
import sys
import textwrap
from typing import Any, TextIO

_HIDDEN = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # Control characters but tab and newline.
    "\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"  # Unseen.
    "\ud800-\udfff"  # Halves of pairs, which no terminal can be sent.
    "\U000e0000-\U000e007f"
)
_IN_TEXT = re.compile(f"[{_HIDDEN}]")
_IN_LINE = re.compile(f"[{_HIDDEN}\t\n]")


def visible(text: object) -> str:
    """A value as it may stand in a line: nothing in it moves the cursor, or ends the line."""
    return _IN_LINE.sub(_escape, str(text))


_SHORT = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}


def _escape(found: re.Match[str]) -> str:
    # As JSON writes it, so that a JSON document stays the same document.
    if found[0] in _SHORT:
        return _SHORT[found[0]]
    units = found[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[n : n + 2].hex()}" for n in range(0, len(units), 2))


class Visible(io.TextIOBase):
    """A stream that shows what would command a terminal, and passes everything else on."""

    def __init__(self, stream: TextIO | Visible) -> None:
        self._stream: TextIO = commands(stream)

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """As it is beneath."""
        return self._stream.encoding

    @property
    def errors(self) -> str | None:  # type: ignore[override]
        """What becomes of letters that the encoding does not have."""
        return self._stream.errors

    def write(self, text: str) -> int:
        """Write text, its lines as they are."""
        self._stream.write(_IN_TEXT.sub(_escape, text))
        return len(text)

    def flush(self) -> None:
        self._stream.flush()

    def isatty(self) -> bool:
        return self._stream.isatty()

    def fileno(self) -> int:
        return self._stream.fileno()

    def writable(self) -> bool:
        return True


def commands(stream: TextIO | Visible) -> TextIO:
    """The stream to which styles may be written: what goes there must be `visible` already."""
    return stream._stream if isinstance(stream, Visible) else stream


def erase_line(stream: TextIO | Visible) -> None:
    """Take away what was written since the last end of a line."""
    print("\r\x1b[K", end="", file=commands(stream), flush=True)


def columns_of(stream: TextIO | Visible) -> int | None:
    """How wide a terminal is; None where there is none, and lines may have any length."""
    if not stream.isatty():
        return None
    if os.environ.get("COLUMNS", "").isdigit():
        return int(os.environ["COLUMNS"]) or USUAL_COLUMNS
    try:
        return os.get_terminal_size(stream.fileno()).columns or USUAL_COLUMNS
    except OSError:
        return USUAL_COLUMNS


USUAL_COLUMNS = 80
"""Of a terminal that does not say how wide it is."""


def wrapped(text: str, columns: int | None) -> str:
    """A sentence in lines that fit, ended between words; the lines after the first stand in."""
    if columns is None or len(text) <= columns:
        return text
    lines = textwrap.wrap(
        _WITH_UNIT.sub("\xa0", text), columns, subsequent_indent="  ", break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip
    return "\n".join(lines).replace("\xa0", " ")


_WITH_UNIT = re.compile(r"(?<=\d) (?=[%A-Za-z])")
"""The space between a number and its unit or noun, at which no line ends."""


def duration(seconds: float) -> str:
    """A length of time, everywhere the same: 41 s, 4 min 07 s, 1 h 02 min."""
    whole = max(0, round(seconds))
    for size, unit, part, part_unit in ((3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            rest = whole % size // part
            return f"{whole // size} {unit}" + (f" {rest:02d} {part_unit}" if rest else "")
    return f"{whole} s"


def rough_time(low: float, high: float) -> str:
    """A length of time that is only guessed, between two: 40 to 90 s, 2 to 5 min, 1 to 3 h."""
    _, size, step, unit = next(row for row in _ROUGH if high >= row[0])
    least = step * max(1, int(low / size / step))
    most = step * max(1, math.ceil(high / size / step))
    return f"{least} to {most} {unit}" if least < most else f"about {most} {unit}"


_ROUGH = ((7200, 3600, 1, "h"), (120, 60, 1, "min"), (0, 1, 5, "s"))
"""From how many seconds on which unit is used, its seconds, and steps in which it is told."""


def _plain(problem: UnicodeError) -> tuple[str, int]:
    """What stands for letters that a terminal does not have."""
    if not isinstance(problem, UnicodeEncodeError):
        raise problem
    lost = problem.object[problem.start : problem.end]
    return "".join(_PLAIN.get(letter, "?") for letter in lost), problem.end


_PLAIN = {"±": "+-"}
codecs.register_error("convdyno", _plain)


class Unheard(Exception):
    """Standard output cannot be written; says why, and nothing if its reader has left."""


class _Output(io.FileIO):
    """Standard output: what goes wrong there is told from what goes wrong with any other file."""

    def write(self, data: Any) -> int:
        """Write all of it, or raise `Unheard`."""
        try:
            return super().write(data) or 0
        except OSError as problem:
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())
            left = isinstance(problem, BrokenPipeError)
            raise Unheard("" if left else problem.strerror) from None


class _Progress(io.FileIO):
    """Standard error, which takes what it can: no run is lost for a line of progress."""

    def write(self, data: Any) -> int:
        """Write, or let it be."""
        try:
            return super().write(data) or 0
        except OSError:
            return len(data)


def guard() -> None:
    """Let everything that this process prints from now on be visible, on any terminal.

    What is said to a stream that was closed is lost; one that is full raises `Unheard`.
    """
    for name, number, kind in (("stdout", 1, _Output), ("stderr", 2, _Progress)):
        stream = getattr(sys, name)
        if stream is None:  # No other file shall get its number.
            os.dup2(os.open(os.devnull, os.O_WRONLY), number)
            stream = open(number, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="convdyno")
        if isinstance(getattr(stream, "buffer", None), io.BufferedWriter | io.FileIO):
            stream.flush()
            stream = io.TextIOWrapper(
                io.BufferedWriter(kind(stream.fileno(), "w", closefd=False)),
                encoding=stream.encoding, errors="convdyno",
                line_buffering=stream.line_buffering, write_through=stream.write_through,
            )  # fmt: skip
        setattr(sys, name, Visible(stream))

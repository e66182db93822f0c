"""Text onto the screen: what would command a terminal is shown instead.

Records, host names and the words of other programs are data, and data may hold escape sequences
that move the cursor, rename the window or hide what follows. Everything that `convdyno` prints goes
through `Visible`; only `commands` lets our own styles and progress lines past it.
"""

from __future__ import annotations

import io
import re
import sys
from typing import TextIO

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


def guard() -> None:
    """Let everything that this process prints from now on be visible."""
    sys.stdout, sys.stderr = Visible(sys.stdout), Visible(sys.stderr)

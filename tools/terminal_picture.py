"""A picture of a command and of what it prints, from a real run on a terminal of a given width.

    python tools/terminal_picture.py --svg terminal.svg -- bench deepmnist --budget 40s
    python tools/terminal_picture.py --columns 40 --text -- report results

The words after `--` are those of convdyno. Lines of progress, which the command itself takes away,
are not in the picture.
"""

from __future__ import annotations

import argparse
import fcntl
import io
import os
import pty
import re
import shlex
import struct
import subprocess
import sys
import termios
from pathlib import Path

from rich.console import Console
from rich.text import Text

ERASED = "\r\x1b[K"
"""What is written before this, in the same line, is taken away again."""
STYLE = re.compile(r"\x1b\[[0-9;]*m")
SVG = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{
    font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace;
    font-size: {char_height}px; line-height: {line_height}px; font-variant-east-asian: full-width;
}}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
</clipPath>
{lines}
</defs>
<rect fill="#1b1f24" width="100%" height="100%" rx="8"/>
<g transform="translate({terminal_x}, 22)" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""
"""As rich's own, without fonts from the net and without a window around it."""


def printed(words: list[str], columns: int) -> str:
    """What convdyno prints on a terminal so wide, with its colours."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 60, columns, 0, 0))
    plain = {"COLUMNS", "NO_COLOR", "FORCE_COLOR"}
    around = {name: value for name, value in os.environ.items() if name not in plain}
    running = subprocess.Popen(
        [sys.executable, "-m", "convdyno", *words],
        stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs,
        env=around | {"TERM": "xterm-256color"},
    )  # fmt: skip
    os.close(theirs)
    seen = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # Linux's way to say that nobody writes any more.
            break
        if not part:
            break
        seen += part
    if code := running.wait():
        sys.exit(f"{shlex.join(words)} ended with {code}:\n{seen.decode()}")
    return settled(seen.decode())


def settled(text: str) -> str:
    """The lines as they are left on the screen."""
    lines = text.replace("\r\n", "\n").split("\n")
    kept = [line.rpartition(ERASED)[2].rpartition("\r")[2] for line in lines]
    return "\n".join(line for line, was in zip(kept, lines, strict=True) if line or not was).strip()


def drawn(typed: str, text: str, columns: int) -> str:
    """An SVG of a command and its output."""
    screen = Console(record=True, width=columns, file=io.StringIO(), highlight=False)
    screen.print(Text.assemble(("$ ", "green"), (typed, "bold")))
    for line in text.split("\n"):
        screen.print(Text.from_ansi(line))
    return screen.export_svg(title="", code_format=SVG, unique_id="terminal")


def main() -> None:
    """Run what was asked for, and write it down."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--columns", type=int, default=80, help="how wide the terminal is")
    parser.add_argument("--svg", type=Path, help="a file for the picture")
    parser.add_argument("--text", action="store_true", help="print it as plain text")
    parser.add_argument("words", nargs="+", help="a command of convdyno, after --")
    asked = parser.parse_args()
    text = printed(asked.words, asked.columns)
    typed = shlex.join(["convdyno", *asked.words])
    if asked.svg:
        asked.svg.write_text(drawn(typed, text, asked.columns))
    if asked.text:
        print(f"$ {typed}\n{STYLE.sub('', text)}")


if __name__ == "__main__":
    main()

"""Rows of words as tables: plain columns, of any length in a moment, and HTML."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from html import escape
from typing import Any


def aligned(rows: Sequence[Mapping[str, str]], right: Collection[str] = ()) -> Iterator[str]:
    """A header and a line for each row, every column as wide as its widest; some stand right."""
    lines = [[*rows[0]], *([*row.values()] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    ways = [str.rjust if name in right else str.ljust for name in rows[0]]
    for line in lines:
        cells = (way(cell, width) for way, cell, width in zip(ways, line, widths, strict=True))
        yield "  ".join(cells).rstrip()


def html_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows of one shape as a table of HTML; nothing for none."""
    if not rows:
        return ""
    head = "".join(f"<th>{escape(name)}</th>" for name in rows[0])
    lines = "".join(
        "<tr>" + "".join(f"<td>{escape(str(value))}</td>" for value in row.values()) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>"

"""Rows of words as tables: plain columns, of any length in a moment, and HTML."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from html import escape
from typing import Any


def aligned(rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> Iterator[str]:
    """A line for each row, every column as wide as its widest; some stand right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (
            cell.rjust(width) if place in right else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
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

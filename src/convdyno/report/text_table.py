"""Rows of words as tables: plain columns, of any length in a moment, and HTML.

A table that is too wide for its terminal first loses the columns that say nothing, then those that
say little; then prose is broken between words. What still does not fit is written row by row.
"""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterator, Mapping, Sequence
from html import escape
from itertools import zip_longest
from typing import Any

from convdyno.terminal import wrapped

Rows = Sequence[Mapping[str, str]]
GAP = 2
"""Spaces between columns."""
SAYS_NOTHING = frozenset({"", "-", "ok"})
"""What need not be said if it is all that a column says."""


def aligned(rows: Rows, right: Collection[str] = ()) -> Iterator[str]:
    """A header and a line for each row, every column as wide as its widest; some stand right."""
    for lines in _lines(rows, _natural(rows), right):
        yield from lines


def fitted(
    rows: Rows, columns: int | None, right: Collection[str] = (), little: Sequence[str] = ()
) -> Iterator[list[str]]:
    """The lines of the header, then those of each row, none wider than so many columns.

    `little` are the names of columns that say little, what says least first.
    """
    if columns is None:
        yield from _lines(rows, _natural(rows), right)
        return
    rows = _dropped(rows, columns, little)
    widths = _squeezed(rows, columns, right)
    if _total(widths) <= columns:
        yield from _lines(rows, widths, right)
    else:
        yield []
        yield from (_one_by_one(row, columns) for row in rows)


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


def _natural(rows: Rows) -> dict[str, int]:
    return {name: max(len(name), *(len(row[name]) for row in rows)) for name in rows[0]}


def _total(widths: Mapping[str, int]) -> int:
    return sum(widths.values()) + GAP * (len(widths) - 1)


def _dropped(rows: Rows, columns: int, little: Sequence[str]) -> Rows:
    """The rows without what they can do without, as far as that is needed."""
    silent = [name for name in rows[0] if {row[name] for row in rows} <= SAYS_NOTHING]
    for name in (*silent, *little):
        if _total(_natural(rows)) <= columns:
            break
        rows = [{key: value for key, value in row.items() if key != name} for row in rows]
    return rows


def _squeezed(rows: Rows, columns: int, right: Collection[str]) -> dict[str, int]:
    """Widths at which prose is broken between words, as narrow as is needed and possible."""
    widths = _natural(rows)
    least = {name: widths[name] if name in right else _longest_word(rows, name) for name in widths}
    while _total(widths) > columns:
        widest = max(widths, key=lambda name: widths[name] if widths[name] > least[name] else 0)
        if widths[widest] <= least[widest]:
            break
        widths[widest] -= 1
    return widths


def _longest_word(rows: Rows, name: str) -> int:
    words = (word for text in (name, *(row[name] for row in rows)) for word in text.split())
    return max(map(len, words), default=0)


def _lines(rows: Rows, widths: Mapping[str, int], right: Collection[str]) -> Iterator[list[str]]:
    """For the header and each row as many lines as its highest cell has."""
    ways = {name: str.rjust if name in right else str.ljust for name in widths}
    for row in ({name: name for name in widths}, *rows):
        cells = [_broken(row[name], widths[name]) for name in widths]
        yield [
            (" " * GAP)
            .join(ways[name](cell, widths[name]) for name, cell in zip(widths, line, strict=True))
            .rstrip()
            for line in zip_longest(*cells, fillvalue="")
        ]


def _broken(text: str, width: int) -> list[str]:
    if len(text) <= width:
        return [text]
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)


def _one_by_one(row: Mapping[str, str], columns: int) -> list[str]:
    """A row as a sentence: each value behind its name, but for the first, which leads."""
    (_, title), *rest = row.items()
    said = (f"{name} {value}".strip() for name, value in rest if value not in SAYS_NOTHING)
    return wrapped(f"{title}: {', '.join(said)}", columns).splitlines()

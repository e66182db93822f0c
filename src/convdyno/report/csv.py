"""Cells as CSV: our columns, and the older tools' beside them."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from io import StringIO
from typing import Any, TextIO

from convdyno.report.cell import Cell
from convdyno.report.columns import view

COLUMNS = tuple(column.name for column in view("csv"))
"""Ours, in this order, with full precision."""
OLDER = tuple(column.name for column in view("older"))
"""The columns of the Deep MNIST collector, by its own names."""


def write_csv(cells: Iterable[Cell], file: TextIO) -> None:
    """Write a header and one line for each cell."""
    columns = (*view("csv"), *view("older"))
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([column.name for column in columns])
    writer.writerows([_text(column.value(cell)) for column in columns] for cell in cells)


def as_csv(cells: Iterable[Cell]) -> str:
    """The same as one text."""
    file = StringIO()
    write_csv(cells, file)
    return file.getvalue()


def _text(value: Any) -> str:
    """A value for a spreadsheet; text that it would take for a formula is quoted."""
    if value is None:
        return ""
    if isinstance(value, float):
        return repr(value)
    text = str(value)
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text

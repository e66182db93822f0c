"""Results for notebooks: what the terminal shows, as HTML."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from convdyno.report.console import Screen, cell_text
from convdyno.report.text_table import html_table


class HtmlScreen(Screen):
    """A screen that keeps what is printed on it as HTML."""

    def __init__(self) -> None:
        self._parts: list[str] = []

    def line(self, text: str = "", style: str = "") -> None:
        """One line of text; a bold one stays bold."""
        words = escape(text) or "&nbsp;"
        self._parts.append(f"<div>{f'<b>{words}</b>' if 'bold' in style else words}</div>")

    def table(self, rows: Sequence[dict[str, Any]], **_: object) -> None:
        """Rows of one shape as a table."""
        words = [{name: cell_text(value) for name, value in row.items()} for row in rows]
        self._parts.append(html_table(words) or "<div>(none)</div>")

    @property
    def html(self) -> str:
        """Everything that was printed."""
        return "".join(self._parts)

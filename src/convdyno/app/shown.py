"""What every use case gives back: it prints, shows itself in a notebook, and becomes rows."""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from convdyno.errors import NotInstalled
from convdyno.report.console import Screen
from convdyno.report.html_screen import HtmlScreen

if TYPE_CHECKING:
    import pandas


class Shown(ABC):
    """A result that can be looked at and computed with."""

    @abstractmethod
    def show(self, screen: Screen) -> None:
        """Print the result on a screen."""

    @abstractmethod
    def to_dicts(self) -> list[dict[str, Any]]:
        """A flat dict for each row, of plain values, unrounded."""

    def to_pandas(self) -> pandas.DataFrame:
        """The rows as a data frame of pandas, which has to be installed."""
        return frame(self.to_dicts())

    def __str__(self) -> str:
        text = io.StringIO()
        self.show(Screen(text))
        return text.getvalue().rstrip()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        screen = HtmlScreen()
        self.show(screen)
        return screen.html


def frame(rows: list[dict[str, Any]]) -> pandas.DataFrame:
    """Rows as a data frame of pandas."""
    try:
        import pandas
    except ImportError:
        raise NotInstalled(
            "pandas is not installed, and to_pandas() needs it: `pip install pandas`, or take "
            "to_dicts()"
        ) from None
    return pandas.DataFrame(rows)

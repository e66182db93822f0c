"""What to do with damaged examples: stop at the first, or leave out a few and say how many."""

from __future__ import annotations

import threading
from typing import Literal

from convdyno.errors import BadData

OnBad = Literal["error", "skip"]
FIRST = 5
"""How many sentences are kept."""


class Tolerance:
    """Counts damaged examples of a split; `bad` may be called by many threads at once."""

    def __init__(self, on_bad: OnBad, total: int, share: float = 0.01) -> None:
        self.on_bad = on_bad
        self.total = total
        self.share = share
        self.count = 0
        """How many were left out."""
        self.first: list[str] = []
        """What was wrong with the first few."""
        self._lock = threading.Lock()

    def bad(self, error: BadData) -> None:
        """Leave this example out, or raise: at once with "error", above the share with "skip"."""
        if self.on_bad == "error":
            raise error
        with self._lock:
            self.count += 1
            if len(self.first) < FIRST:
                self.first.append(str(error))
            if self.count > self.share * self.total:
                raise BadData(
                    f"{self.count} of {self.total} examples are damaged, more than the "
                    f"{self.share:.3g} of them that may be skipped; first: {self.first[0]}"
                ) from error

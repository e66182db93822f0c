"""What to do with damaged examples: stop at the first, or leave out a few and say how many."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Literal, TypeVar

from convdyno.errors import BadData

Found = TypeVar("Found")
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

    def whole(
        self,
        work: Callable[[int], Found],
        rows: Sequence[int],
        threads: int,
        window: int,
        passed: Callable[[int], None],
    ) -> Iterator[Found]:
        """What several threads make of rows, in their order, without the damaged ones.

        So many rows are in work at once; after each such window `passed` hears how many they were.
        """

        def attempt(row: int) -> Found | BadData:
            try:
                return work(row)
            except BadData as error:
                return error

        with ThreadPoolExecutor(threads) as pool:
            for start in range(0, len(rows), window):
                some = rows[start : start + window]
                for found in pool.map(attempt, some):
                    if isinstance(found, BadData):
                        self.bad(found)
                    else:
                        yield found
                passed(len(some))

"""One line that says what is being waited for; drawn between measurements, never during one.

On a terminal it is drawn anew, elsewhere it is a line at least every ten seconds. While something
is waited for that is not timed, such as a worker that starts, a thread keeps it up to date.
"""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TextIO

from convdyno.terminal import (
    Visible,
    columns_of,
    duration,
    erase_line,
    rough_time,
    visible,
    wrapped,
)

LINE_SECONDS = 10.0
"""Where there is no terminal, lines are no further apart, but for blocks that take longer."""
TICK_SECONDS = 1.0
"""How often the line on a terminal is drawn anew while nothing is timed."""
LONG_SECONDS = 5.0
"""Who has waited for so long is told for how long."""
SOONER, LATER = 0.6, 1.8
"""Of the time that is expected, what it may take instead."""


@dataclass(frozen=True)
class Outlook:
    """How much longer it takes until something is known as well as it is wanted."""

    seconds: float
    """Infinite where that is not in sight."""
    half_width: float = 0.0
    """What an hour would give instead, 0.03 is 3 %."""

    @property
    def hour(self) -> float:
        """The same in per cent."""
        return 100 * self.half_width


@dataclass(frozen=True)
class Foresight:
    """What a run will still take, as far as its last round has shown."""

    rounds: int = 0
    """In all; 0 where nothing is known of that."""
    how: str = ""
    """`about ` or `at least `, unless there are just so many."""
    until: tuple[float, float] | None = None
    """Between which moments of `time.monotonic` it should be over."""

    @classmethod
    def after(cls, rounds: int, seconds: float, left: float, *, enough: bool) -> Foresight:
        """So many rounds in all, which should take so long of the time that is left.

        What is not `enough` to know what is wanted uses all of that time.
        """
        now = time.monotonic()
        low, high = (SOONER * seconds, min(left, LATER * seconds)) if enough else (seconds, left)
        return cls(rounds, "about ", (now + min(low, high), now + high))


UNFORESEEN = Foresight()


def shortfall(within: float, found: Outlook, spent: float) -> str:
    """What was wanted and not reached, and how much longer that would have taken."""
    wanted = f"±{100 * within:.2g} %"
    if not math.isfinite(found.seconds):
        return f"{wanted} is out of reach here: an hour gives about ±{found.hour:.2g} %"
    enough = _budget(spent + 1.2 * found.seconds)
    return f"{wanted} was not reached: --budget {enough} should be enough"


class Narrator:
    """Tells what is going on; if quiet, only what went wrong."""

    def __init__(self, out: TextIO | None = None, *, quiet: bool = False) -> None:
        self._out, self.quiet = Visible(out or sys.stderr), quiet
        self.live = self._out.isatty()
        self._lock = threading.RLock()
        self._foresight = UNFORESEEN
        self._known: Mapping[str, str] = {}
        self._parts: list[str] = []
        self._left = math.inf
        self._began = 0.0
        self._said = time.monotonic()
        self._drawn = False
        self._over = threading.Event()

    @property
    def look_seconds(self) -> float:
        """How often somebody wants to know how precise the figures are; infinite: never."""
        if self.quiet:
            return math.inf
        return 2 * TICK_SECONDS if self.live else LINE_SECONDS

    def plan(self, cells: int, rounds: int, within: float, budget_seconds: float) -> None:
        """What is about to happen, and when it ends at the latest."""
        end = time.strftime("%H:%M:%S", time.localtime(time.time() + budget_seconds))
        wanted = f"{rounds} round{'s' * (rounds > 1)}, or until"
        if math.isfinite(within):
            wanted = f"at least {rounds} rounds, until the interval is within {100 * within:g} % or"
        self.tell(
            f"{cells} cell{'s' * (cells > 1)}, {wanted} the budget of {duration(budget_seconds)} "
            f"is spent (by {end} at the latest)"
        )

    def foresee(self, found: Foresight) -> None:
        """What the run that is going on will still take."""
        self._foresight = found

    def learn(self, known: Mapping[str, str]) -> None:
        """What is known so far of each cell, by its label."""
        self._known = known

    def narrowing(self, round_number: int, rates: Sequence[str], ratios: Sequence[str]) -> None:
        """What is known so far, in the order of the cells, as a line that stays."""
        known = f"{self._round(round_number)}: {', '.join(rates)} images/s"
        self.tell(known + (f"; ratio {', '.join(ratios)}" if ratios else "") + self._until())

    def opening(self, round_number: int, label: str, left: float) -> None:
        """A worker is being started."""
        self._draw([self._round(round_number), f"starting {label}"], left)

    def warming(self, round_number: int, label: str, left: float) -> None:
        """A worker warms up: until that is over, nothing is drawn."""
        self._draw([self._round(round_number), f"warming up {label}"], left, timed=True)

    def measuring(self, round_number: int, turn: int, label: str, left: float) -> None:
        """A turn of a cell begins: until it is over, nothing is drawn."""
        known = [self._known[label]] if label in self._known else []
        self._draw([self._round(round_number), f"measuring {label}", *known], left, timed=True)

    def trying(self, batch: int, left: float) -> None:
        """A batch is being tried."""
        self._draw([f"trying a batch of {batch}"], left)

    def probing(self, label: str, left: float) -> None:
        """The device's peak is being measured: until that is over, nothing is drawn."""
        self._draw([f"probing the peak for {label}"], left, timed=True)

    @contextmanager
    def waiting(self, what: str) -> Iterator[None]:
        """Something is waited for, for as long as this is open."""
        self._draw([what])
        try:
            yield
        finally:
            self.clear()

    def failed(self, label: str, reason: str) -> None:
        """A cell has failed; the others go on."""
        self.say(f"{label} failed: {reason}")

    def tell(self, sentence: str) -> None:
        """A sentence that stays, unless only what went wrong is to be heard."""
        if not self.quiet:
            self.say(sentence)

    def say(self, sentence: str) -> None:
        """A sentence that stays."""
        with self._lock:
            self._erase()
            text = wrapped(visible(sentence), columns_of(self._out))
            print(text, file=self._out, flush=True)
            self._said = time.monotonic()

    def clear(self) -> None:
        """Take the line away: nothing is waited for any more."""
        self._over.set()
        with self._lock:
            self._erase()

    def _round(self, number: int) -> str:
        ahead = self._foresight
        of = f" of {ahead.how}{max(ahead.rounds, number + 1)}" if ahead.rounds else ""
        return f"round {number + 1}{of}"

    def _draw(self, parts: list[str], left: float = math.inf, *, timed: bool = False) -> None:
        """Show what is going on from now on; what is timed is not disturbed by showing it again."""
        self._over.set()
        if self.quiet:
            return
        with self._lock:
            self._parts, self._began = parts, time.monotonic()
            self._left = self._began + left
            if self.live or self._began >= self._said + LINE_SECONDS:
                self._show()
        if not timed:
            self._over = threading.Event()
            threading.Thread(target=self._keep_showing, args=(self._over,), daemon=True).start()

    def _keep_showing(self, over: threading.Event) -> None:
        while not over.wait(self._pause()):
            with self._lock:
                if not over.is_set():
                    self._show()

    def _pause(self) -> float:
        """Until the line is to be shown again."""
        return TICK_SECONDS if self.live else self._said + LINE_SECONDS - time.monotonic()

    def _show(self) -> None:
        waited = time.monotonic() - self._began
        parts = [*self._parts]
        if waited >= LONG_SECONDS:
            parts[-1] += f" for {duration(waited)}"
        if not self.live:
            self.say(visible(", ".join(parts) + self._until()))
            return
        columns = columns_of(self._out) or 0
        self._erase()
        self._drawn = True
        # A longer line would wrap, and what has wrapped cannot be taken away again.
        line = fit_line([visible(part) for part in parts], self._until(), columns - 1)
        print(line, end="", file=self._out, flush=True)

    def _until(self) -> str:
        """How much longer it takes, as far as that is known."""
        now = time.monotonic()
        left = self._left - now
        if self._foresight.until is not None:
            low, high = (max(0.0, moment - now) for moment in self._foresight.until)
            return f", {rough_time(low, min(high, left))} left" if left > 0 else ", finishing"
        if math.isinf(left):
            return ""
        return f", at most {duration(left)} left" if left > 0 else ", finishing"

    def _erase(self) -> None:
        if self._drawn:
            erase_line(self._out)
        self._drawn = False


def fit_line(parts: Sequence[str], end: str, columns: int) -> str:
    """Parts of a line as far as they fit: what comes last is left out first, the end is kept."""
    shown = list(parts)
    while len(shown) > 2 and len(", ".join(shown) + end) > columns:
        shown.pop()
    room = columns - len(end)
    line = ", ".join(shown)
    if len(line) > room:
        line = line[: max(0, room - 3)].rstrip() + "..."
    return (line + end)[:columns]


class Silence(Narrator):
    """Heard by nobody: for programs that look at results alone."""

    def say(self, sentence: str) -> None:
        """Nothing is kept of it."""


SILENCE = Silence(quiet=True)


def _budget(seconds: float) -> str:
    """A budget that suffices, as one types it."""
    return f"{math.ceil(seconds / 60)}m" if seconds < 7200 else f"{math.ceil(seconds / 3600)}h"

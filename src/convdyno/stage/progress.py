"""One line that says what is being waited for; drawn between measurements, never during one."""

from __future__ import annotations

import math
import sys
import time
from typing import TextIO

from convdyno.terminal import Visible, erase_line, visible


class Narrator:
    """Tells on a terminal what is going on; elsewhere, or if quiet, only what went wrong."""

    def __init__(self, out: TextIO | None = None, *, quiet: bool = False) -> None:
        self._out, self.quiet = Visible(out or sys.stderr), quiet
        self._live = self._out.isatty()
        self._drawn = False

    def plan(self, cells: int, rounds: int, within: float, budget_seconds: float) -> None:
        """What is about to happen, and when it ends at the latest."""
        end = time.strftime("%H:%M:%S", time.localtime(time.time() + budget_seconds))
        wanted = f"{rounds} round{'s' * (rounds > 1)}, or until"
        if math.isfinite(within):
            wanted = f"at least {rounds} rounds, until the interval is within {100 * within:g} % or"
        self.tell(
            f"{cells} cell{'s' * (cells > 1)}, {wanted} the budget of {_clock(budget_seconds)} is "
            f"spent (by {end} at the latest)"
        )

    def opening(self, round_number: int, label: str, left: float) -> None:
        """A worker is being started."""
        self._draw(f"round {round_number + 1}: starting {label}", left)

    def measuring(self, round_number: int, turn: int, label: str, left: float) -> None:
        """A turn of a cell begins."""
        self._draw(f"round {round_number + 1}, turn {turn + 1}: measuring {label}", left)

    def trying(self, batch: int, left: float) -> None:
        """A batch is being tried."""
        self._draw(f"trying a batch of {batch}", left)

    def probing(self, label: str, left: float) -> None:
        """The device's peak is being measured."""
        self._draw(f"probing the peak for {label}", left)

    def failed(self, label: str, reason: str) -> None:
        """A cell has failed; the others go on."""
        self.say(f"{label} failed: {reason}")

    def tell(self, sentence: str) -> None:
        """A sentence that stays, unless only what went wrong is to be heard."""
        if not self.quiet:
            self.say(sentence)

    def say(self, sentence: str) -> None:
        """A sentence that stays."""
        self.clear()
        print(sentence, file=self._out, flush=True)

    def clear(self) -> None:
        """Take the line away."""
        if self._drawn:
            erase_line(self._out)
        self._drawn = False

    def _draw(self, what: str, left: float) -> None:
        if self._live:
            ends = f"at most {_clock(left)} left" if left > 0 else "finishing"
            self.clear()
            self._drawn = True
            print(visible(f"{what} ({ends})")[:200], end="", file=self._out, flush=True)


class Silence(Narrator):
    """Heard by nobody: for programs that look at results alone."""

    def say(self, sentence: str) -> None:
        """Nothing is kept of it."""

    def _draw(self, what: str, left: float) -> None:
        pass


SILENCE = Silence(quiet=True)


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"

"""When a run looks up from training, to show, to save or to stop.

One rank alone looks up when its clock or a signal says so. Several look up at the same step, about
twice a second, so that other steps cost no message: each says whether somebody wants to stop it,
rank 0 says what is due by its clock, and at the end of the look at which step the next one is.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

from convdyno.run.ranks import Ranks
from convdyno.trial.training import Watching

LOOK_SECONDS = 0.5
"""How far the looks of several ranks are apart."""
QUIET_SECONDS = 10.0
"""One rank alone looks up at least so often."""


@dataclass(frozen=True)
class DueNow:
    """What is to be done at a step, by all ranks alike."""

    stop: bool
    """Somebody asked one of the ranks to end."""
    display: bool
    save: bool
    picture: bool
    """Images and histograms for TensorBoard."""


class Cadence:
    """The steps at which all ranks look up."""

    def __init__(self, watching: Watching, ranks: Ranks, step: int) -> None:
        self._watching, self._ranks = watching, ranks
        now = time.perf_counter()
        self._last = {"display": now, "save": now, "picture": -math.inf}
        self._every = {
            "display": watching.display_seconds,
            "save": watching.save_seconds,
            "picture": watching.summary_seconds,
        }
        if watching.display_every:
            self._every["display"] = math.inf
        self._next = self._left_step = step
        self._left, self._seconds_a_step = now, LOOK_SECONDS
        self._wake = math.inf

    def due(self, step: int, stopping: bool) -> bool:
        """Whether to look up at this step."""
        if step >= self._next:
            return True
        return self._ranks.alone and (stopping or time.perf_counter() >= self._wake)

    def look(self, step: int, stopping: bool) -> DueNow:
        """What everybody does now; the device must have finished its steps."""
        now = time.perf_counter()
        self._seconds_a_step = (now - self._left) / max(1, step - self._left_step)
        wanted = {what: now - self._last[what] >= self._every[what] for what in self._last}
        if self._watching.display_every:
            wanted["display"] = step % self._watching.display_every == 0
        told = self._ranks.gather((stopping, wanted))
        return DueNow(stop=any(stop for stop, _ in told), **told[0][1])

    def done(self, what: str) -> None:
        """Something that was due was done; its time begins anew."""
        self._last[what] = time.perf_counter()

    def go_on(self, step: int, at_most: int) -> None:
        """End a look: agree on the next, at most so many steps ahead."""
        now = time.perf_counter()
        if every := self._watching.display_every:
            at_most = min(at_most, every - step % every)
        if self._ranks.alone:
            self._next = step + at_most
            due = (self._last[what] + self._every[what] for what in self._last)
            self._wake = min(now + QUIET_SECONDS, *due)
            return
        # Not far more than were timed: the first steps may tell little about the next.
        wanted = LOOK_SECONDS / max(self._seconds_a_step, 1e-9)
        steps = max(1, min(round(wanted), 2 * (step - self._left_step), at_most))
        self._next = step + self._ranks.agree(steps)
        self._left, self._left_step = time.perf_counter(), step

"""The largest batch that memory holds: doubled, then halved in between, every try a fresh process.

A try may use nine tenths of the memory that is free when it begins, so the machine itself never
runs out of it; what a process asks for beyond that is refused to it, which is the answer. The size
that is found is run once more, for several steps.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from convdyno.errors import TrialFailed
from convdyno.launch.launcher import OutOfTime, Team
from convdyno.trial.spec import Trial

SHARE = 0.9
"""Of the free memory, what a try may use."""
STEPS, PROOF_STEPS = 2, 6
"""Of a try, and of the proof: what an update rule remembers is there from the second step on."""
FINENESS = 16
"""The search ends when a sixteenth more is known to be too much."""


def largest(fits: Callable[[int], bool], first: int) -> int:
    """The largest number that fits, to a sixteenth; 0 if not even 1 does."""
    low, high = 0, first
    while fits(high):
        low, high = high, 2 * high
    while not low and high > 1:
        smaller = high // 2
        if fits(smaller):
            low = smaller
        else:
            high = smaller
    while low and high - low > max(1, low // FINENESS):
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


@dataclass
class LargestBatch:
    """What was found about one trial."""

    batch: int = 0
    """The largest that ran; 0 if none did."""
    too_large: int | None = None
    """The smallest that did not."""
    reason: str = ""
    """Why that one did not."""
    tries: int = 0
    seconds: float = 0.0
    complete: bool = True
    """Whether the search came to its end."""

    @property
    def sentence(self) -> str:
        """What was found, in words."""
        spent = f"{self.tries} tries in {self.seconds:.0f} s"
        if not self.batch and not self.complete:
            return f"no size was shown to fit: the time to look ended ({spent})"
        if not self.batch:
            return f"nothing fits, not even one image: {self.reason} ({spent})"
        if not self.complete:
            return f"{self.batch} images fit, perhaps more: the time to look ended ({spent})"
        return f"{self.batch} images fit, {self.too_large} do not ({spent})"


@dataclass
class BatchSearch:
    """Looks for the largest batch of one trial."""

    start: Callable[[Trial], Team]
    trial: Trial
    """Its own batch is where the search begins."""
    until: float
    """The `time.monotonic` moment at which it ends."""
    silence_seconds: float = 300.0
    tell: Callable[[int, float], None] = lambda batch, left: None
    """Hears of each try, and how many seconds are left."""
    room: LargestBatch = field(default_factory=LargestBatch)
    _ran: bool = False

    def run(self) -> LargestBatch:
        """Search, then prove what was found; a failure other than by size is raised."""
        begin, unit = time.monotonic(), self.trial.accumulate
        try:
            found = unit * largest(
                lambda n: self._runs(n * unit, STEPS), max(1, self.trial.batch // unit)
            )
            while found and not self._runs(found, PROOF_STEPS):
                found = unit * max(0, found // unit - max(1, found // unit // FINENESS))
            self.room.batch = found
        except OutOfTime:
            self.room.complete = False
        self.room.seconds = time.monotonic() - begin
        return self.room

    def _runs(self, batch: int, steps: int) -> bool:
        self.tell(batch, self.until - time.monotonic())
        self.room.tries += 1
        try:
            self._try(self.trial.model_copy(update={"batch": batch}), steps)
        except TrialFailed as failure:
            if failure.status != "oom" and not self._ran:
                raise  # It is not the size.
            if batch <= (self.room.too_large or batch):
                self.room.too_large, self.room.reason = batch, str(failure)
            if batch <= self.room.batch:
                self.room.batch = 0
            return False
        self._ran = True
        self.room.batch = max(self.room.batch, batch)
        return True

    def _try(self, trial: Trial, steps: int) -> None:
        team = self.start(trial)
        try:
            team.ask(
                "open",
                silence=self.silence_seconds,
                until=self.until,
                trial=trial.model_dump(mode="json", exclude_defaults=True),
                steps=steps,
                memory_share=SHARE * trial.hosts / trial.devices,
            )
        finally:
            team.end()

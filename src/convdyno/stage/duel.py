"""Two cells against each other in the same rounds: base and candidate, or one trial twice.

The rounds end when the ratio of the two is known precisely enough. Only its width is looked at,
never on which side of anything it lies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from convdyno.launch.crew import Team
from convdyno.results.record import Record
from convdyno.results.store import Store
from convdyno.stage.narrator import Narrator
from convdyno.stage.pace import Pace
from convdyno.stage.rounds import Cell, Limits, Stage
from convdyno.stats.compare import PairedRounds
from convdyno.stats.gate import precise_ratio, spread_of_ratio
from convdyno.stats.plan import Decision, Goal, Progress, decide
from convdyno.stats.records import paired
from convdyno.trial.spec import Trial


class RatioPace(Pace):
    """Goes on until the ratio of two cells is precise enough, whatever their own rates are."""

    def finished(self, records: Sequence[Record], left: float) -> bool:
        """Without the other side nothing more can be learnt."""
        return len(records) < 2 or super().finished(records, left)

    def _decide(self, records: Sequence[Record], left: float, *, live: bool) -> Decision:
        if len(records) < 2:  # A sitting of its own, or the other side has failed.
            return super()._decide(records, left, live=live)
        pair, goal = paired(records[1], records[0]), self.goal
        return decide(
            Progress(tuple(self.turns), live=live),
            self._cost(),
            left,
            precise_ratio(pair, goal.within, goal.level, goal.minimum_rounds),
            [spread_of_ratio(pair)],
            goal,
        )


class Duel(Stage):
    """A stage of two cells, the base first."""

    def __init__(
        self,
        cells: tuple[Cell, Cell],
        goal: Goal,
        limits: Limits,
        store: Store,
        narrator: Narrator,
        start: Callable[[Trial], Team],
    ) -> None:
        super().__init__(list(cells), goal, limits, store, narrator, start)
        self._pace = RatioPace(goal)
        self.seconds = 0.0
        """How long it took."""

    def run(self) -> None:
        """Run rounds until the ratio is precise enough or the budget is spent."""
        try:
            super().run()
        finally:
            self.seconds = max(0.0, self.limits.budget_seconds - self._left())

    @property
    def pair(self) -> PairedRounds:
        """Candidate and base, round by round."""
        base, candidate = self.cells
        return paired(candidate.record, base.record)

    @property
    def looks(self) -> int:
        """How often the precision was looked at, if a look ended it."""
        return max(cell.record.looks for cell in self.cells)

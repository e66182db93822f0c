"""The outcome of a gate: base and candidate, their ratio, the exact checks, and the verdict."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from convdyno.report.bench_json import versioned
from convdyno.report.cell import Cell, cell_of
from convdyno.report.columns import cell_data, cell_words
from convdyno.report.comparisons import comparison_data
from convdyno.report.console import Screen
from convdyno.report.format import duration, noun, pairs, percent, said, times
from convdyno.stats.compare import Comparison, noise_floor
from convdyno.stats.gate import Outcome, judge, limit, ratio_of
from convdyno.stats.gate_checks import ExactCheck, exact_checks
from convdyno.store.noise_floor import Floor
from convdyno.store.record import Record

EXIT_CODES: dict[Outcome, int] = {
    "pass": 0, "regression": 1, "undecided": 3, "nothing measured": 4
}  # fmt: skip
RUNS = ("ok", "interrupted")
"""The status of a side that has not failed."""
_WORST_FIRST: tuple[Outcome, ...] = ("regression", "nothing measured", "undecided", "pass")
_STYLES = {"pass": "bold green", "regression": "bold red"}


@dataclass(frozen=True)
class Terms:
    """What a candidate is held to."""

    within: float
    """How much longer a step may take, 0.03 is 3 %."""
    level: float = 0.95
    """Of the interval; higher where several candidates are judged at once."""
    loss_within: float | None = None
    left_out: Collection[str] = ()
    """Exact checks that are not made."""


@dataclass(frozen=True)
class KnownFloor:
    """What the machine can tell of a trial in the time that the gate has."""

    floor: Floor
    rounds: int
    """That fit into the budget."""
    level: float = 0.95

    @property
    def share(self) -> float:
        """The narrowest limit at which an unchanged candidate passes in four of five gates."""
        return noise_floor(self.floor.log_ratios, self.level, rounds=self.rounds)

    @property
    def words(self) -> str:
        """The floor in words, with where it comes from."""
        took = f"the same trial against itself, {noun(len(self.floor.log_ratios), 'round')}"
        when = f"in {duration(self.floor.seconds)}, {self.floor.created[:10]}"
        return f"{_percent(self.share)} ({took} {when})"

    def to_data(self) -> dict[str, Any]:
        """The floor for machines, unrounded."""
        return {
            "share": self.share,
            "rounds": self.rounds,
            "created": self.floor.created,
            "seconds": self.floor.seconds,
            "log_ratios": list(self.floor.log_ratios),
        }


@dataclass(frozen=True)
class Gate:
    """One candidate and its base, judged."""

    base: Cell
    candidate: Cell
    paired: bool
    """Whether both took turns in the same rounds; else the base is a record of earlier."""
    terms: Terms
    ratio: Comparison
    checks: list[ExactCheck]
    outcome: Outcome
    reason: str
    """The verdict in a sentence."""
    floor: KnownFloor | None = None

    @property
    def exit_code(self) -> int:
        """As `docs/json.md` has them."""
        return EXIT_CODES[self.outcome]

    def to_data(self, folder: Path, base_folder: Path) -> dict[str, Any]:
        """For machines, unrounded; the folders are those of the two records."""
        return {
            "trial": self.candidate.trial.model_dump(mode="json"),
            **comparison_data(self.ratio),
            "verdict": self.outcome,
            "reason": self.reason,
            "paired": self.paired,
            "limit": limit(self.terms.within),
            "checks": [asdict(check) for check in self.checks],
            "floor": self.floor.to_data() if self.floor else None,
            "base": cell_data(self.base, "gate", base_folder),
            "candidate": cell_data(self.candidate, "gate", folder),
        }

    def flat(self) -> dict[str, Any]:
        """The gate as one row of plain values."""
        found = self.ratio
        return {
            "trial": self.candidate.trial.label,
            "verdict": self.outcome,
            "reason": self.reason,
            **{name: getattr(found, name) for name in ("ratio", "low", "high", "rounds")},
            "limit": limit(self.terms.within),
            "floor": self.floor.share if self.floor else None,
            "paired": self.paired,
            "images_per_second_base": self.base.images_per_second,
            "images_per_second": self.candidate.images_per_second,
            **{f"same_{check.name}": check.passed for check in self.checks},
        }

    def show(self, screen: Screen) -> None:
        """One block of lines."""
        screen.line(self.candidate.trial.label, style="bold")
        screen.table([_side("base", self), _side("candidate", self)])
        if self.ratio.ratio is not None:
            screen.line(f"ratio        {self._ratio_words()}")
        screen.line(
            f"limit        {limit(self.terms.within):.3f}: {_unit(self.base, self.candidate)} may "
            f"take {_percent(self.terms.within)} longer"
        )
        if self.floor is not None:
            screen.line(f"noise floor  {self.floor.words}")
        for check in self.checks:
            mark = {True: "same", False: "DIFFERS", None: "-"}[check.passed]
            style = "red" if check.passed is False else ""
            screen.line(f"{check.name:14}  {mark:7}  {check.sentence}", style=style)
        screen.minds([*self.base.warnings, *self.candidate.warnings])
        screen.line(
            f"{self.outcome.upper()}: {self.reason}", style=_STYLES.get(self.outcome, "bold yellow")
        )

    def _ratio_words(self) -> str:
        found = self.ratio
        how = (
            f"paired over {noun(found.rounds, 'round')}"
            if self.paired
            else f"unpaired: the base is of {self.base.created[:10]}, and how the machine "
            "has changed since is not in the interval"
        )
        return f"{times(found)} of the base's images/s ({how})"


def examine(
    base: Record,
    candidate: Record,
    terms: Terms,
    *,
    in_turns: bool,
    floor: KnownFloor | None = None,
) -> Gate:
    """Judge a candidate by what both sides have measured."""
    one, other = cell_of(candidate), cell_of(base)
    looks = max(one.looks, other.looks) if in_turns else one.looks
    found = ratio_of(one.beside(other, in_turns), terms.level, looks)
    checks = exact_checks(base, candidate, terms.loss_within, terms.left_out)
    outcome, reason = _verdict(other, one, found, checks, terms)
    return Gate(other, one, in_turns, terms, found, checks, outcome, reason, floor)


def _verdict(
    base: Cell, candidate: Cell, ratio: Comparison, checks: Sequence[ExactCheck], terms: Terms
) -> tuple[Outcome, str]:
    if not base.measured:
        return "nothing measured", f"nothing was measured of the base: {base.reason}"
    if base.status not in RUNS:
        return "nothing measured", f"the base itself failed: {base.reason}"
    if candidate.status not in RUNS:
        return "regression", f"the candidate failed where the base runs: {candidate.reason}"
    if not candidate.measured:
        return "nothing measured", f"nothing was measured of the candidate: {candidate.reason}"
    broken = [check for check in checks if check.passed is False]
    if broken:
        return "regression", "; ".join(f"{check.name}: {check.sentence}" for check in broken)
    outcome = judge(ratio, terms.within)
    return outcome, _in_words(outcome, ratio, terms.within, _unit(base, candidate))


def _unit(base: Cell, candidate: Cell) -> str:
    """What is timed: steps of unlike batches say nothing of each other."""
    alike = base.trial.global_batch == candidate.trial.global_batch
    return "a step" if alike else "an image"


def _in_words(outcome: Outcome, ratio: Comparison, within: float, unit: str) -> str:
    if ratio.ratio is None or ratio.low is None or ratio.high is None:
        return ratio.reason or "no round has both sides"
    # Adding zero makes a rounded -0.0 a plain one.
    middle, least, most = (
        round(100 * (1 / r - 1), 1) + 0.0 for r in (ratio.ratio, ratio.high, ratio.low)
    )
    takes = f"{unit} takes {middle:+.1f} % [{least:+.1f}, {most:+.1f}] against the base's"
    if outcome != "undecided":
        return f"{takes}; up to +{_percent(within)} is allowed"
    return (
        f"{takes}, which leaves open whether that is more than the +{_percent(within)} allowed: "
        "give a longer --budget, or a wider --within"
    )


def overall(gates: Sequence[Gate]) -> Outcome:
    """The worst of several verdicts."""
    found = {gate.outcome for gate in gates}
    return next(one for one in _WORST_FIRST if one in found)


def gate_document(
    gates: Sequence[Gate], within: float, folder: Path, base_folder: Path
) -> dict[str, Any]:
    """What `convdyno gate --json` prints; `docs/schemas/gate.json` describes it."""
    return versioned(
        verdict=overall(gates),
        within=within,
        gates=[gate.to_data(folder, base_folder) for gate in gates],
    )


def floor_document(floors: Sequence[KnownFloor]) -> dict[str, Any]:
    """What `convdyno gate --floor --json` prints."""
    return versioned(
        floors=[
            {"trial": known.floor.trial.model_dump(mode="json"), **known.to_data()}
            for known in floors
        ]
    )


def _side(side: str, gate: Gate) -> dict[str, Any]:
    cell: Cell = getattr(gate, side)
    versions = {"convdyno": cell.convdyno, **cell.versions}
    other = gate.base.trial.differs_in(gate.candidate.trial)
    return {
        "": side,
        **cell_words(cell, ("images_per_second", "between", "rounds", "standing")),
        "with": ", ".join([pairs(versions, sign=" "), *(said(cell.trial, name) for name in other)]),
    }


def _percent(share: float) -> str:
    return percent(share) if share >= 0.1 else f"{100 * share:.2g} %"

"""What more devices bring: cells that differ in their number of devices, told as one curve."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import median
from typing import Any

from convdyno.report.cell import Cell, grouped
from convdyno.report.columns import cell_data, cell_words
from convdyno.report.format import UNPAIRED, noun, rate, share
from convdyno.stats.rounds_of_record import in_step
from convdyno.stats.scaling import (
    Communication,
    RankPace,
    Speedup,
    at_the_pace_of,
    communication,
    gain,
    standings,
)
from convdyno.stats.summary import Interval, interval
from convdyno.trial.spec import Trial

IDLE_ALONE = {
    "scaling": "weak", "exchange": "default", "bucket_mb": None, "compress": "none",
    "processes": "device",
}  # fmt: skip
"""What means nothing to one device alone, so that any one-device cell will do as a baseline."""
NO_EXCHANGE = {"exchange": "independent", "bucket_mb": None, "compress": "none"}
"""What a cell becomes without its exchange."""
SHOWN = ("devices", "hosts", "exchange", "batch", "global_batch", "images_per_second")
"""What the table has of each cell."""
MOST_RANKS = 8
"""How many ranks are told one by one."""


@dataclass(frozen=True)
class RankRate:
    """One rank of a group of workers: where it was and how fast."""

    rank: int
    host: str
    device: str
    headline: Interval
    standing: RankPace | None
    """Against the other ranks; None where all had to wait for each other."""

    @property
    def name(self) -> str:
        """The rank in a sentence."""
        return f"rank {self.rank} on {self.host}"

    @property
    def straggles(self) -> bool:
        """Whether it is clearly slower than the others."""
        return self.standing is not None and self.standing.straggles

    def to_data(self) -> dict[str, Any]:
        """The rank for machines, unrounded."""
        standing = self.standing
        return {
            "rank": self.rank,
            "host": self.host,
            "device": self.device,
            "images_per_second": self.headline.estimate,
            "interval": [self.headline.low, self.headline.high],
            "of_others": None if standing is None else asdict(standing),
        }


@dataclass(frozen=True)
class Point:
    """One cell of a curve."""

    cell: Cell
    gain: Speedup | None
    """Over one device; None where that was not measured."""
    ideal: float | None
    """Images per second of so many devices, were each as fast as one alone."""
    ranks: tuple[RankRate, ...]
    independent: Cell | None = None
    """The one without exchange that says what this one's exchange costs."""
    communication: Communication | None = None
    slow: RankRate | None = None
    """Whom the others wait for, as that cell shows."""

    @property
    def trial(self) -> Trial:
        """What the cell has run."""
        return self.cell.trial

    @property
    def rate(self) -> float:
        """Images per second of all devices together."""
        return self.cell.images_per_second or 0.0

    @property
    def name(self) -> str:
        """The cell in a sentence."""
        hosts = f" on {noun(self.trial.hosts, 'host')}" if self.trial.hosts > 1 else ""
        kind = f", {self.trial.exchange}" if self.trial.exchange != "default" else ""
        return f"{noun(self.trial.devices, 'device')}{hosts}{kind}"

    def to_data(self, numbers: Mapping[str, int]) -> dict[str, Any]:
        """The point for machines; `numbers` are the places of cells by their id."""
        cost, other = self.communication, self.independent
        return {
            "cell": numbers[self.cell.id],
            **cell_data(self.cell, "scaling"),
            "images_per_second_per_host": self.rate / self.trial.hosts,
            "images_per_second_per_device": self.rate / self.trial.devices,
            "ideal_images_per_second": self.ideal,
            "speedup": self.gain and self.gain.speedup,
            "speedup_interval": [self.gain and self.gain.low, self.gain and self.gain.high],
            "efficiency": self.gain and asdict(self.gain.efficiency),
            "communication": cost and {"independent": other and numbers[other.id], **asdict(cost)},
            "ranks": [rank.to_data() for rank in self.ranks],
        }

    def to_table(self) -> dict[str, Any]:
        """The point as a row of the table."""
        alone = "baseline" if self.trial.devices == 1 else "-"
        return cell_words(self.cell, SHOWN) | {
            "exchange": self.trial.exchange if self.trial.devices > 1 else "-",
            "per host": rate(self.rate / self.trial.hosts),
            "per device": rate(self.rate / self.trial.devices),
            "efficiency": share(self.gain.efficiency) if self.gain else alone,
            "ideal": rate(self.ideal),
        }

    def sentences(self) -> Iterator[str]:
        """What limits the cell, in words."""
        if self.communication is not None:
            yield f"{self.name}: {self._verdict(self.communication)}"
        slow = [rank for rank in self.ranks if rank.straggles]
        for rank in slow:
            assert rank.standing is not None
            others = "the others" if len(self.ranks) > 2 else "the other"
            yield f"{self.name}: {rank.name} is {share(rank.standing.behind)} slower than {others}"
        if _at_own_pace(self.trial) and self.gain and self.gain.falls_short and not slow:
            reached = share(self.gain.efficiency)
            smaller = "smaller batches, " if self.trial.scaling == "strong" else ""
            yield (
                f"{self.name}: {reached} of the ideal even without an exchange: the rest goes to "
                f"{smaller}memory, cores or power that devices share"
            )
        if _at_own_pace(self.trial) and self.ranks:
            yield f"{self.name}: images/s of each rank: {self._rates()}"

    def _verdict(self, found: Communication) -> str:
        cost = share(found.exchange)
        text = {
            "communication": f"communication-bound: {cost} of each step is exchange of gradients",
            "compute": f"compute-bound: exchange of gradients takes {cost} of each step",
            "undecided": f"undecided: exchange of gradients takes {cost} of each step; "
            "give a longer --budget to say whether that matters",
        }[found.limit]
        if found.waiting is not None and self.slow is not None:
            text += f"; {share(found.waiting)} is waiting for {self.slow.name}"
        return text

    def _rates(self) -> str:
        if len(self.ranks) <= MOST_RANKS:
            return ", ".join(
                f"{rank.rank} on {rank.host} {rate(rank.headline.estimate)}" for rank in self.ranks
            )
        ordered = sorted(self.ranks, key=lambda rank: rank.headline.estimate)
        ends = [f"{rate(one.headline.estimate)} ({one.name})" for one in (ordered[0], ordered[-1])]
        middle = median(rank.headline.estimate for rank in ordered)
        return f"from {ends[0]} to {ends[1]}, median {rate(middle)}"


@dataclass(frozen=True)
class Curve:
    """Cells that do the same work on more and more devices."""

    work: Trial
    """What one device does: of strong scaling, all of it."""
    baseline: Point | None
    points: tuple[Point, ...]
    """Of more than one device: by exchange, fewer devices first."""

    @property
    def scaling(self) -> str:
        """What was held while devices were added."""
        where = "each device" if self.work.scaling == "weak" else "all devices together"
        return f"{self.work.scaling} scaling: {noun(self.work.batch, 'image')} on {where}"

    @property
    def lines(self) -> dict[str, list[Point]]:
        """The points of each way of exchange, each with the baseline before them."""
        first = [] if self.baseline is None else [self.baseline]
        kinds = grouped(self.points, lambda point: point.trial.exchange)
        return {kind: first + points for kind, points in kinds.items()}

    def table(self) -> list[dict[str, Any]]:
        """A row for each cell; the exchange only where it is not always the default."""
        rows = [point.to_table() for point in self._all]
        if {point.trial.exchange for point in self.points} == {"default"}:
            rows = [{k: v for k, v in row.items() if k != "exchange"} for row in rows]
        return rows

    @property
    def _all(self) -> tuple[Point, ...]:
        """The baseline, where there is one, and the other points."""
        return self.points if self.baseline is None else (self.baseline, *self.points)

    def sentences(self) -> Iterator[str]:
        """What limits each cell, and what to do to know more."""
        if len({point.cell.run_name for point in self._all}) > 1:
            yield UNPAIRED
        for point in self.points:
            yield from point.sentences()
        if self.baseline is None:
            yield "efficiency needs the same on one device: have 1 among the --devices"
        if any(_unexplained(point) for point in self.points):
            yield (
                "ranks that exchange gradients wait for each other: to see what the exchange costs "
                "and whether a rank is slow, give --exchange default,independent"
            )

    def to_data(self, numbers: Mapping[str, int]) -> dict[str, Any]:
        """The curve for machines; `numbers` are the places of cells by their id."""
        return {
            "scaling": self.work.scaling,
            "baseline": self.baseline and numbers[self.baseline.cell.id],
            "baseline_images_per_second": self.baseline and self.baseline.rate,
            "points": [point.to_data(numbers) for point in self.points],
            "sentences": list(self.sentences()),
        }


def curves(cells: Sequence[Cell]) -> list[Curve]:
    """The curves among the cells: measured ones of several devices, with their one-device cell."""
    measured = [cell for cell in cells if cell.headline is not None]
    points = [_point(cell, measured) for cell in measured if cell.trial.devices > 1]
    explained = [_explained(point, points) for point in points]
    groups = grouped(explained, lambda point: _work(point.trial))
    return [_curve(work, group, measured) for work, group in groups.items()]


def _curve(work: Trial, points: Sequence[Point], cells: Sequence[Cell]) -> Curve:
    first = _baseline(cells, work)
    by_exchange = grouped(points, lambda point: point.trial.exchange).values()
    order = [p for kind in by_exchange for p in sorted(kind, key=lambda p: p.trial.devices)]
    alone = None if first is None else Point(first, None, first.images_per_second, ())
    return Curve(work, alone, tuple(order))


def _point(cell: Cell, cells: Sequence[Cell]) -> Point:
    found, ideal = None, None
    devices, one = cell.trial.devices, _baseline(cells, _work(cell.trial))
    if one is not None:
        found = gain(devices, cell.beside(one), max(cell.looks, one.looks))
        ideal = devices * (one.images_per_second or 0.0)
    return Point(cell, found, ideal, _ranks(cell))


def _explained(point: Point, points: Sequence[Point]) -> Point:
    """A point with what its exchange costs, where the same was measured without."""
    wanted = point.trial.model_copy(update=NO_EXCHANGE)
    free = (other for other in points if other.trial.exchange == "independent")
    alike = (other for other in free if other.trial.model_copy(update=NO_EXCHANGE) == wanted)
    other = None if _at_own_pace(point.trial) else next(alike, None)
    if other is None:
        return point
    straggling = (rank for rank in other.ranks if rank.straggles)
    slow = min(straggling, key=lambda rank: rank.headline.estimate, default=None)
    both = [point.cell.measured, other.cell.measured]
    if slow is None:
        found = communication(*in_step(both))
    else:
        own = next(one.rounds for one in other.cell.ranks if one.rank == slow.rank)
        together, independent, pace = in_step([*both, own])
        found = communication(together, independent, at_the_pace_of(pace, len(other.ranks)))
    return replace(point, independent=other.cell, communication=found, slow=slow)


def _ranks(cell: Cell) -> tuple[RankRate, ...]:
    rounds = [list(rank.rounds.values()) for rank in cell.ranks]
    found: Sequence[RankPace | None] = [None] * len(rounds)
    if _at_own_pace(cell.trial):
        found = standings(rounds, cell.looks) or found
    return tuple(
        RankRate(one.rank, one.host, one.device, interval(own, looks=cell.looks), standing)
        for one, own, standing in zip(cell.ranks, rounds, found, strict=True)
    )


def _work(trial: Trial) -> Trial:
    """What one device would have to do, by which the cells of a curve are known."""
    batch = trial.global_batch if trial.scaling == "strong" else trial.batch
    changes = {"devices": 1, "hosts": 1, "batch": batch, "exchange": "default"}
    return trial.model_copy(update=changes)


def _baseline(cells: Sequence[Cell], work: Trial) -> Cell | None:
    """The one-device cell of that work; the most alike if there are several."""
    wanted = work.model_copy(update=IDLE_ALONE)
    fitting = [
        cell
        for cell in cells
        if cell.trial.devices == 1 and cell.trial.model_copy(update=IDLE_ALONE) == wanted
    ]
    return min(fitting, key=lambda cell: len(cell.trial.differs_in(work)), default=None)


def _at_own_pace(trial: Trial) -> bool:
    """Whether ranks do not wait for each other; inference exchanges nothing."""
    return trial.exchange == "independent" or trial.mode == "infer"


def _unexplained(point: Point) -> bool:
    short = point.gain is not None and point.gain.falls_short
    return short and point.communication is None and not _at_own_pace(point.trial)

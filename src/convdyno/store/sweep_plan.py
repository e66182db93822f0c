"""What of a sweep's plan is done, failed or left, by the records that there are.

A record counts for a planned trial if it has the trial's digest, comes from a machine of the same
kind, and no label of it says otherwise. One that was left `interrupted` never counts as done.
"""

from __future__ import annotations

import itertools
import json
import math
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from convdyno.store.index import RecordHead
from convdyno.trial.spec import Trial

PlanStanding = Literal["new", "interrupted", "done", "failed", "skipped", "elsewhere"]
"""How a planned trial stands: to be run; to be taken up; measured; failed in some way; not run
because of another's failure; left, and being measured by another process."""
OPEN: tuple[PlanStanding, ...] = ("new", "interrupted")
ENDS: dict[str, PlanStanding] = {"ok": "done", "interrupted": "interrupted", "skipped": "skipped"}
"""How a trial stands by the status of its record; any other is a failure."""
CASE = "case"
"""The label that a case's records have; it tells nothing about what is run."""


@dataclass
class PlannedTrial:
    """One trial of the plan."""

    trial: Trial
    labels: dict[str, str] = field(default_factory=dict)
    path: tuple[str, ...] = ()
    """Its values of all axes, the slowest first."""
    standing: PlanStanding = "new"
    head: RecordHead | None = None
    """The record that says so."""
    former: RecordHead | None = None
    """The latest record, even one that does not count because it is to be tried again."""
    reason: str = ""
    taken: bool = False
    """Whether another process has it."""

    @cached_property
    def kin(self) -> str:
        """What it shares with the same trial at other batches."""
        return kin(self.trial.model_dump(mode="json", exclude_defaults=True))


class SweepPlan:
    """A plan, and how it stands on a machine of some kind."""

    def __init__(self, planned: Sequence[PlannedTrial], kind: str, *, retry: bool = False) -> None:
        self.planned, self._kind = list(planned), kind
        self._retry = retry
        self._old: set[tuple[str, str]] = set()
        """Failures from before, which do not count when they are to be tried again."""
        self.heads: list[RecordHead] = []
        """All measurements at the last look, of this plan or not."""

    def start(self, heads: Iterable[RecordHead]) -> None:
        """How everything stands before anything is run."""
        known = list(heads)
        if self._retry:
            failed = [head for head in known if head.status not in ("ok", "interrupted")]
            self._old = {(head.id, head.created) for head in failed}
        self.look(known)

    def look(self, heads: Iterable[RecordHead]) -> None:
        """How everything stands, by the records of now."""
        self.heads = [head for head in heads if not head.role]
        by_digest: dict[str, list[RecordHead]] = {}
        for head in self.heads:
            by_digest.setdefault(head.digest, []).append(head)
        for one in self.planned:
            self._stand(one, by_digest.get(one.trial.digest, []))

    @property
    def left(self) -> list[PlannedTrial]:
        """What is still to be run, or to be taken up."""
        return [one for one in self.planned if one.standing in OPEN]

    def count(self, *standings: PlanStanding) -> int:
        """How many stand so."""
        return sum(one.standing in standings for one in self.planned)

    def too_large(self, one: PlannedTrial) -> RecordHead | None:
        """The record of the same trial that ran out of memory with the smallest smaller batch."""
        mine = one.kin
        smaller = [
            head
            for head in self.heads
            if head.trial["batch"] < one.trial.batch
            and not self._is_old(head)
            and kin(head.trial) == mine
            and self._fits(head, one)
        ]
        fitting = {head.digest for head in smaller if head.status == "ok"}
        known = [h for h in smaller if h.status == "oom" and h.digest not in fitting]
        return min(known, key=lambda head: int(head.trial["batch"]), default=None)

    def earlier_seconds(self, engine: str) -> float | None:
        """How long measuring a cell took before, on average: of this engine, or of any."""
        of_all = [h for h in self.heads if h.status == "ok" and h.figures.get("seconds")]
        known = [h for h in of_all if h.trial["engine"] == engine] or of_all
        return sum(h.figures["seconds"] for h in known) / len(known) if known else None

    def _stand(self, one: PlannedTrial, heads: list[RecordHead]) -> None:
        fitting = [head for head in heads if self._fits(head, one)]
        mine = [head for head in fitting if not self._is_old(head)]
        best = [head for head in mine if head.status == "ok"] or mine
        one.head = best[-1] if best else None
        one.former = fitting[-1] if fitting else None
        one.reason = (one.head.reason or "") if one.head else ""
        one.standing = ENDS.get(one.head.status, "failed") if one.head else "new"
        if one.taken and one.standing in OPEN:
            one.standing = "elsewhere"

    def _is_old(self, head: RecordHead) -> bool:
        return (head.id, head.created) in self._old

    def _fits(self, head: RecordHead, one: PlannedTrial) -> bool:
        # What kind of machine a batch system will choose is its own affair.
        alike = one.trial.slurm is not None or head.kind == self._kind
        said = head.labels.items() - {(CASE, head.labels.get(CASE))}
        return alike and all(one.labels.get(name, value) == value for name, value in said)


def kin(trial: dict[str, Any]) -> str:
    """What a trial, without its defaults, shares with the same one at other batches."""
    return json.dumps({k: v for k, v in trial.items() if k != "batch"}, sort_keys=True)


def grouped(planned: Sequence[PlannedTrial], together: int) -> list[list[PlannedTrial]]:
    """Groups that are measured in turns: neighbours along the last axes, at most so many.

    What has the same path (the rungs of a ladder) is never parted.
    """
    levels = range(max((len(one.path) for one in planned), default=0))
    varying = [level for level in levels if len({one.path[level] for one in planned}) > 1]
    if len(planned) <= together or not varying:
        return [list(planned)] if planned else []
    parts: dict[str, list[PlannedTrial]] = {}
    for one in planned:
        parts.setdefault(one.path[varying[0]], []).append(one)
    largest = max(map(len, parts.values()))
    if len(varying) > 1 and largest > 1:
        return [group for part in parts.values() for group in grouped(part, together)]
    count = math.ceil(len(parts) / max(1, together // largest))
    units = list(parts.values())
    bounds = [round(n * len(units) / count) for n in range(count + 1)]
    return [list(itertools.chain(*units[a:b])) for a, b in itertools.pairwise(bounds)]


def in_random_order(groups: Sequence[list[PlannedTrial]], seed: int) -> list[list[PlannedTrial]]:
    """Groups and the cells of each in an order by chance, the same for the same seed.

    Of trials that differ in their batch alone, the smaller ones come first: one that does not fit
    into memory then keeps all larger ones from being tried.
    """
    chance = random.Random(seed)
    mixed = [chance.sample(group, len(group)) for group in groups]
    chance.shuffle(mixed)
    return [_next(mixed) for _ in groups]


def _next(waiting: list[list[PlannedTrial]]) -> list[PlannedTrial]:
    """Take the first group of which no cell waits for a smaller batch of its own."""
    smallest = _smallest(itertools.chain(*waiting))
    for number, group in enumerate(waiting):
        if all(smallest[name] == least for name, least in _smallest(group).items()):
            return waiting.pop(number)
    return waiting.pop(0)


def _smallest(planned: Iterable[PlannedTrial]) -> dict[str, int]:
    """The smallest batch of each trial that differs in its batch alone."""
    found: dict[str, int] = {}
    for one in planned:
        found[one.kin] = min(found.get(one.kin, one.trial.batch), one.trial.batch)
    return found

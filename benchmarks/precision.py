"""How precise and how honest convdyno's numbers are on this very machine, by real repetitions.

    python benchmarks/precision.py --minutes 60 --out precision/
    python benchmarks/precision.py --out precision/ --table        # what is known so far

Whole experiments of known truth, again and again: a cell against itself; one side slower by an
exact share, which a busy wait adds to each of its blocks; all that on an idle machine, and beside
other programs. Each experiment is one line of `experiments.jsonl`; a run that was stopped goes on,
case by case, with whatever has been repeated least.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from convdyno import __version__
from convdyno.app import BenchRequest, bench
from convdyno.launch.local import Here
from convdyno.launch.transport import WORKER
from convdyno.machine import facts
from convdyno.report.gate import Terms, examine
from convdyno.stage.gate import GateStage, Side
from convdyno.stage.progress import SILENCE
from convdyno.stats.plan import Goal
from convdyno.store.folder import Store
from convdyno.store.record import Record
from convdyno.trial.spec import make_trial

BESIDE = Path(__file__).parent
NO_END = 1e-6
"""A half width that is never reached: the whole budget is used."""


@dataclass(frozen=True)
class Case:
    """One kind of experiment, how often it is wanted, and what should come out."""

    name: str
    title: str
    seconds: float
    wanted: int
    network: str = "deepmnist"
    precision: str = "fp32"
    batch: int = 50
    slower: float = 0.0
    """By what share the candidate is slower."""
    neighbours: str = ""
    engines: str = "torch"
    compile: str = "auto"
    half: float | None = None
    """The median half width that is aimed at."""
    found: float | None = None
    """The share of experiments that should find the difference."""
    rounds: int | None = None
    """The fewest rounds of any experiment."""

    @property
    def truth(self) -> float | None:
        """The ratio of the candidate's rate to the base's, where it is known."""
        return 1 / (1 + self.slower) if self.engines == "torch" and self.compile == "auto" else None


RESNET = {"network": "resnet50-v1.5", "precision": "bf16", "batch": 8}
CASES = (
    Case("same", "deepmnist against itself, idle", 60, 40, half=0.02),
    Case("slower-5", "one side slower by 5 %, idle", 60, 20, slower=0.05, found=0.9),
    Case("slower-3", "one side slower by 3 %, idle", 180, 20, slower=0.03, found=0.9),
    Case("bursts", "itself, beside bursts on one core", 60, 40, neighbours="bursts", half=0.03),
    Case(
        "programs", "itself, beside three programs", 60, 40, neighbours="programs", half=0.05,
        rounds=4,
    ),
    Case("resnet", "resnet50-v1.5, bf16, against itself, idle", 180, 40, **RESNET, half=0.02),
    Case(
        "engines", "torch against TensorFlow, resnet50-v1.5, bf16", 200, 5, **RESNET,
        engines="torch,tensorflow", half=0.025,
    ),
    Case(
        "compile", "torch --compile off,on, resnet50-v1.5, bf16", 150, 3, **RESNET,
        compile="off,on", rounds=3,
    ),
)  # fmt: skip


def experiment(case: Case, out: Path) -> dict[str, Any]:
    """Run one experiment, and say what came of it."""
    begin = time.monotonic()
    with beside(case.neighbours):
        records, found = (
            gated(case, out / case.name) if case.truth else benched(case, out / case.name)
        )
    seconds = time.monotonic() - begin
    timed = sum(b.seconds for r in records for p in r.processes for b in p.blocks)
    blocks = [b for r in records for p in r.processes for b in p.blocks]
    return {
        "case": case.name,
        "convdyno": __version__,
        "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "ratio": found.ratio,
        "low": found.low,
        "high": found.high,
        "rounds": found.rounds,
        "seconds": seconds,
        "timed_share": timed / seconds,
        "contaminated": sum(b.contaminated for b in blocks) / max(1, len(blocks)),
        "borrowed": max(
            (r.borrowed["ratio"].freedom for r in records if "ratio" in r.borrowed), default=0.0
        ),
    }


def gated(case: Case, out: Path) -> tuple[list[Record], Any]:
    """A candidate against its base, for as long as the budget is."""
    store = Store(out)
    store.prepare()
    stage = GateStage(
        store=store, narrator=SILENCE, machine=facts.machine(), command="", goal=Goal(NO_END),
        silence_seconds=300, rank_seconds=20, steps=1,
    )  # fmt: skip
    trial = make_trial(
        network=case.network, engine="torch", precision=case.precision, batch=case.batch
    )
    slowed = (sys.executable, str(BESIDE / "slowed_worker.py"), str(case.slower))
    there = Here(slowed if case.slower else WORKER)
    sides = (
        Side("base", trial, Here(), __version__),
        Side("candidate", trial, there, __version__),
    )
    base, candidate = stage.in_turns(*sides, case.seconds)
    for side in sides:
        side.there.close()
    return [base, candidate], examine(base, candidate, Terms(0.03), in_turns=True, floor=None).ratio


def benched(case: Case, out: Path) -> tuple[list[Record], Any]:
    """Two cells of a benchmark."""
    found = bench(
        BenchRequest(
            network=case.network,
            axes={
                "engine": case.engines, "precision": case.precision, "batch": str(case.batch),
                "compile": case.compile,
            },
            within="0.01%",
            budget=case.seconds,
            out=out,
        )
    )  # fmt: skip
    return found.records, found.compared[0][2]


@contextmanager
def beside(neighbours: str) -> Iterator[None]:
    """Other programs for a while."""
    if not neighbours:
        yield
        return
    seed = str(time.time_ns() % 10**6)
    process = subprocess.Popen([sys.executable, BESIDE / "neighbours.py", neighbours, seed])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def read(file: Path) -> list[dict[str, Any]]:
    """All experiments so far."""
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def next_case(done: list[dict[str, Any]], names: list[str]) -> Case | None:
    """The case that lacks most of what is wanted of it; None when nothing is missing."""
    cases = [case for case in CASES if case.name in names]
    share = {c.name: sum(one["case"] == c.name for one in done) / c.wanted for c in cases}
    case = min(cases, key=lambda c: share[c.name])
    return case if share[case.name] < 1 else None


def table(done: list[dict[str, Any]]) -> str:
    """What is known so far, as Markdown."""
    lines = [
        "| case | budget | experiments | rounds | half width, median (aim) | held the truth | "
        "called different (aim) | timed |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for case in CASES:
        mine = [one for one in done if one["case"] == case.name and one["high"] is not None]
        if mine:
            lines.append(_row(case, mine))
    return "\n".join(lines)


def _row(case: Case, mine: list[dict[str, Any]]) -> str:
    half = statistics.median(math.sqrt(one["high"] / one["low"]) - 1 for one in mine)
    rounds = [one["rounds"] for one in mine]
    aim = f" ({100 * case.half:g} %)" if case.half else ""
    held = "-"
    if case.truth:
        held = f"{sum(one['low'] <= case.truth <= one['high'] for one in mine)} of {len(mine)}"
    found = sum(not one["low"] <= 1 <= one["high"] for one in mine)
    wanted = f" ({100 * case.found:g} %)" if case.found else ""
    timed = statistics.median(one["timed_share"] for one in mine)
    return (
        f"| {case.title} | {case.seconds:g} s | {len(mine)} | {min(rounds)} to {max(rounds)} | "
        f"{100 * half:.1f} %{aim} | {held} | {found} of {len(mine)}{wanted} | {100 * timed:.0f} % |"
    )


def main() -> None:
    """Repeat experiments until the time is over, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--out", type=Path, default=Path("precision"))
    parser.add_argument("--cases", default=",".join(case.name for case in CASES))
    parser.add_argument("--table", action="store_true", help="only print what is known so far")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    file, end = given.out / "experiments.jsonl", time.monotonic() + 60 * given.minutes
    done = read(file)
    while not given.table:
        case = next_case(done, given.cases.split(","))
        if case is None or time.monotonic() + case.seconds > end:
            break
        done.append(experiment(case, given.out))
        with file.open("a") as lines:
            lines.write(json.dumps(done[-1]) + "\n")
        found = done[-1]
        print(
            f"{case.name}: {found['ratio']:.3f} [{found['low']:.3f}, {found['high']:.3f}], "
            f"{found['rounds']} rounds, {100 * found['timed_share']:.0f} % timed",
            flush=True,
        )
    print(table(done))


if __name__ == "__main__":
    main()

"""A measured cell: the figures of one record, derived once.

It holds all that any view says of a record, and few enough bytes that a report can hold ten
thousand; the record itself can be let go.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from convdyno.machine.kinds import kind
from convdyno.report.format import noun
from convdyno.stats.borrowing import Borrowed
from convdyno.stats.compare import PairedRounds, Unpaired
from convdyno.stats.rounds import Round
from convdyno.stats.rounds_of_record import borrowed_for, in_step, numbered_ranks, rounds_of
from convdyno.stats.summary import (
    ONE_BLOCK,
    ONE_PROCESS,
    Interval,
    Latency,
    Legacy,
    interval,
    latency,
    legacy,
)
from convdyno.store.record import Energy, NetworkFacts, Record, Status
from convdyno.trial.spec import Trial
from convdyno.trial.words import bench_command

TRAINING_FORWARDS = 3
"""A training step counts as three forward passes: one forward, two backward."""
UNKNOWN = "a machine that is not known"
TAKEN = ("created", "status", "reason", "run", "role", "looks")
"""What a cell has just as its record has it."""
REPEATED = ("trial", "network", "command", "convdyno", "versions", "labels", "energy")
"""The same, of what is equal in many records."""
T = TypeVar("T")
K = TypeVar("K", bound=Hashable)
Place = tuple[str, str, str]
"""A network, a mode, a machine."""


@dataclass(frozen=True, slots=True, eq=False)
class RankRounds:
    """One rank of a group of workers: where it was, and its own times."""

    rank: int
    host: str
    device: str
    rounds: Mapping[int, Round]


@dataclass(frozen=True, slots=True, eq=False)
class Cell:
    """One record: what was run and where, how it ended, and its figures."""

    file: Path | None
    """None where it was not read from a folder."""
    id: str
    created: str
    status: Status
    reason: str | None
    trial: Trial
    network: NetworkFacts | None
    """The network's counts; None when it was never loaded."""
    host: str | None
    machine_kind: str
    """What decides speed: processor, cores, GPUs."""
    machine: str
    """The host and its kind, by which machines are told apart; of several hosts, all of them."""
    job: Mapping[str, Any]
    """What Slurm has allocated."""
    run: str
    """Cells of one run were measured in turns."""
    role: str
    """What it was measured for, if not for itself."""
    command: str
    """What the run was started with."""
    convdyno: str
    settings: Mapping[str, Any]
    """What `auto` became."""
    versions: Mapping[str, str]
    labels: Mapping[str, str]
    looks: int
    headline: Interval | None
    """None when nothing was measured."""
    measured: Mapping[int, Round]
    """The measured rounds by their number."""
    ranks: tuple[RankRounds, ...]
    """Of several devices, where the times of all are known."""
    contaminated: int
    """Blocks that were disturbed by others."""
    import_seconds: float | None
    """Importing the framework, in the first process."""
    build_seconds: float | None
    """Building and loading the network, in the first process."""
    first_step_seconds: float | None
    """The first step, compilation included, in the first process."""
    memory_bytes: int | None
    """The largest peak of device memory, or of the process where the device has none."""
    peaks: Mapping[str, float]
    """The best rate seen of each kind of pure work."""
    wait_share: float | None
    """The share of the measured time in which steps waited for data; None without real data."""
    energy: Energy | None
    joules: float | None
    """What was used while the blocks that count ran; None where nothing was counted."""
    images_per_joule: float | None
    """Images of the blocks whose joules were counted, over these."""
    latency: Latency | None
    """Quantiles of single steps, when they were timed one by one."""
    ratio_known: Borrowed
    """What was known beforehand of how much its ratios to others vary."""
    older: Callable[[], Legacy]
    """Derives the older tools' figures, once; few views ask for them."""
    warnings: tuple[str, ...]
    """What to mind about the figures, each with what to do."""

    @property
    def legacy(self) -> Legacy:
        """The older tools' figures: over single steps where these were timed, else over blocks."""
        return self.older()

    @property
    def images_per_second(self) -> float | None:
        """All images divided by all measured seconds."""
        return self.headline.estimate if self.headline else None

    @property
    def low(self) -> float | None:
        """The lower end of the interval."""
        return self.headline.low if self.headline else None

    @property
    def high(self) -> float | None:
        """The upper end of the interval."""
        return self.headline.high if self.headline else None

    @property
    def rounds(self) -> int:
        """How many processes were measured."""
        return self.headline.rounds if self.headline else 0

    @property
    def blocks(self) -> int:
        """How many blocks there are in all."""
        return sum(len(taken.seconds) for taken in self.measured.values())

    @property
    def one_process(self) -> bool:
        """Whether the interval does not know how much processes differ."""
        return self.headline is not None and self.headline.basis in (ONE_PROCESS, ONE_BLOCK)

    @property
    def disturbed(self) -> bool:
        """Whether every round was measured beside other work."""
        return self.headline is not None and self.headline.dirty_rounds == self.headline.rounds

    @property
    def run_name(self) -> str:
        """What the cells of one run have in common; earlier versions gave it no name."""
        return self.run or f"{self.created[:19]} {self.host} {self.command}"

    @property
    def repeated_by(self) -> str:
        """The command that measures it again; where a place is part of it, its run's own."""
        trial = self.trial
        if self.command and (trial.hosts > 1 or trial.slurm or trial.staged):
            return self.command
        return bench_command(trial, ladder=trial.rung != "source")

    @property
    def step_seconds(self) -> float | None:
        """The mean time of a step."""
        return self.trial.global_batch / self.images_per_second if self.images_per_second else None

    @property
    def compile_seconds(self) -> float | None:
        """What the first step took beyond an ordinary one: compiling, choosing, allocating."""
        if self.first_step_seconds is None or self.step_seconds is None:
            return None
        return max(0.0, self.first_step_seconds - self.step_seconds)

    @property
    def flops(self) -> float | None:
        """Floating-point operations per second that the network's mathematics needed."""
        if self.images_per_second is None or self.network is None:
            return None
        passes = TRAINING_FORWARDS if self.trial.mode == "train" else 1
        return passes * 2 * self.network.macs * self.images_per_second

    @property
    def peak_flops(self) -> float | None:
        """The most that pure work was seen to reach in the same process."""
        return max((self.peaks[kind] for kind in ("matmul", "conv") if kind in self.peaks),
            default=None)  # fmt: skip

    @property
    def share_of_peak(self) -> float | None:
        """`flops` as a share of `peak_flops` (model FLOP utilisation)."""
        return self.flops / self.peak_flops if self.flops and self.peak_flops else None

    @property
    def on_cpu(self) -> bool:
        """Whether it ran on processors alone."""
        return bool(self.settings.get("device", "cpu") == "cpu")

    def used(self, name: str) -> Any:
        """What a setting became; what was asked for where that is not known."""
        return self.settings.get(name, getattr(self.trial, name))

    def took_turns(self, other: Cell) -> bool:
        """Whether both were measured in one run, so that their rounds are pairs."""
        return self.run_name == other.run_name

    def beside(self, other: Cell, in_turns: bool | None = None) -> PairedRounds | Unpaired:
        """Both as they may be compared: round by round only where they took turns."""
        if self.took_turns(other) if in_turns is None else in_turns:
            one, another = in_step([self.measured, other.measured])
            return PairedRounds(one, another, self.ratio_known)
        return Unpaired(list(self.measured.values()), list(other.measured.values()))


class Shared(dict[Any, Any]):
    """One object for all that are equal: machines, versions and settings repeat."""

    def one(self, value: T) -> T:
        """The first that was equal to this; of a dict, the first that is written the same."""
        key = repr(value) if isinstance(value, dict) else value
        found: T = self.setdefault((type(value), key), value)
        return found


def cell_of(record: Record, file: Path | None = None, shared: Shared | None = None) -> Cell:
    """The figures of a record; what is equal in many is kept once."""
    same = Shared() if shared is None else shared
    processes, rounds = record.measured, rounds_of(record)
    rate_known = borrowed_for(record, "rate")
    found = interval(rounds, looks=record.looks, borrowed=rate_known) if rounds else None
    contaminated = sum(int(np.count_nonzero(taken.contaminated)) for taken in rounds)
    clean = [b for one in processes for b in (one.clean if contaminated else one.blocks)]
    images = record.trial.global_batch
    steps = [seconds for block in clean for seconds in block.step_seconds or ()]
    seconds, counts = steps, [1] * len(steps)
    if not record.trial.latency:
        seconds, counts = [block.seconds for block in clean], [block.steps for block in clean]
    waits = [block.wait_seconds for block in clean if block.wait_seconds is not None]
    counted = [block for block in clean if block.joules is not None]
    joules = sum(block.joules or 0.0 for block in counted) if counted else None
    memory = (one.device_memory_bytes or one.peak_memory_bytes for one in record.processes)
    # Later processes are opened several at once, and take over what the first has compiled.
    opened_alone = record.processes if record.schema_version == 1 else record.processes[:1]
    machine = same.one(kind(record.machine))
    cautions = _cautions(record, found, contaminated)
    return Cell(
        **{name: getattr(record, name) for name in TAKEN},
        **{name: same.one(getattr(record, name)) for name in REPEATED},
        file=file,
        id=record.id,
        host=record.machine.get("host"),
        machine_kind=machine,
        machine=same.one(_place(record, machine)),
        job=same.one(record.machine.get("slurm") or {}),
        settings=same.one(record.settings or {}),
        headline=found,
        measured=dict(zip((process.round for process in processes), rounds, strict=True)),
        ranks=_ranks(record) if record.trial.devices > 1 else (),
        contaminated=contaminated,
        import_seconds=_mean(process.import_seconds for process in opened_alone),
        build_seconds=_mean(process.build_seconds for process in opened_alone),
        first_step_seconds=_mean(process.first_step_seconds for process in opened_alone),
        memory_bytes=max(filter(None, memory), default=None),
        peaks=record.peaks,
        wait_share=sum(waits) / sum(block.seconds for block in clean) if waits else None,
        joules=joules,
        images_per_joule=images * sum(b.steps for b in counted) / joules if joules else None,
        latency=latency(steps) if steps else None,
        ratio_known=borrowed_for(record, "ratio"),
        older=cache(partial(legacy, np.array(seconds), np.array(counts), images)),
        warnings=tuple(same.one(text) for text in (*record.warnings, *cautions)),
    )


def _place(record: Record, machine: str) -> str:
    hosts = {rank.host for process in record.processes for rank in process.ranks}
    if record.trial.hosts == 1 or not hosts:
        hosts = {str(record.machine.get("host") or "")}
    name = ", ".join(sorted(hosts - {""}))
    return f"{name}: {machine}" if name else UNKNOWN


def _ranks(record: Record) -> tuple[RankRounds, ...]:
    hosts: dict[int, dict[str, None]] = {}
    devices: dict[int, dict[str, None]] = {}
    for rank in (rank for process in record.measured for rank in process.ranks):
        hosts.setdefault(rank.rank, {})[rank.host] = None
        devices.setdefault(rank.rank, {})[rank.device] = None
    return tuple(
        RankRounds(rank, " and ".join(hosts[rank]), " and ".join(devices[rank]), rounds)
        for rank, rounds in sorted(numbered_ranks(record).items())
    )


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def place_of(cell: Cell) -> Place:
    """What one chart or table of ratios can be about."""
    return cell.trial.network, cell.trial.mode, cell.machine


def grouped(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """Items by what each of them has as its key, in their order."""
    found: dict[K, list[T]] = {}
    for item in items:
        found.setdefault(key(item), []).append(item)
    return found


def warnings_of(cells: Iterable[Cell]) -> dict[str, list[Cell]]:
    """What to mind, and of which cells."""
    found: dict[str, list[Cell]] = {}
    for cell in cells:
        for text in cell.warnings:
            found.setdefault(text, []).append(cell)
    return found


def _cautions(record: Record, found: Interval | None, contaminated: int) -> list[str]:
    """What the figures themselves give reason to say."""
    measured, told = record.measured, []
    if found is not None and found.basis in (ONE_PROCESS, ONE_BLOCK):
        told.append(
            "only one process was measured, so the interval does not know how much processes "
            "differ: give a longer --budget"
        )
    unsteady = sum(process.steady is False for process in measured)
    if unsteady:
        told.append(
            f"{noun(unsteady, 'process', 'processes')} of {len(measured)} had not become steady "
            "when the warm-up's time was over: give a longer --budget"
        )
    if contaminated:
        blocks = sum(len(process.blocks) for process in measured)
        dirty = found.dirty_rounds if found else 0
        used = ", and used where there were too few others" if dirty else ", and left out"
        if dirty == len(measured):
            used = ", in every round, so the speed without it is not known"
        told.append(
            f"{contaminated} of {blocks} blocks were disturbed by other work{used}: "
            "end other programs, or see `convdyno doctor`"
        )
    if any(process.recompilations for process in measured):
        told.append(
            "the framework compiled something again while it was measured, so the speed includes "
            "that: give a longer --budget, or --compile off"
        )
    if any(process.sitting for process in measured) and not record.trial.has_ranks:
        told.append(
            "memory did not hold all cells at once, so this one was measured after, not between, "
            "the others: use fewer cells or smaller batches"
        )
    return told

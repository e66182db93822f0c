"""A record as one row of figures: everything that is printed is derived here, once."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from convdyno.report.words import noun, percent, quantity, rate, span
from convdyno.results.record import Block, Energy, NetworkFacts, Record, Status
from convdyno.stats.rounds_of_record import rounds_of
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
from convdyno.trial.spec import Trial

TRAINING_FORWARDS = 3
"""A training step counts as three forward passes: one forward, two backward."""


@dataclass(frozen=True)
class Row:
    """The figures of one record."""

    record: Record
    headline: Interval | None
    """None when nothing was measured."""

    @property
    def id(self) -> str:
        """The record's id."""
        return self.record.id

    @property
    def trial(self) -> Trial:
        """What was run."""
        return self.record.trial

    @property
    def network(self) -> NetworkFacts | None:
        """The network's counts; None when it was never loaded."""
        return self.record.network

    @property
    def status(self) -> Status:
        """How it ended."""
        return self.record.status

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
        return len(self.record.measured)

    @property
    def step_seconds(self) -> float | None:
        """The mean time of a step."""
        return self.trial.global_batch / self.images_per_second if self.images_per_second else None

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
        peaks = self.record.peaks
        return max((peaks[kind] for kind in ("matmul", "conv") if kind in peaks), default=None)

    @property
    def share_of_peak(self) -> float | None:
        """`flops` as a share of `peak_flops` (model FLOP utilisation)."""
        return self.flops / self.peak_flops if self.flops and self.peak_flops else None

    @property
    def memory_bytes(self) -> int | None:
        """The largest peak of device memory, or of the process where the device has none."""
        peaks = [p.device_memory_bytes or p.peak_memory_bytes for p in self.record.processes]
        return max((peak for peak in peaks if peak), default=None)

    @property
    def first_step_seconds(self) -> float | None:
        """The first step, compilation included, on average over processes."""
        return self._mean("first_step_seconds")

    @property
    def compile_seconds(self) -> float | None:
        """What the first step took beyond an ordinary one: compiling, choosing, allocating."""
        if self.first_step_seconds is None or self.step_seconds is None:
            return None
        return max(0.0, self.first_step_seconds - self.step_seconds)

    @property
    def import_seconds(self) -> float | None:
        """Importing the framework, on average over processes."""
        return self._mean("import_seconds")

    @property
    def build_seconds(self) -> float | None:
        """Building and loading the network, on average over processes."""
        return self._mean("build_seconds")

    @property
    def legacy(self) -> Legacy:
        """The older tools' figures, over the same blocks as the headline."""
        blocks = self._clean
        if self.trial.latency:
            steps = [s for block in blocks for s in block.step_seconds or ()]
            return legacy(steps, [1] * len(steps), self.trial.global_batch)
        return legacy(
            [b.seconds for b in blocks], [b.steps for b in blocks], self.trial.global_batch
        )

    @cached_property
    def latency(self) -> Latency | None:
        """Quantiles of single steps, when they were timed one by one."""
        steps = [s for block in self._clean for s in block.step_seconds or ()]
        return latency(steps) if steps else None

    @property
    def wait_share(self) -> float | None:
        """The share of the measured time in which steps waited for data; None without real data."""
        waits = [b.wait_seconds for b in self._clean if b.wait_seconds is not None]
        return sum(waits) / sum(block.seconds for block in self._clean) if waits else None

    @property
    def joules(self) -> float | None:
        """What was used while the blocks that count ran; None where nothing was counted."""
        return sum(b.joules or 0.0 for b in self._counted) if self._counted else None

    @property
    def images_per_joule(self) -> float | None:
        """Images of the blocks whose joules were counted, over these."""
        images = self.trial.global_batch * sum(block.steps for block in self._counted)
        return images / self.joules if self.joules else None

    @property
    def _counted(self) -> list[Block]:
        return [block for block in self._clean if block.joules is not None]

    @cached_property
    def _clean(self) -> list[Block]:
        """The blocks that count, of all processes."""
        return [block for process in self.record.measured for block in process.clean]

    @cached_property
    def contaminated(self) -> int:
        """How many blocks were disturbed by others."""
        return sum(block.contaminated for p in self.record.measured for block in p.blocks)

    @property
    def blocks(self) -> int:
        """How many blocks there are in all."""
        return sum(len(process.blocks) for process in self.record.measured)

    @property
    def warnings(self) -> list[str]:
        """What to mind about this row's figures, each with what to do."""
        return [*self.record.warnings, *_cautions(self)]

    def to_data(self) -> dict[str, Any]:
        """The row for machines, unrounded."""
        old = self.legacy
        return {
            "id": self.id,
            "created": self.record.created,
            "trial": self.trial.model_dump(mode="json"),
            "global_batch": self.trial.global_batch,
            "status": self.status,
            "reason": self.record.reason,
            "network_digest": self.network.digest if self.network else None,
            "parameters": self.network.parameters if self.network else None,
            "macs": self.network.macs if self.network else None,
            "images_per_second": self.images_per_second,
            "interval": [self.low, self.high],
            "interval_basis": self.headline.basis if self.headline else None,
            "rounds": self.rounds,
            "blocks": self.blocks,
            "contaminated_blocks": self.contaminated,
            "step_seconds": self.step_seconds,
            "import_seconds": self.import_seconds,
            "build_seconds": self.build_seconds,
            "first_step_seconds": self.first_step_seconds,
            "compile_seconds": self.compile_seconds,
            "flops": self.flops,
            "peak_flops": self.peak_flops,
            "share_of_peak": self.share_of_peak,
            "wait_share": self.wait_share,
            "loader_images_per_second": self.record.peaks.get("input"),
            "memory_bytes": self.memory_bytes,
            "joules": self.joules,
            "images_per_joule": self.images_per_joule,
            "energy": _energy_data(self.record.energy),
            "mean_time_per_step": old.mean_time_per_step,
            "mean_speed": old.mean_speed,
            "speed_uncertainty": old.speed_uncertainty,
            "speed_jitter": old.speed_jitter,
            "latency": asdict(self.latency) if self.latency else None,
            "warnings": self.warnings,
        }

    def _mean(self, name: str) -> float | None:
        values = [v for p in self.record.processes if (v := getattr(p, name)) is not None]
        return sum(values) / len(values) if values else None


def _energy_data(energy: Energy | None) -> dict[str, Any] | None:
    """Whether joules are measured or unavailable; None for records of those who did not look."""
    if energy is None:
        return None
    status = "unavailable" if energy.reason else "measured"
    return {"status": status, "counted": list(energy.counted), "reason": energy.reason}


def row(record: Record) -> Row:
    """The figures of a record."""
    rounds = rounds_of(record)
    return Row(record, interval(rounds, looks=record.looks) if rounds else None)


def _cautions(row: Row) -> list[str]:
    """What the figures themselves give reason to say."""
    found = []
    if row.headline is not None and row.headline.basis in (ONE_PROCESS, ONE_BLOCK):
        found.append(
            "only one process was measured, so the interval does not know how much processes "
            "differ: give a longer --budget"
        )
    unsteady = [p for p in row.record.measured if p.steady is False]
    if unsteady:
        found.append(
            f"{noun(len(unsteady), 'process', 'processes')} of {row.rounds} had not become steady "
            "when the warm-up's time was over: give a longer --budget"
        )
    if row.contaminated:
        dirty = row.headline.dirty_rounds if row.headline else 0
        used = " (some rounds had no other)" if dirty else ", measured again and left out"
        found.append(
            f"{row.contaminated} of {row.blocks} blocks were disturbed by other work{used}: "
            "end other programs, or see `convdyno doctor`"
        )
    if any(p.recompilations for p in row.record.measured):
        found.append("the framework compiled something again while it was measured")
    if any(p.sitting for p in row.record.measured) and not row.trial.crewed:
        found.append(
            "memory did not hold all cells at once, so this one was measured after, not between, "
            "the others: use fewer cells or smaller batches"
        )
    return found


def describe(row: Row) -> str:
    """A row's lesser figures in one line."""
    parts = [f"step {span(row.step_seconds)}"]
    old = row.legacy
    if old.speed_jitter is not None and row.images_per_second:
        parts.append(f"jitter {percent(old.speed_jitter / row.images_per_second)}")
    if (times := row.latency) is not None:
        shown = [(name, getattr(times, f"{name}_seconds")) for name in ("p50", "p90", "p99")]
        parts.append(", ".join(f"{name} {span(value)}" for name, value in shown if value))
    if row.import_seconds is not None and row.build_seconds is not None:
        parts.append(f"import {span(row.import_seconds)}, build {span(row.build_seconds)}")
    if row.compile_seconds is not None:
        parts.append(f"first step {span(row.compile_seconds)} longer than a step")
    if row.share_of_peak is not None:
        parts.append(
            f"{percent(row.share_of_peak)} of the {quantity(row.peak_flops or 0, 'FLOP/s')} "
            f"({row.trial.precision}) measured here"
        )
    if row.wait_share is not None:
        parts.append(f"{percent(row.wait_share)} of the time waiting for data")
    if row.memory_bytes:
        largest = " in the largest rank" if row.trial.devices > 1 else ""
        parts.append(f"{quantity(row.memory_bytes, 'B')} of memory{largest}")
    parts += _energy_words(row)
    parts.append(f"{noun(row.rounds, 'round')}, {noun(row.blocks, 'block')}")
    return ", ".join(parts)


def _energy_words(row: Row) -> list[str]:
    energy = row.record.energy
    if energy is None:
        return []
    if energy.reason:
        return [f"energy unavailable ({energy.reason.partition(':')[0]})"]
    if row.joules is None or row.images_per_joule is None:
        return []
    return [
        f"{rate(row.images_per_joule)} images/J ({quantity(row.joules, 'J')} by "
        f"{', '.join(energy.counted)})"
    ]

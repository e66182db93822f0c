"""The outcome of a search for the fastest settings, from rounds that came after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from convdyno import __version__
from convdyno.report.bench_json import in_folder
from convdyno.report.cell import Cell, cell_of
from convdyno.report.columns import cell_data, cell_words
from convdyno.report.comparisons import comparison_data
from convdyno.report.console import Screen
from convdyno.report.format import around, clock, noun, ratio, said, written
from convdyno.stats.compare import Comparison, compare
from convdyno.stats.rounds_of_record import paired
from convdyno.store.preset import Gain, Preset, Settings
from convdyno.store.record import Record
from convdyno.trial.spec import Trial

FORMAT = 1
SHOWN = ("images_per_second", "between", "rounds", "batch", "status")
"""What is shown of both sides."""
CURSE = (
    "the figures are from rounds after the search, because what was fastest in a search was partly "
    "lucky in it"
)
BATCH = (
    "the batch was searched for throughput: another batch is another training, "
    "give --batch N to hold it"
)


@dataclass(frozen=True)
class Effect:
    """What one setting brings: the winner against itself with another value."""

    factor: str
    ours: Any
    theirs: Any
    found: Comparison

    def line(self, default: Trial) -> dict[str, str]:
        """The effect as a row of a table."""
        chosen = self.ours != getattr(default, self.factor)
        return {
            "setting": self.factor.replace("_", " "),
            "chosen": written(self.ours),
            "instead of": written(self.theirs) + ("" if chosen else " (tried)"),
            "times the images/s": _times(self.found),
            "": _matters(self.found),
        }

    def to_data(self) -> dict[str, Any]:
        """The effect for machines, unrounded."""
        return {
            "factor": self.factor,
            "chosen": self.ours,
            "instead_of": self.theirs,
            **comparison_data(self.found),
        }


@dataclass(frozen=True)
class Tuning:
    """The winner, the default, and what each setting brings."""

    default: Cell
    winner: Cell
    gain: Comparison | None
    """Of the winner over the default; None where they are the same."""
    effects: tuple[Effect, ...]
    tried: tuple[Record, ...]
    search_seconds: float
    final_seconds: float

    @property
    def faster(self) -> bool:
        """Whether the winner was shown to be faster than the default settings."""
        return self.gain is not None and self.gain.verdict == "faster"

    @property
    def best(self) -> Trial:
        """The settings to use: the winner's only if they were shown to be faster."""
        return (self.winner if self.faster else self.default).trial

    @property
    def sentence(self) -> str:
        """The outcome of the search in words."""
        if self.gain is None:
            return "nothing that was tried is faster than the default settings"
        changed = _changes(self.winner.trial, self.default.trial)
        told = f"{changed}: {_times(self.gain)} times the images/s of the default settings"
        if self.faster:
            return told
        return f"{told}, which is not shown to be faster, so the default settings stay"

    def show(self, screen: Screen, kept: Path, name: str) -> None:
        """The outcome on the screen."""
        screen.line(self.default.trial.label, style="bold")
        failed = [record for record in self.tried if not record.measured]
        screen.line(
            f"{noun(len(self.tried), 'setting')} tried in {clock(self.search_seconds)}, "
            f"then {clock(self.final_seconds)} of fresh rounds"
        )
        screen.line(CURSE)
        for record in failed:
            screen.line(f"{_changes(record.trial, self.default.trial)}: {record.reason}")
        screen.line()
        sides = {"default": self.default, "winner": self.winner}
        screen.table([{"": name} | cell_words(cell, SHOWN) for name, cell in sides.items()])
        if self.effects:
            screen.line()
            screen.table([effect.line(self.default.trial) for effect in self.effects])
        if any(effect.factor == "batch" for effect in self.effects):
            screen.line(BATCH)
        for warning in dict.fromkeys([*self.default.warnings, *self.winner.warnings]):
            screen.line(f"mind: {warning}", style="yellow")
        screen.line()
        screen.line(self.sentence, style="bold green" if self.faster else "bold yellow")
        screen.line(f"kept as {kept}: convdyno bench --preset {name}")

    def to_data(self, folder: Path, preset: Preset, kept: Path) -> dict[str, Any]:
        """What `convdyno tune --json` prints; `docs/schemas/tune.json` describes it."""
        return {
            "format": FORMAT,
            "convdyno": __version__,
            "sentence": self.sentence,
            "faster": self.faster,
            "default": cell_data(self.default) | in_folder(folder, self.default.id),
            "winner": cell_data(self.winner) | in_folder(folder, self.winner.id),
            "gain": comparison_data(self.gain) if self.gain else None,
            "effects": [effect.to_data() for effect in self.effects],
            "tried": [_tried(record, self.default.trial) for record in self.tried],
            "search_seconds": self.search_seconds,
            "final_seconds": self.final_seconds,
            "preset": {"name": preset.name, "file": str(kept)},
        }

    def preset(self, name: str, host: str, machine: str) -> Preset:
        """The settings to use, under a name."""
        trial, winner = self.best, self.winner
        gain = None
        if self.faster and self.gain is not None and self.gain.ratio is not None:
            assert self.gain.low is not None
            assert self.gain.high is not None
            gain = Gain(
                ratio=self.gain.ratio,
                low=self.gain.low,
                high=self.gain.high,
                rounds=self.gain.rounds,
            )
        return Preset(
            name=name,
            network=trial.network,
            engine=trial.engine,
            mode=trial.mode,
            precision=trial.precision,
            devices=trial.devices,
            created=winner.created,
            convdyno=__version__,
            command=winner.command,
            versions=dict(winner.versions),
            settings=Settings(
                batch=trial.batch,
                layout=trial.layout,
                compile=trial.compile,
                threads=trial.threads,
                bucket_mb=trial.bucket_mb,
            ),
            gain=gain,
            host=host,
            machine=machine,
        )


def tuning(
    default: Record,
    winner: Record,
    contrasts: Sequence[tuple[str, Any, Any, Record]],
    tried: Sequence[Record],
    seconds: tuple[float, float],
) -> Tuning:
    """What the rounds after a search say; all ratios are judged as one family."""
    looks = max(record.looks for record in (default, winner))
    same = winner.trial == default.trial
    others = [] if same else [default]
    others += [record for *_, record in contrasts]
    found = compare([paired(winner, other) for other in others], looks=looks)
    gain = None if same else found.pop(0)
    effects = tuple(
        Effect(name, ours, theirs, one)
        for (name, ours, theirs, _), one in zip(contrasts, found, strict=True)
    )
    return Tuning(cell_of(default), cell_of(winner), gain, effects, tuple(tried), *seconds)


def _tried(record: Record, default: Trial) -> dict[str, Any]:
    cell = cell_of(record)
    return {
        "changes": {name: getattr(cell.trial, name) for name in cell.trial.differs_in(default)},
        "status": cell.status,
        "reason": cell.reason,
        "turns": sum(len(set(taken.turns.tolist())) for taken in cell.measured.values()),
        "images_per_second": cell.images_per_second,
    }


def _changes(trial: Trial, default: Trial) -> str:
    return ", ".join(said(trial, name) for name in trial.differs_in(default)) or "-"


def _times(found: Comparison) -> str:
    return around(found.ratio, found.low, found.high, ratio)


def _matters(found: Comparison) -> str:
    return {
        "faster": "matters",
        "slower": "is slower",
        "equivalent": "makes no difference",
        "undecided": found.reason or "undecided",
    }[found.verdict]

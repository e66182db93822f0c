"""The outcome of a search for the fastest settings, from rounds that came after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from convdyno import __version__
from convdyno.report.bench_json import versioned
from convdyno.report.cell import Cell, cell_of
from convdyno.report.columns import cell_data, cell_words
from convdyno.report.comparisons import comparison_data
from convdyno.report.console import Screen
from convdyno.report.format import duration, noun, said, times, written
from convdyno.stats.compare import Comparison, compare
from convdyno.store.preset import Gain, Preset, Settings
from convdyno.store.record import Record
from convdyno.trial.spec import Trial

SHOWN = ("images_per_second", "between", "rounds", "batch", "standing")
"""What is shown of both sides."""
CURSE = (
    "the figures are from rounds after the search, because what was fastest in a search was partly "
    "lucky in it"
)
FOR = ("network", "engine", "mode", "precision", "devices")
"""What a preset is for."""
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
            "times the images/s": times(self.found),
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
    tried: tuple[Cell, ...]
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
        told = f"{changed}: {times(self.gain)} times the images/s of the default settings"
        if self.faster:
            return told
        return f"{told}, which is not shown to be faster, so the default settings stay"

    def show(self, screen: Screen, kept: Path, name: str) -> None:
        """The outcome on the screen."""
        screen.line(self.default.trial.label, style="bold")
        screen.line(
            f"{noun(len(self.tried), 'setting')} tried in {duration(self.search_seconds)}, "
            f"then {duration(self.final_seconds)} of fresh rounds"
        )
        screen.line(CURSE)
        for cell in self.tried:
            if not cell.measured:
                screen.line(f"{_changes(cell.trial, self.default.trial)}: {cell.reason}")
        screen.line()
        sides = {"default": self.default, "winner": self.winner}
        screen.table([{"": name} | cell_words(cell, SHOWN) for name, cell in sides.items()])
        if self.effects:
            screen.line()
            screen.table([effect.line(self.default.trial) for effect in self.effects])
        if any(effect.factor == "batch" for effect in self.effects):
            screen.line(BATCH)
        screen.minds([*self.default.warnings, *self.winner.warnings])
        screen.line()
        screen.line(self.sentence, style="bold green" if self.faster else "bold yellow")
        screen.line(f"kept as {kept}: convdyno bench --preset {name}")

    def to_data(self, folder: Path, preset: Preset, kept: Path) -> dict[str, Any]:
        """What `convdyno tune --json` prints; `docs/schemas/tune.json` describes it."""
        return versioned(
            sentence=self.sentence,
            faster=self.faster,
            default=cell_data(self.default, folder=folder),
            winner=cell_data(self.winner, folder=folder),
            gain=comparison_data(self.gain) if self.gain else None,
            effects=[effect.to_data() for effect in self.effects],
            tried=[_tried(cell, self.default.trial) for cell in self.tried],
            search_seconds=self.search_seconds,
            final_seconds=self.final_seconds,
            preset={"name": preset.name, "file": str(kept)},
        )

    def preset(self, name: str, host: str, machine: str) -> Preset:
        """The settings to use, under a name."""
        trial = self.best
        return Preset(
            **{field: getattr(trial, field) for field in FOR},
            name=name,
            created=self.winner.created,
            convdyno=__version__,
            command=self.winner.command,
            versions=dict(self.winner.versions),
            settings=Settings(**{field: getattr(trial, field) for field in Settings.model_fields}),
            gain=Gain.model_validate(self.gain, from_attributes=True) if self.faster else None,
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
    plain, best = cell_of(default), cell_of(winner)
    same = best.trial == plain.trial
    others = [] if same else [plain]
    others += [cell_of(record) for *_, record in contrasts]
    pairs = [best.beside(other, in_turns=True) for other in others]
    found = compare(pairs, looks=max(plain.looks, best.looks))
    gain = None if same else found.pop(0)
    effects = tuple(
        Effect(name, ours, theirs, one)
        for (name, ours, theirs, _), one in zip(contrasts, found, strict=True)
    )
    return Tuning(plain, best, gain, effects, tuple(map(cell_of, tried)), *seconds)


def _tried(cell: Cell, default: Trial) -> dict[str, Any]:
    return {
        "changes": {name: getattr(cell.trial, name) for name in cell.trial.differs_in(default)},
        "status": cell.status,
        "reason": cell.reason,
        "turns": sum(len(set(taken.turns.tolist())) for taken in cell.measured.values()),
        "images_per_second": cell.images_per_second,
    }


def _changes(trial: Trial, default: Trial) -> str:
    return ", ".join(said(trial, name) for name in trial.differs_in(default)) or "-"


def _matters(found: Comparison) -> str:
    return {
        "faster": "matters",
        "slower": "is slower",
        "equivalent": "makes no difference",
        "undecided": found.reason or "undecided",
    }[found.verdict]

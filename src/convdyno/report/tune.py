"""The outcome of a search for the fastest settings, from rounds that came after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from convdyno import __version__
from convdyno.report.console import Screen
from convdyno.report.rows import Row, row
from convdyno.report.words import clock, noun, rate
from convdyno.results.preset import Gain, Preset, Settings
from convdyno.results.record import Record
from convdyno.stats.compare import Comparison, compare
from convdyno.stats.rounds_of_record import paired
from convdyno.trial.spec import Trial

FORMAT = 1
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
        """For people."""
        chosen = self.ours != getattr(default, self.factor)
        return {
            "setting": self.factor.replace("_", " "),
            "chosen": _value(self.ours),
            "instead of": _value(self.theirs) + ("" if chosen else " (tried)"),
            "times the images/s": _ratio(self.found),
            "": _matters(self.found),
        }

    def to_data(self) -> dict[str, Any]:
        """For machines."""
        return {
            "factor": self.factor,
            "chosen": self.ours,
            "instead_of": self.theirs,
            **_comparison(self.found),
        }


@dataclass(frozen=True)
class Tuning:
    """The winner, the default, and what each setting brings."""

    default: Row
    winner: Row
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
        """What came out."""
        if self.gain is None:
            return "nothing that was tried is faster than the default settings"
        changed = ", ".join(
            f"{name.replace('_', ' ')} {_value(getattr(self.winner.trial, name))}"
            for name in self.winner.trial.differs_in(self.default.trial)
        )
        told = f"{changed}: {_ratio(self.gain)} times the images/s of the default settings"
        if self.faster:
            return told
        return f"{told}, which is not shown to be faster, so the default settings stay"

    def show(self, screen: Screen, kept: Path, name: str) -> None:
        """One screen."""
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
        screen.table([_headline("default", self.default), _headline("winner", self.winner)])
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
            "default": self.default.to_data() | _file(folder, self.default),
            "winner": self.winner.to_data() | _file(folder, self.winner),
            "gain": _comparison(self.gain) if self.gain else None,
            "effects": [effect.to_data() for effect in self.effects],
            "tried": [_tried(record, self.default.trial) for record in self.tried],
            "search_seconds": self.search_seconds,
            "final_seconds": self.final_seconds,
            "preset": {"name": preset.name, "file": str(kept)},
        }

    def preset(self, name: str, host: str, machine: str) -> Preset:
        """The settings to use, under a name."""
        trial, record = self.best, self.winner.record
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
            created=record.created,
            convdyno=__version__,
            command=record.command,
            versions=record.versions,
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
    return Tuning(row(default), row(winner), gain, effects, tuple(tried), *seconds)


def _headline(name: str, shown: Row) -> dict[str, Any]:
    return {
        "": name,
        "images/s": rate(shown.images_per_second),
        "95 % interval": "-" if shown.low is None else f"{rate(shown.low)} to {rate(shown.high)}",
        "rounds": shown.rounds,
        "batch": shown.trial.batch,
        "status": shown.status,
    }


def _tried(record: Record, default: Trial) -> dict[str, Any]:
    return {
        "changes": {name: getattr(record.trial, name) for name in record.trial.differs_in(default)},
        "status": record.status,
        "reason": record.reason,
        "turns": sum(len({b.turn for b in p.blocks}) for p in record.measured),
        "images_per_second": row(record).images_per_second,
    }


def _changes(trial: Trial, default: Trial) -> str:
    names = trial.differs_in(default)
    return ", ".join(f"{n.replace('_', ' ')} {_value(getattr(trial, n))}" for n in names) or "-"


def _file(folder: Path, shown: Row) -> dict[str, str]:
    return {"record": str(folder / f"{shown.id}.json")}


def _comparison(found: Comparison) -> dict[str, Any]:
    return {
        "ratio": found.ratio,
        "interval": [found.low, found.high],
        "level": found.level,
        "rounds": found.rounds,
        "verdict": found.verdict,
        "reason": found.reason,
    }


def _ratio(found: Comparison) -> str:
    if found.ratio is None:
        return "-"
    between = "" if found.low is None else f" [{found.low:.3f}, {found.high:.3f}]"
    return f"{found.ratio:.3f}{between}"


def _matters(found: Comparison) -> str:
    return {
        "faster": "matters",
        "slower": "is slower",
        "equivalent": "makes no difference",
        "undecided": found.reason or "undecided",
    }[found.verdict]


def _value(value: Any) -> str:
    return "auto" if value is None else f"{value:g}" if isinstance(value, float) else str(value)

"""Results for people: plain words on a terminal, plain text anywhere else."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from convdyno.report.columns import aligned
from convdyno.report.document import Compared, differing
from convdyno.report.ladders import Climbed
from convdyno.report.rows import Row, describe
from convdyno.report.scaling import Curve
from convdyno.report.words import UNPAIRED, gmac, noun, percent, quantity, ranges, rate, span
from convdyno.results.certificate import TOLERANCES, Certificate
from convdyno.results.record import Rank, Record
from convdyno.stats.compare import Comparison
from convdyno.stats.rounds_of_record import took_turns
from convdyno.terminal import commands, visible
from convdyno.trial.spec import Trial

MOST_COMPARISONS = 12
"""How many ratios the terminal shows; `--json` has all."""
RIGHT = (
    "images/s", "of peak", "first step", "memory", "parameters", "macs", "matmul", "convolution",
    "copy", "per host", "per device", "efficiency", "ideal",
)  # fmt: skip
"""Columns of figures that stand right."""
MANY = 200
"""So many rows are still fitted to the terminal."""
PLAIN_WIDTH = 160
"""Columns where there is no terminal to fit."""


class Screen:
    """Where results are printed."""

    def __init__(self, file: TextIO | None = None) -> None:
        out = commands(file or sys.stdout)
        self._console = Console(
            file=out, highlight=False, markup=False, width=None if out.isatty() else PLAIN_WIDTH
        )

    def line(self, text: str = "", style: str = "") -> None:
        """One line of text, printed as it is but for what cannot be seen."""
        self._console.print(Text(visible(text), style=style), soft_wrap=True)

    def table(self, rows: Sequence[dict[str, Any]], *, plain: bool = False) -> None:
        """Rows of one shape as a table; numbers stand right."""
        if not rows:
            self.line("(none)")
            return
        if plain or len(rows) > MANY:
            self._many(rows)
            return
        table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
        for name, value in rows[0].items():
            number = isinstance(value, int | float) and not isinstance(value, bool)
            right = number or name in RIGHT
            table.add_column(name, justify="right" if right else "left", overflow="fold")
        for row in rows:
            table.add_row(*(Text(visible(_cell(value))) for value in row.values()))
        self._console.print(table)

    def _many(self, rows: Sequence[dict[str, Any]]) -> None:
        """The same in plain columns, for more rows than a terminal shows at once."""
        lines = [[*rows[0]], *([visible(_cell(value)) for value in row.values()] for row in rows)]
        right = [place for place, name in enumerate(rows[0]) if name in RIGHT]
        self._console.file.write("\n".join(aligned(lines, right)) + "\n")

    def network(
        self, name: str, image: Sequence[int], classes: int, parameters: int, macs: int
    ) -> None:
        """One line that says what a network is."""
        self.line(
            f"{name}: {gmac(macs)} forward, {quantity(parameters)} parameters, "
            f"{_by(image)} -> {classes} classes",
            style="bold",
        )

    def bench(
        self,
        rows: Sequence[Row],
        compared: Sequence[Compared],
        ladders: Sequence[Climbed] = (),
        curves: Sequence[Curve] = (),
    ) -> None:
        """The outcome of a benchmark: what was run, how fast, what is faster, what to mind."""
        self._conditions(rows)
        self.table([_headline(row, rows) for row in rows])
        measured = [row for row in rows if row.headline is not None]
        if measured:
            self.line()
        for row in measured:
            self.line(f"{_name(row, rows)}: {describe(row)}")
        if compared:
            self.line()
        apart = [
            found.ratio is not None and not took_turns(rows[a].record, rows[b].record)
            for a, b, found in compared
        ]
        for (a, b, found), unpaired in zip(compared[:MOST_COMPARISONS], apart, strict=False):
            told = sentence(rows[a].trial, rows[b].trial, found)
            self.line(f"{told} (unpaired)" if unpaired else told)
        if len(compared) > MOST_COMPARISONS:
            self.line(f"({len(compared) - MOST_COMPARISONS} more comparisons with --json)")
        if any(apart):
            self.line(f"unpaired: {UNPAIRED}")
        for a, b, found in compared:
            if price := price_of_keras(rows[a].trial, rows[b].trial, found):
                self.line(price)
        if compared:
            self._differences(measured, rows)
        for ladder in ladders:
            self.line()
            for text in ladder.lines():
                self.line(text)
        for curve in curves:
            self._curve(curve, curves)
        self._problems(rows)

    def certificate(self, certificate: Certificate) -> None:
        """Whether engines compute the same network, and how far they are from the reference."""
        self.line(f"{certificate.network} ({certificate.form})", style="bold")
        self.table(
            [
                {
                    "engine": f"{proof.engine} {proof.version}",
                    **{f.kind: f"{f.distance:.1e}" for f in proof.findings},
                    "": "the same" if proof.passed else "NOT the same",
                }
                for proof in certificate.engines
                if proof.findings
            ]
        )
        for proof in certificate.engines:
            if not proof.passed:
                self.line(f"{proof.engine}: {proof.reason}", style="red")
        limits = ", ".join(f"{kind} {limit:g}" for kind, limit in TOLERANCES.items())
        self.line(f"distance from the float64 reference; at most: {limits}")
        self.line(f"certificate {certificate.hash[:12]}")

    def evaluation(self, file: str, trial: Trial, found: dict[str, Any]) -> None:
        """What a checkpoint got right."""
        self.line(f"{file}: {trial.network} after {noun(found['step'], 'step')}", style="bold")
        average = ", moving average of the weights" if found["averaged"] else ""
        self.line(f"{trial.engine}, {trial.precision}, {trial.data}, all test images{average}")
        for kind in ("top1", "top5"):
            low, high = found[f"{kind}_interval"]
            self.line(
                f"top-{kind[-1]}  {100 * found[kind]:.2f} % [{100 * low:.2f}, {100 * high:.2f}]  "
                f"({found[f'{kind}_images']} of {found['images']})"
            )
        self.line(f"loss   {found['loss']:.4f}")
        if "classes" in found:
            self.table([one | {"top1": percent(one["top1"])} for one in found["classes"]])
            names = [one["name"] for one in found["classes"]]
            pairs = [
                (count, names[i], names[j])
                for i, counts in enumerate(found["confusion"])
                for j, count in enumerate(counts)
                if i != j and count
            ]
            for count, truth, answer in sorted(pairs, reverse=True)[:MOST_COMPARISONS]:
                self.line(f"{noun(count, 'image')} of {truth!r} taken for {answer!r}")

    def results(self, rows: Sequence[Row]) -> None:
        """One line a record."""
        self.table(
            [
                {
                    "record": row.id,
                    "trial": row.trial.label,
                    "status": row.status,
                    "images/s": rate(row.images_per_second),
                    "95 % interval": _interval(row),
                    "rounds": row.rounds,
                }
                for row in rows
            ]
        )

    def record(self, record: Record, row: Row) -> None:
        """One record in full."""
        self.line(f"{record.id}, {record.created}, convdyno {record.convdyno}")
        self.bench([row], [])
        self.line()
        flags = (record.settings or {}).get("flags", {})
        if flags:
            self.line("flags: " + ", ".join(f"{key} = {value}" for key, value in flags.items()))
        for process in record.processes:
            times = (
                f"{1e3 * b.seconds / b.steps:.4g}{'*' if b.contaminated else ''}"
                for b in process.blocks
            )
            self.line(f"round {process.round + 1}, ms per step in each block: {' '.join(times)}")
        if row.contaminated:
            self.line("(* disturbed by other work)")
        for rank in record.processes[-1].ranks if record.processes else ():
            self.line(_rank(rank))
        self.line(f"repeat it with: {record.command}")

    def doctor(self, report: dict[str, Any]) -> None:
        """The machine, its engines, its fast precisions and what to do."""
        machine = report["machine"]
        self.line(_machine(machine), style="bold")
        self.line(f"instruction sets: {' '.join(machine['cpu_flags']) or 'unknown'}")
        self.line(f"GPUs: {', '.join(gpu['name'] for gpu in machine['gpus']) or 'none found'}")
        for name, version in report["engines"].items():
            self.line(f"engine {name}: {version}")
        for name, install in report["missing"].items():
            self.line(f"engine {name}: not installed; {install}")
        decoder = report["decoder"]
        why = f": {decoder['reason']}" if decoder["reason"] else ""
        self.line(f"JPEG decoder {decoder['name']}{why}")
        if report.get("peaks"):
            self.line()
            self.table([_peak(row, report["peaks"]) for row in report["peaks"]])
        self.line()
        minds = [*report["disturbances"]]
        for row in report.get("peaks", []):
            minds += [f"{row['engine']}: {warning}" for warning in row.get("warnings", ())]
        for mind in minds:
            self.line(f"mind: {mind}", style="yellow")
        if not minds:
            self.line("nothing was found that would disturb a measurement", style="green")

    def _conditions(self, rows: Sequence[Row]) -> None:
        """What all rows have in common: networks, machine, settings."""
        networks = {row.network.digest: row for row in rows if row.network is not None}
        for row in networks.values():
            facts = row.network
            assert facts is not None
            self.network(
                row.trial.network, facts.image, facts.classes, facts.parameters, facts.macs
            )
        for text in dict.fromkeys(_setting(row) for row in networks.values()):
            self.line(text)
        if networks:
            self.line()

    def _curve(self, curve: Curve, curves: Sequence[Curve]) -> None:
        """What more devices bring, and what limits them."""
        axes = {name for other in curves for name in curve.work.differs_in(other.work)} - {"batch"}
        names = [name for name in type(curve.work).model_fields if name in axes - {"scaling"}]
        which = "".join(f"{_axis(curve.work, name)}, " for name in names)
        self.line()
        self.line(f"{which}{curve.scaling}", style="bold")
        self.table(curve.table())
        for text in curve.sentences():
            self.line(text)

    def _differences(self, measured: Sequence[Row], rows: Sequence[Row]) -> None:
        """Conditions that the cells did not share, because each engine chose its own."""
        for name, values in differing([row.record for row in measured]).items():
            cells: dict[str, list[str]] = {}
            for row, value in zip(measured, values, strict=True):
                cells.setdefault(_cell(value), []).append(_name(row, rows))
            told = "; ".join(f"{value}: {', '.join(names)}" for value, names in cells.items())
            self.line(f"conditions that differ, {name}: {told}")

    def _problems(self, rows: Sequence[Row]) -> None:
        cells: dict[str, list[str]] = {}
        for row in rows:
            for warning in row.warnings:
                cells.setdefault(f"mind: {warning}", []).append(_name(row, rows))
        failed = [row for row in rows if row.status != "ok"]
        if cells or failed:
            self.line()
        for text, names in cells.items():
            where = "" if len(names) == len(rows) else f" ({'; '.join(names)})"
            self.line(text + where, style="yellow")
        for row in failed:
            self.line(f"{_name(row, rows)}: {row.status}: {row.record.reason}", style="red")


def sentence(a: Trial, b: Trial, found: Comparison) -> str:
    """A comparison in words."""
    axes = a.differs_in(b)
    names = [", ".join(_axis(trial, name) for name in axes) or trial.label for trial in (a, b)]
    rest = [
        _axis(a, name) for name in ("network", "mode", "precision", "batch") if name not in axes
    ]
    if a.devices > 1:
        rest.append(f"{a.devices} devices")
    place = f" ({', '.join(rest)})"
    if found.ratio is None:
        return f"{names[0]} and {names[1]}{place}: {found.reason}"
    ratio = f"{found.ratio:.3f} times the images/s"
    if found.low is None or found.high is None:
        return f"{names[0]} has {ratio} of {names[1]}{place}: undecided; {found.reason}"
    interval = f"[{found.low:.3f}, {found.high:.3f}]"
    words = {
        "faster": f"{names[0]} is faster than {names[1]}{place}: {ratio} {interval}",
        "slower": f"{names[0]} is slower than {names[1]}{place}: {ratio} {interval}",
        "equivalent": f"{names[0]} and {names[1]} are equivalent{place}: {ratio} {interval}",
        "undecided": f"{names[0]} and {names[1]} are undecided{place}: {ratio} {interval}",
    }
    return words[found.verdict]


def price_of_keras(a: Trial, b: Trial, found: Comparison) -> str:
    """What Keras adds to a step of the framework under it, where two cells differ in just that."""
    if found.ratio is None or found.low is None or found.high is None:
        return ""
    ratio, low, high = found.ratio, found.low, found.high
    if a.engine == f"keras/{b.engine}":
        ratio, low, high = 1 / ratio, 1 / high, 1 / low
        a, b = b, a
    if b.engine != f"keras/{a.engine}":
        return ""
    more, least, most = (100 * (times - 1) for times in (ratio, low, high))
    many = f" on each of {a.devices} devices" if a.devices > 1 else ""
    return (
        f"the price of Keras on {a.engine} ({a.precision}, batch {a.batch}{many}): "
        f"{more:+.1f} % [{least:+.1f}, {most:+.1f}] time a step"
    )


def _headline(row: Row, rows: Sequence[Row]) -> dict[str, Any]:
    trial = row.trial
    several = {name for other in rows for name in trial.differs_in(other.trial)}
    shown: dict[str, Any] = {"network": trial.network} if "network" in several else {}
    shown |= {"engine": trial.engine, "precision": trial.precision}
    if any(other.trial.devices > 1 for other in rows):
        shown["devices"] = trial.devices
    shown |= {"batch": trial.batch, "global batch": trial.global_batch}
    shown |= {name: _axis(trial, name, bare=True) for name in sorted(several - shown.keys())}
    return shown | {
        "images/s": rate(row.images_per_second),
        "95 % interval": _interval(row),
        "of peak": percent(row.share_of_peak),
        "first step": span(row.first_step_seconds),
        "memory": quantity(row.memory_bytes, "B") if row.memory_bytes else "-",
        "status": row.status,
    }


def _name(row: Row, rows: Sequence[Row]) -> str:
    """What tells a row from the others, or its engine and precision when it is alone."""
    axes = {name for other in rows for name in row.trial.differs_in(other.trial)}
    names = [name for name in type(row.trial).model_fields if name in axes]
    return ", ".join(_axis(row.trial, name) for name in names or ("engine", "precision"))


def _axis(trial: Trial, name: str, *, bare: bool = False) -> str:
    value = getattr(trial, name)
    if name in ("network", "engine", "mode", "precision", "data") or bare:
        return _by(value) if isinstance(value, tuple) else str(value)
    return f"{name.replace('_', ' ')} {_by(value) if isinstance(value, tuple) else value}"


def _setting(row: Row) -> str:
    record = row.record
    settings = record.settings or {}
    versions = ", ".join(f"{name} {version}" for name, version in record.versions.items())
    mode = {"train": "training", "infer": "inference"}[row.trial.mode]
    data = {
        "synthetic": "synthetic data on the device",
        "synthetic-host": "synthetic data fed by the host",
    }
    return (
        f"{mode}, {data.get(row.trial.data, row.trial.data)}; {settings.get('device_name')}, "
        f"{noun(settings.get('threads', 1), 'thread')}, layout {settings.get('layout')}; {versions}"
    )


def _rank(rank: Rank) -> str:
    """Where a rank ran: what it used, what it was shown, what the batch system gave to its job."""
    parts = [f"rank {rank.rank} on {rank.host}: device {rank.device or 'unknown'}"]
    if rank.cores:
        parts.append(f"{noun(len(rank.cores), 'core')} ({ranges(rank.cores)})")
    parts += [f"visible {rank.visible}"] if rank.visible is not None else []
    parts += [f"allocated {rank.allocated}"] if rank.allocated is not None else []
    if rank.clock_skew_seconds is not None:
        parts.append(f"clock {1e3 * rank.clock_skew_seconds:+.0f} ms")
    return ", ".join(parts)


def _interval(row: Row) -> str:
    return "-" if row.low is None else f"{rate(row.low)} to {rate(row.high)}"


def _machine(machine: dict[str, Any]) -> str:
    return (
        f"{machine['host']}: {machine['cpu']}, {machine['cores_usable']} of "
        f"{noun(machine['cores_logical'], 'core')} usable, "
        f"{quantity(machine['memory_bytes'], 'B')} of memory, {machine['system']}"
    )


def _peak(row: dict[str, Any], rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """One precision of one engine: what it reaches, and whether that makes it worth using."""
    plain = next((r for r in rows if r["engine"] == row["engine"] and r["precision"] == "fp32"), {})
    gain = row["matmul"] / plain["matmul"] if "matmul" in row and plain.get("matmul") else None
    verdict = row.get("refused", "")
    if gain is not None and row["precision"] != "fp32":
        verdict = f"{gain:.2g} x fp32" + (": fast" if gain > 1.2 else ": not worth it here")
    return {
        "engine": row["engine"],
        "precision": row["precision"],
        "matmul": quantity(row["matmul"], "FLOP/s") if "matmul" in row else "-",
        "convolution": quantity(row["conv"], "FLOP/s") if "conv" in row else "-",
        "copy": quantity(row["copy"], "B/s") if "copy" in row else "-",
        "": verdict,
    }


def _by(sizes: Sequence[int]) -> str:
    return "x".join(map(str, sizes))


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)

"""Results for people: plain words on a terminal, plain text anywhere else."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from convdyno.report.cell import Cell, warnings_of
from convdyno.report.columns import HEADLINE, cell_words
from convdyno.report.comparisons import Pair, differing, price_of_keras
from convdyno.report.format import (
    MODES,
    UNPAIRED,
    accuracy,
    gmac,
    noun,
    pairs,
    percent,
    quantity,
    ranges,
    rate,
    said,
    size,
    span,
    varying,
    written,
)
from convdyno.report.ladders import Climbed
from convdyno.report.scaling import Curve
from convdyno.report.text_table import aligned
from convdyno.store.certificate import TOLERANCES, Certificate
from convdyno.store.record import Rank, Record
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
"""So many rows are still fitted to the terminal; more are printed in plain columns, and soon."""
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

    def lines(self, texts: Iterable[str], style: str = "") -> None:
        """The same of each of several."""
        for text in texts:
            self.line(text, style)

    def table(self, rows: Sequence[dict[str, Any]], *, plain: bool = False) -> None:
        """Rows of one shape as a table; numbers stand right."""
        if not rows:
            self.line("(none)")
            return
        words = [{name: visible(_cell(value)) for name, value in row.items()} for row in rows]
        if plain or len(rows) > MANY:
            self._console.file.write("\n".join(aligned(words, RIGHT)) + "\n")
            return
        table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
        for name, value in rows[0].items():
            number = isinstance(value, int | float) and not isinstance(value, bool)
            right = number or name in RIGHT
            table.add_column(name, justify="right" if right else "left", overflow="fold")
        for row in words:
            table.add_row(*map(Text, row.values()))
        self._console.print(table)

    def minds(self, sentences: Iterable[str]) -> None:
        """What to mind, each once."""
        self.lines((f"mind: {sentence}" for sentence in dict.fromkeys(sentences)), "yellow")

    def network(
        self, name: str, image: Sequence[int], classes: int, parameters: int, macs: int
    ) -> None:
        """One line that says what a network is."""
        self.line(
            f"{name}: {gmac(macs)} forward, {quantity(parameters)} parameters, "
            f"{written(tuple(image))} -> {classes} classes",
            style="bold",
        )

    def bench(
        self,
        cells: Sequence[Cell],
        compared: Sequence[Pair],
        ladders: Sequence[Climbed] = (),
        curves: Sequence[Curve] = (),
    ) -> None:
        """The outcome of a benchmark: what was run, how fast, what is faster, what to mind."""
        names = _names(cells)
        measured = [cell for cell in cells if cell.headline is not None]
        self._conditions(cells)
        self.table(_headlines(cells))
        if measured:
            self.line()
        self.lines(f"{names[cell.id]}: {describe(cell)}" for cell in measured)
        if compared:
            self._compared(compared)
            self._differences(measured, names)
        for ladder in ladders:
            self.line()
            self.lines(ladder.lines())
        for curve in curves:
            self._curve(curve, curves)
        self._problems(cells, names)

    def _compared(self, pairs: Sequence[Pair]) -> None:
        """The first ratios in words, and what to know of them."""
        unpaired = [pair.found.ratio is not None and not pair.paired for pair in pairs]
        self.line()
        for pair, apart in zip(pairs[:MOST_COMPARISONS], unpaired, strict=False):
            self.line(f"{pair.sentence} (unpaired)" if apart else pair.sentence)
        if len(pairs) > MOST_COMPARISONS:
            self.line(f"({len(pairs) - MOST_COMPARISONS} more comparisons with --json)")
        if any(unpaired):
            self.line(f"unpaired: {UNPAIRED}")
        self.lines(filter(None, map(price_of_keras, pairs)))

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
        failed = (proof for proof in certificate.engines if not proof.passed)
        self.lines((f"{proof.engine}: {proof.reason}" for proof in failed), "red")
        limits = ", ".join(f"{kind} {limit:g}" for kind, limit in TOLERANCES.items())
        self.line(f"distance from the float64 reference; at most: {limits}")
        self.line(f"certificate {certificate.hash[:12]}")

    def evaluation(self, file: str, trial: Trial, found: dict[str, Any]) -> None:
        """What a checkpoint got right."""
        self.line(f"{file}: {trial.network} after {noun(found['step'], 'step')}", style="bold")
        average = ", moving average of the weights" if found["averaged"] else ""
        self.line(f"{trial.engine}, {trial.precision}, {trial.data}, all test images{average}")
        for kind in ("top1", "top5"):
            right = accuracy(found[kind], *found[f"{kind}_interval"])
            counted = f"{found[f'{kind}_images']} of {found['images']}"
            self.line(f"top-{kind[-1]}  {right}  ({counted})")
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

    def record(self, record: Record, cell: Cell) -> None:
        """One record in full."""
        self.line(f"{record.id}, {record.created}, convdyno {record.convdyno}")
        self.bench([cell], [])
        self.line()
        flags = (record.settings or {}).get("flags", {})
        if flags:
            self.line("flags: " + pairs(flags, sign=" = "))
        for process in record.processes:
            times = (
                f"{1e3 * b.seconds / b.steps:.4g}{'*' if b.contaminated else ''}"
                for b in process.blocks
            )
            self.line(f"round {process.round + 1}, ms per step in each block: {' '.join(times)}")
        if cell.contaminated:
            self.line("(* disturbed by other work)")
        self.lines(_rank(rank) for process in record.processes[-1:] for rank in process.ranks)
        self.line(f"repeat it with: {record.command}")

    def doctor(self, report: dict[str, Any]) -> None:
        """The machine, its engines, its fast precisions and what to do."""
        machine = report["machine"]
        cores = f"{machine['cores_usable']} of {noun(machine['cores_logical'], 'core')} usable"
        self.line(
            f"{machine['host']}: {machine['cpu']}, {cores}, "
            f"{size(machine['memory_bytes'])} of memory, {machine['system']}",
            style="bold",
        )
        self.line(f"instruction sets: {' '.join(machine['cpu_flags']) or 'unknown'}")
        self.line(f"GPUs: {', '.join(gpu['name'] for gpu in machine['gpus']) or 'none found'}")
        self.lines(f"engine {name}: {version}" for name, version in report["engines"].items())
        missing = report["missing"].items()
        self.lines(f"engine {name}: not installed; {install}" for name, install in missing)
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
        self.lines((f"mind: {mind}" for mind in minds), "yellow")
        if not minds:
            self.line("nothing was found that would disturb a measurement", style="green")

    def _conditions(self, cells: Sequence[Cell]) -> None:
        """What all cells have in common: networks, machine, settings."""
        networks = {facts.digest: (cell, facts) for cell in cells if (facts := cell.network)}
        for cell, facts in networks.values():
            name = cell.trial.network
            self.network(name, facts.image, facts.classes, facts.parameters, facts.macs)
        self.lines(dict.fromkeys(_setting(cell) for cell, _ in networks.values()))
        if networks:
            self.line()

    def _curve(self, curve: Curve, curves: Sequence[Curve]) -> None:
        """What more devices bring, and what limits them."""
        names = varying([other.work for other in curves])
        which = "".join(
            f"{said(curve.work, name)}, " for name in names if name not in ("batch", "scaling")
        )
        self.line()
        self.line(f"{which}{curve.scaling}", style="bold")
        self.table(curve.table())
        self.lines(curve.sentences())

    def _differences(self, measured: Sequence[Cell], names: Mapping[str, str]) -> None:
        """Conditions that the cells did not share, because each engine chose its own."""
        for name, values in differing(measured).items():
            found: dict[str, list[str]] = {}
            for cell, value in zip(measured, values, strict=True):
                found.setdefault(_cell(value), []).append(names[cell.id])
            told = "; ".join(f"{value}: {', '.join(cells)}" for value, cells in found.items())
            self.line(f"conditions that differ, {name}: {told}")

    def _problems(self, cells: Sequence[Cell], names: Mapping[str, str]) -> None:
        found = warnings_of(cells)
        failed = [cell for cell in cells if cell.status != "ok"]
        if found or failed:
            self.line()
        for text, of in found.items():
            where = "" if len(of) == len(cells) else f" ({'; '.join(names[c.id] for c in of)})"
            self.line(f"mind: {text}{where}", style="yellow")
        self.lines((f"{names[c.id]}: {c.status}: {c.reason}" for c in failed), "red")


def describe(cell: Cell) -> str:
    """A cell's lesser figures in one line."""
    parts = [f"step {span(cell.step_seconds)}"]
    jitter = cell.legacy.speed_jitter
    if jitter is not None and cell.images_per_second:
        parts.append(f"jitter {percent(jitter / cell.images_per_second)}")
    if (times := cell.latency) is not None:
        shown = [(name, getattr(times, f"{name}_seconds")) for name in ("p50", "p90", "p99")]
        parts.append(", ".join(f"{name} {span(value)}" for name, value in shown if value))
    if cell.import_seconds is not None and cell.build_seconds is not None:
        parts.append(f"import {span(cell.import_seconds)}, build {span(cell.build_seconds)}")
    if cell.compile_seconds:
        parts.append(f"first step {span(cell.compile_seconds)} longer than a step")
    if cell.share_of_peak is not None:
        parts.append(
            f"{percent(cell.share_of_peak)} of the {quantity(cell.peak_flops or 0, 'FLOP/s')} "
            f"({cell.trial.precision}) measured here"
        )
    if cell.wait_share is not None:
        parts.append(f"{percent(cell.wait_share)} of the time waiting for data")
    if cell.memory_bytes:
        largest = " in the largest rank" if cell.trial.devices > 1 else ""
        parts.append(f"{size(cell.memory_bytes)} of memory{largest}")
    parts += _energy_words(cell)
    parts.append(f"{noun(cell.rounds, 'round')}, {noun(cell.blocks, 'block')}")
    return ", ".join(parts)


def _energy_words(cell: Cell) -> list[str]:
    energy = cell.energy
    if energy is not None and energy.reason:
        return [f"energy unavailable ({energy.reason.partition(':')[0]})"]
    if energy is None or cell.joules is None or cell.images_per_joule is None:
        return []
    counted = f"{quantity(cell.joules, 'J')} by {', '.join(energy.counted)}"
    return [f"{rate(cell.images_per_joule)} images/J ({counted})"]


def _headlines(cells: Sequence[Cell]) -> list[dict[str, Any]]:
    """A row for each cell: what tells it from the others, and its figures."""
    varied = varying([cell.trial for cell in cells])
    first = ["network"] if "network" in varied else []
    first += ["engine", "precision"]
    first += ["devices"] if any(cell.trial.devices > 1 for cell in cells) else []
    first += ["batch", "global_batch"]
    rest = sorted(set(varied) - set(first))
    return [
        cell_words(cell, first)
        | {name: written(getattr(cell.trial, name)) for name in rest}
        | cell_words(cell, HEADLINE)
        for cell in cells
    ]


def _names(cells: Sequence[Cell]) -> dict[str, str]:
    """What tells each cell from the others, or its engine and precision when it is alone."""
    names = varying([cell.trial for cell in cells]) or ["engine", "precision"]
    return {cell.id: ", ".join(said(cell.trial, name) for name in names) for cell in cells}


def _setting(cell: Cell) -> str:
    settings, versions = cell.settings, pairs(cell.versions, sign=" ")
    data = {
        "synthetic": "synthetic data on the device",
        "synthetic-host": "synthetic data fed by the host",
    }.get(cell.trial.data, cell.trial.data)
    return (
        f"{MODES[cell.trial.mode]}, {data}; {settings.get('device_name')}, "
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


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)

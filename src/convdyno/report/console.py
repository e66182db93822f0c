"""Results for people: plain words on a terminal, plain text anywhere else."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from rich.console import Console
from rich.text import Text

from convdyno.report.cell import Cell, grouped
from convdyno.report.columns import HEADLINE, cell_words
from convdyno.report.comparisons import Pair, differing, price_of_keras
from convdyno.report.findings import findings, minded
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
from convdyno.report.limits import what_limits
from convdyno.report.scaling import Curve
from convdyno.report.text_table import aligned, fitted
from convdyno.store.certificate import Certificate
from convdyno.store.record import Rank, Record
from convdyno.terminal import columns_of, commands, visible, wrapped
from convdyno.trial.spec import Trial

MOST_COMPARISONS = 12
"""How many ratios the terminal shows; `--json` has all."""
RIGHT = (
    "images/s", "of peak", "first step", "memory", "parameters", "macs", "matmul", "convolution",
    "copy", "per host", "per device", "efficiency", "ideal",
)  # fmt: skip
"""Columns of figures that stand right."""
LITTLE = (
    "first step", "memory", "of peak", "global batch", "paper", "published", "for batch",
    "schedule", "95 % interval", "labels", "interval", "rounds",
)  # fmt: skip
"""Columns that a narrow terminal can do without, what says least first."""
STATUS_STYLES = {"ok": "", "disturbed": "yellow", "interrupted": "yellow"}
"""Of rows; whatever else a status may be is red."""
UNLIKE = 0.02
"""How far the mean over all blocks must be from the headline to be told."""
MATTERS = 0.2
"""Of a step, what a first step must take longer to be told of."""
MOST_UNSEEN = 3
"""How many of what a certificate does not prove are named."""
PEAK_HEADINGS = ("engine", "precision", "matmul", "convolution", "copy", "of fp32")
PEAK = "{:16}  {:9}  {:>12}  {:>12}  {:>9}  {}"
"""A row of peaks; each is printed when it is there, before the others' widths are known."""
MANY = 200
"""So many rows are still fitted to the terminal; more are printed in plain columns, and soon."""


class Screen:
    """Where results are printed."""

    def __init__(self, file: TextIO | None = None, columns: int | None = None) -> None:
        """`columns` is what lines have to fit where that is not a terminal's width."""
        out = commands(file or sys.stdout)
        self._columns = columns or columns_of(out)
        self._console = Console(file=out, highlight=False, markup=False, force_jupyter=False)

    def line(self, text: str = "", style: str = "") -> None:
        """A sentence, broken between words where the terminal is too narrow for it."""
        self._print(wrapped(visible(text), self._columns), style)

    def command(self, before: str, words: str) -> None:
        """A command to be copied, which is never broken."""
        self._print(f"{visible(before)}{visible(words)}", "")

    def _print(self, text: str, style: str) -> None:
        self._console.print(Text(text, style=style), soft_wrap=True)

    def lines(self, texts: Iterable[str], style: str = "") -> None:
        """The same of each of several."""
        for text in texts:
            self.line(text, style)

    def table(
        self,
        rows: Sequence[dict[str, Any]],
        *,
        plain: bool = False,
        figures: Collection[str] = RIGHT,
        little: Sequence[str] = LITTLE,
    ) -> None:
        """Rows of one shape as a table; numbers stand right, and a bad status has a colour.

        `figures` are the columns that stand right as well; the `little` ones are left out first.
        """
        if not rows:
            self.line("(none)")
            return
        words = [{name: visible(cell_text(value)) for name, value in row.items()} for row in rows]
        if plain or len(rows) > MANY:
            self._console.file.write("\n".join(aligned(words, RIGHT)) + "\n")
            return
        right = {
            name
            for name, value in rows[0].items()
            if name in figures or (isinstance(value, int | float) and not isinstance(value, bool))
        }
        header, *lines = fitted(words, self._columns, right, little)
        for text in header:
            self._print(text, "bold")
        for row, texts in zip(words, lines, strict=True):
            for text in texts:
                self._print(text, STATUS_STYLES.get(row.get("status", "ok"), "red"))

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
        shortfall: str = "",
    ) -> None:
        """The outcome of a benchmark: what was run and found, how fast each is, what to mind."""
        names = _names(cells)
        measured = [cell for cell in cells if cell.headline is not None]
        self._conditions(cells)
        self.lines(findings(cells, compared, names), "bold")
        self.line()
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
        self._problems(cells, names, what_limits(measured, shortfall))

    def ending(self, folder: Path, records: int) -> None:
        """Where the records of a run are, and the command that comes next."""
        self.line()
        self.line(f"records: {noun(records, 'file')} in {folder}/")
        where = shlex.quote(str(folder))
        self.command("next: ", f"convdyno report {where} --html report.html")

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
        how = certificate.manner.words
        self.line(f"{certificate.network} ({certificate.form}; {how})", style="bold")
        rows = [
            {
                "engine": f"{proof.engine} {proof.version}",
                **{f.kind: f"{f.ratio:.3f}" for f in proof.findings},
                "": "the same" if proof.passed else "NOT the same",
            }
            for proof in certificate.engines
            if proof.findings
        ]
        kinds = {finding.kind for proof in certificate.engines for finding in proof.findings}
        self.table(rows, figures=kinds, little=())
        failed = (proof for proof in certificate.engines if not proof.passed)
        self.lines((f"{proof.engine}: {proof.reason}" for proof in failed), "red")
        self.line(
            "distance of the worst tensor from the float64 reference, as a share of its limit"
        )
        if certificate.unseen:
            first, more = certificate.unseen[:MOST_UNSEEN], len(certificate.unseen) - MOST_UNSEEN
            others = f" and {more} more (--json has all)" if more > 0 else ""
            self.line(
                f"not proven, because it cannot be told from rounding: {', '.join(first)}{others}",
                style="yellow",
            )
        if certificate.coverage:
            self._coverage(certificate)
        self.line(f"certificate {certificate.hash[:12]}")

    def _coverage(self, certificate: Certificate) -> None:
        """For each node how far the loss moves if it is wrong, and the smallest fault seen."""
        nodes: dict[str, dict[str, str]] = {}
        for one in certificate.coverage:
            row = nodes.setdefault(one.node, {"node": f"{one.node} ({one.op})"})
            whole = one.share == 1
            told = f"{one.moved:.0f}" if whole else f"{one.change} {one.smallest:.1e}"
            name = "limits moved if wrong" if whole else "smallest fault seen"
            said = f"{one.change} {told}" if whole else told
            row[name] = ", ".join(filter(None, (row.get(name, ""), said)))
        columns = ("node", "limits moved if wrong", "smallest fault seen")
        self.table([{name: row.get(name, "") for name in columns} for row in nodes.values()])

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
        self.command("repeat it with: ", record.command)

    def machine(self, report: dict[str, Any]) -> None:
        """The machine and its engines, as `doctor` has found them."""
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

    def peak(self, row: dict[str, Any], before: Sequence[dict[str, Any]]) -> None:
        """What one precision of one engine reaches; the first row has the heading above it."""
        if not before:
            self._print("\n" + PEAK.format(*PEAK_HEADINGS).rstrip(), "bold")
        self._print(_peak(row, before), "")

    def disturbances(self, report: dict[str, Any]) -> None:
        """What to mind on this machine, and what to do."""
        self.line()
        minds = [*report["disturbances"]]
        warned: dict[str, list[str]] = {}
        for row in report.get("peaks", []):
            for warning in row.get("warnings", ()):
                warned.setdefault(warning, []).append(row["engine"])
        minds += [f"{', '.join(engines)}: {warning}" for warning, engines in warned.items()]
        self.lines((f"mind: {mind}" for mind in minds), "yellow")
        if not minds:
            self.line("nothing was found that would disturb a measurement", style="green")

    def _conditions(self, cells: Sequence[Cell]) -> None:
        """What all cells have in common: networks, machine, settings."""
        networks = {facts.digest: (cell, facts) for cell in cells if (facts := cell.network)}
        for cell, facts in networks.values():
            name = cell.trial.network
            self.network(name, facts.image, facts.classes, facts.parameters, facts.macs)
        opened = [cell for cell in cells if cell.network]
        self.lines(
            _setting(alike) for alike in grouped(opened, lambda cell: str(_work(cell))).values()
        )
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
                found.setdefault(cell_text(value), []).append(names[cell.id])
            told = "; ".join(f"{value}: {', '.join(cells)}" for value, cells in found.items())
            self.line(f"conditions that differ, {name}: {told}")

    def _problems(self, cells: Sequence[Cell], names: Mapping[str, str], limit: str) -> None:
        """What failed, what to mind and what keeps the figures from being more precise."""
        found = minded(cells, names)
        failed = [cell for cell in cells if cell.status != "ok"]
        if found or failed or limit:
            self.line()
        self.lines((f"{names[c.id]}: {c.status}: {c.reason}" for c in failed), "red")
        self.minds(found)
        if limit:
            self.line(limit)


def describe(cell: Cell) -> str:
    """A cell's lesser figures in one line."""
    parts = [f"step {span(cell.step_seconds)}"]
    if cell.headline and cell.images_per_second:
        mean = cell.headline.mean
        if abs(mean / cell.images_per_second - 1) > UNLIKE:
            parts.append(f"{rate(mean)} images/s on average over all blocks")
    jitter = cell.legacy.speed_jitter
    if jitter is not None and cell.images_per_second:
        parts.append(f"jitter {percent(jitter / cell.images_per_second)}")
    if (times := cell.latency) is not None:
        shown = [(name, getattr(times, f"{name}_seconds")) for name in ("p50", "p90", "p99")]
        parts.append(", ".join(f"{name} {span(value)}" for name, value in shown if value))
    if cell.import_seconds is not None and cell.build_seconds is not None:
        parts.append(f"import {span(cell.import_seconds)}, build {span(cell.build_seconds)}")
    if cell.compile_seconds and cell.compile_seconds > MATTERS * (cell.step_seconds or 0.0):
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
    many = any(cell.trial.devices > 1 for cell in cells)
    first += ["devices", "batch", "global_batch"] if many else ["batch"]
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


def _work(cell: Cell) -> tuple[Any, ...]:
    """What cells of one line of conditions share."""
    used = (cell.settings.get(name) for name in ("device_name", "threads"))
    return cell.trial.mode, cell.trial.data, *used


def _setting(cells: Sequence[Cell]) -> str:
    """What some cells were run on and with, every engine with its version."""
    mode, data, device, threads = _work(cells[0])
    data = {
        "synthetic": "synthetic data on the device",
        "synthetic-host": "synthetic data fed by the host",
    }.get(data, data)
    layouts = {cell.settings.get("layout") for cell in cells}
    layout = f", layout {layouts.pop()}" if len(layouts) == 1 else ""
    return (
        f"{MODES[mode]}, {data}; {device}, {noun(threads or 1, 'thread')}{layout}; "
        f"{versions_of(cells)}"
    )


def versions_of(cells: Iterable[Cell]) -> str:
    """The versions of everything that some cells ran with, each once."""
    found = dict.fromkeys(item for cell in cells for item in cell.versions.items())
    return ", ".join(f"{name} {version}" for name, version in found)


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


def _peak(row: dict[str, Any], before: Sequence[dict[str, Any]]) -> str:
    """One precision of one engine: what it reaches, and whether that makes it worth using."""
    if "refused" in row:
        return f"{row['engine']:16}  {row['precision']:9}  {visible(row['refused'])}"
    mine = (one for one in before if one["engine"] == row["engine"])
    plain = next((one["matmul"] for one in mine if one.get("matmul")), None)
    gain = row["matmul"] / plain if plain and "matmul" in row else None
    verdict = "" if gain is None else f"{gain:.2g} x" + (": fast" if gain > 1.2 else "")
    rates = [
        quantity(row[kind], unit) if kind in row else "-"
        for kind, unit in (("matmul", "FLOP/s"), ("conv", "FLOP/s"), ("copy", "B/s"))
    ]
    return PEAK.format(row["engine"], row["precision"], *rates, verdict).rstrip()


def cell_text(value: Any) -> str:
    """A value as tables have it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)

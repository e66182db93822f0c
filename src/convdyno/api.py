"""convdyno from Python: `convdyno.bench(...)` and `convdyno.load(...)`.

Problems are exceptions of `convdyno.errors`; a trial that fails is a result with a status.
"""

from __future__ import annotations

import html
import io
import shlex
import warnings
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from convdyno.cli import options
from convdyno.cli.bench import measured
from convdyno.errors import UsageError
from convdyno.report.cell import Cell, cell_of
from convdyno.report.columns import cell_words
from convdyno.report.comparisons import Certificates, Compared, Pair, compare_cells
from convdyno.report.console import Screen
from convdyno.report.dataframe import flat
from convdyno.report.format import varying, written
from convdyno.report.ladders import Climbed, climbed
from convdyno.report.scaling import Curve, curves
from convdyno.report.text_table import html_table
from convdyno.results.record import Record
from convdyno.results.select import select
from convdyno.results.store import Store

ALWAYS = ("network", "engine", "precision", "batch")
"""What a table shows of every trial."""
ONLY_THERE = ("slurm", "slurm_module", "slurm_setup", "detach", "style", "json", "label")
"""Options of the command that are not for Python."""


class Result:
    """What was measured: it prints as `convdyno bench` does, and shows itself in a notebook.

    `records` have everything, `rows` the figures of each.
    """

    def __init__(self, records: Sequence[Record], certificates: Certificates | None = None) -> None:
        self.records = list(records)
        self._certificates = certificates or {}

    @cached_property
    def rows(self) -> list[Cell]:
        """The figures of each cell."""
        return [cell_of(record) for record in self.records]

    @cached_property
    def _pairs(self) -> list[Pair]:
        """All cells that differ in one thing, compared."""
        return compare_cells(self.rows, self._certificates)

    @cached_property
    def compared(self) -> list[Compared]:
        """The same as two cells by their number, and their ratio."""
        numbers = {cell.id: number for number, cell in enumerate(self.rows)}
        return [(numbers[pair.a.id], numbers[pair.b.id], pair.found) for pair in self._pairs]

    @cached_property
    def ladders(self) -> list[Climbed]:
        """Where the time goes, if a ladder was asked for."""
        return list(climbed(self.rows))

    @cached_property
    def curves(self) -> list[Curve]:
        """What more devices bring, if several counts of them were measured."""
        return list(curves(self.rows))

    @property
    def ok(self) -> bool:
        """Whether every cell was measured."""
        return all(record.status == "ok" for record in self.records)

    def to_dicts(self) -> list[dict[str, Any]]:
        """A flat dict for each cell, as `load` gives them."""
        return [flat(one) for one in self.rows]

    def __len__(self) -> int:
        return len(self.records)

    def __str__(self) -> str:
        text = io.StringIO()
        Screen(text).bench(self.rows, self._pairs, self.ladders, self.curves)
        return text.getvalue().rstrip()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        axes = varying([one.trial for one in self.rows], ALWAYS)
        cells = [
            {name: written(getattr(one.trial, name)) for name in axes}
            | cell_words(one, ("images_per_second", "between"))
            | {"status": one.status if one.status == "ok" else f"{one.status}: {one.reason}"}
            for one in self.rows
        ]
        minded = dict.fromkeys(warning for one in self.rows for warning in one.warnings)
        lines = [pair.sentence for pair in self._pairs]
        lines += [f"mind: {warning}" for warning in minded]
        return html_table(cells) + "".join(f"<p>{html.escape(line)}</p>" for line in lines)


class Table(list[dict[str, Any]]):
    """Flat rows, one a record: `pandas.DataFrame(table)` and `polars.DataFrame(table)` take it."""

    skipped: list[str]
    """A sentence for each file of the folder that is no record."""

    @property
    def columns(self) -> dict[str, list[Any]]:
        """The same by column; None where a row has no such value."""
        names = dict.fromkeys(name for one in self for name in one)
        return {name: [one.get(name) for one in self] for name in names}


def bench(
    network: str | Sequence[str],
    *,
    engine: str | Sequence[str] | None = None,
    mode: str | Sequence[str] | None = None,
    batch: int | Sequence[int] | str | None = None,
    precision: str | Sequence[str] | None = None,
    budget: str | float | None = None,
    within: str | float | None = None,
    rounds: int | None = None,
    data: str | Path | Sequence[str] | None = None,
    out: str | Path = "results",
    labels: Mapping[str, str] | None = None,
    verbose: bool = False,
    **more: Any,
) -> Result:
    """Measure how fast networks train or infer: `convdyno bench`, with its options by their names.

    A list makes cells of all combinations, which are measured in turns and compared in pairs. Every
    cell leaves a record in the folder `out`.
    """
    for name in more:
        if name in ONLY_THERE:
            raise UsageError(f"{name} is for the command line: `convdyno bench --help`")
    values = {
        "network": network, "engine": engine, "mode": mode, "batch": batch, "precision": precision,
        "budget": budget, "within": within, "rounds": rounds, "data": data, "out": out, **more,
    }  # fmt: skip
    if labels:
        values["label"] = [f"{name}={value}" for name, value in labels.items()]
    given = options.given(values, quiet=not verbose)
    cells, certificates, _ = measured(given, _command(values, given))
    return Result([cell.record for cell in cells], certificates)


def load(folder: str | Path = "results", where: str | Iterable[str] = ()) -> Table:
    """The records of a folder as flat rows, oldest first; `where` is as on the command line."""
    store = Store(Path(folder))
    conditions = [where] if isinstance(where, str) else list(where)
    # Ten thousand records in full would not fit into memory; their heads and figures do.
    kept: dict[str, dict[str, Any]] = {}
    heads = []
    for record in store.records():
        kept[record.id] = flat(cell_of(record))
        heads.append(record.but(processes=()))
    table = Table(kept[record.id] for record in select(heads, conditions))
    table.skipped = list(store.skipped)
    if table.skipped:
        more = f" (and {len(table.skipped) - 1} more)" if len(table.skipped) > 1 else ""
        warnings.warn(f"{table.skipped[0]}{more}", stacklevel=2)
    return table


def _command(values: Mapping[str, Any], given: Mapping[str, Any]) -> str:
    """What repeats it on the command line."""
    words = ["convdyno", "bench", str(given["network"])]
    for name, value in values.items():
        if value is None or name in ("network", "out"):
            continue
        option = f"--{name.replace('_', '-')}"
        if isinstance(given[name], list):
            words += [word for one in given[name] for word in (option, str(one))]
        elif isinstance(given[name], bool):
            words += [option] if given[name] else []
        else:
            words += [option, str(given[name])]
    return shlex.join(words)

"""convdyno from Python: `convdyno.bench(...)` and `convdyno.load(...)`.

Problems are exceptions of `convdyno.errors`; a trial that fails is a result with a status.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from convdyno import app
from convdyno.app import BenchRequest, Narrator
from convdyno.app import Result as Result
from convdyno.app.stored_results import load as read_rows
from convdyno.errors import UsageError

ONLY_THERE = ("slurm", "slurm_module", "slurm_setup", "detach", "style", "json", "label")
"""Options of the command that are not for Python."""


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
    request = BenchRequest.of(
        network=network, engine=engine, mode=mode, batch=batch, precision=precision, budget=budget,
        within=within, rounds=rounds, data=data, out=Path(out), labels=labels, **more,
    )  # fmt: skip
    return app.bench(request, Narrator(quiet=not verbose))


def load(folder: str | Path = "results", where: str | Iterable[str] = ()) -> Table:
    """The records of a folder as flat rows, oldest first; `where` is as on the command line."""
    conditions = [where] if isinstance(where, str) else list(where)
    rows, skipped = read_rows(Path(folder), conditions)
    table = Table(rows)
    table.skipped = skipped
    if table.skipped:
        more = f" (and {len(table.skipped) - 1} more)" if len(table.skipped) > 1 else ""
        warnings.warn(f"{table.skipped[0]}{more}", stacklevel=2)
    return table

"""convdyno from Python: a function for each command that measures, trains or reports.

Problems are exceptions of `convdyno.errors`; a trial that fails is a result with a status.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from convdyno import app
from convdyno.app import (
    BenchRequest,
    CertifyRequest,
    CompareRequest,
    EvaluateRequest,
    GateRequest,
    Narrator,
    ReportRequest,
    SweepRequest,
    TrainRequest,
    TuneRequest,
)
from convdyno.app import Result as Result
from convdyno.app.certification import Certified
from convdyno.app.comparison import Comparisons
from convdyno.app.evaluation import Evaluation
from convdyno.app.gates import Gated
from convdyno.app.reporting import Report
from convdyno.app.shown import frame
from convdyno.app.stored_results import load as read_rows
from convdyno.app.sweeps import SweepStanding
from convdyno.app.training import Trained
from convdyno.app.tuning import Tuned
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

    def to_pandas(self) -> Any:
        """The rows as a data frame of pandas, which has to be installed."""
        return frame(self)


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


def gate(
    network: str | Sequence[str] | None = None, *, verbose: bool = False, **more: Any
) -> Gated:
    """Hold a candidate against a base: `convdyno gate`, with its options by their names."""
    request = GateRequest.of(network=network, **_paths(more, "base", "base_folder", "out"))
    return app.gate(request, Narrator(quiet=not verbose))


def tune(network: str, *, verbose: bool = False, **more: Any) -> Tuned:
    """Search the fastest settings of one network and engine: `convdyno tune`."""
    request = TuneRequest.of(network=network, **_paths(more, "out"))
    return app.tune(request, Narrator(quiet=not verbose))


def sweep(file: str | Path, *, verbose: bool = False, **more: Any) -> SweepStanding:
    """Measure every combination of a file's values: `convdyno sweep`; again, it goes on."""
    request = SweepRequest.of(file=Path(file), **_paths(more, "out"))
    return app.sweep(request, Narrator(quiet=not verbose))


def train(network: str, *, data: str | Path, **more: Any) -> Trained:
    """Train a network on real data, evaluate and save it: `convdyno train`."""
    return app.train(TrainRequest.of(network=network, data=str(data), **_paths(more, "log_dir")))


def evaluate(checkpoint: str | Path, **more: Any) -> Evaluation:
    """Evaluate a checkpoint over every test image: `convdyno eval`."""
    return app.evaluate(EvaluateRequest.of(checkpoint=Path(checkpoint), **more))


def certify(network: str, **more: Any) -> Certified:
    """Prove that engines compute the same network: `convdyno certify`."""
    return Certified(list(app.certify(CertifyRequest.of(network=network, **_paths(more, "out")))))


def compare(
    results: str | Path | Sequence[str | Path] = "results",
    *,
    by: str = "engine",
    where: str | Sequence[str] = (),
    against: str | None = None,
) -> Comparisons:
    """Compare stored cells that are alike in all but one thing: `convdyno compare`."""
    request = CompareRequest(
        results=_folders(results), by=by, where=_several(where), against=against
    )
    return app.compare(request)


def report(
    results: str | Path | Sequence[str | Path] = "results",
    *,
    where: str | Sequence[str] = (),
    title: str | None = None,
    **files: str | Path | None,
) -> Report:
    """Write what was measured: `convdyno report`, `html="report.html"` if no file is named."""
    request = ReportRequest.of(
        results=_folders(results),
        where=_several(where),
        title=title,
        **_paths(files or {"html": "report.html"}, *files or ["html"]),
    )
    return app.report(request)


def _paths(options: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """The options, those that name a file or a folder as paths."""
    return {
        name: Path(value) if name in names and isinstance(value, str) else value
        for name, value in options.items()
    }


def _folders(given: str | Path | Sequence[str | Path]) -> list[Path]:
    return [Path(one) for one in ([given] if isinstance(given, str | Path) else given)]


def _several(given: str | Sequence[str]) -> list[str]:
    return [given] if isinstance(given, str) else list(given)


def load(folder: str | Path = "results", where: str | Sequence[str] = ()) -> Table:
    """The records of a folder as flat rows, oldest first; `where` is as on the command line."""
    rows, skipped = read_rows(Path(folder), _several(where))
    table = Table(rows)
    table.skipped = skipped
    if table.skipped:
        more = f" (and {len(table.skipped) - 1} more)" if len(table.skipped) > 1 else ""
        warnings.warn(f"{table.skipped[0]}{more}", stacklevel=2)
    return table

"""convdyno from Python: a function for each command that measures, trains or reports.

Problems are exceptions of `convdyno.errors`; a trial that fails is a result with a status.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, Unpack, get_type_hints

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
from convdyno.app.options import (
    BenchOptions,
    CertifyOptions,
    CompareOptions,
    EvaluateOptions,
    GateOptions,
    ReportOptions,
    SweepOptions,
    TrainOptions,
    TuneOptions,
)
from convdyno.app.reporting import Report
from convdyno.app.shown import frame
from convdyno.app.stored_results import load as read_rows
from convdyno.app.sweeps import SweepStanding
from convdyno.app.training import Trained
from convdyno.app.tuning import Tuned
from convdyno.errors import UsageError

P = ParamSpec("P")
T = TypeVar("T")
Folders = str | Path | Sequence[str | Path]
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


def _named(options: type[Any]) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Let a function show its options as arguments: to `help`, `inspect` and editors."""

    def decorate(does: Callable[P, T]) -> Callable[P, T]:
        shown = inspect.signature(does)
        own = [one for one in shown.parameters.values() if one.kind is not one.VAR_KEYWORD]
        more = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
            for name, kind in get_type_hints(options).items()
            if name not in shown.parameters
        ]
        does.__signature__ = shown.replace(parameters=[*own, *more])  # type: ignore[attr-defined]
        return does

    return decorate


@_named(BenchOptions)
def bench(
    network: str | Sequence[str], *, verbose: bool = False, **options: Unpack[BenchOptions]
) -> Result:
    """Measure how fast networks train or infer: `convdyno bench`, with its options by their names.

    A list makes cells of all combinations, which are measured in turns and compared in pairs. Every
    cell leaves a record in the folder `out`.
    """
    for name in options:
        if name in ONLY_THERE:
            raise UsageError(f"{name} is for the command line: `convdyno bench --help`")
    request = BenchRequest.of(network=network, **options)
    return app.bench(request, Narrator(quiet=not verbose))


@_named(GateOptions)
def gate(
    network: str | Sequence[str] | None = None,
    *,
    verbose: bool = False,
    **options: Unpack[GateOptions],
) -> Gated:
    """Hold a candidate against a base: `convdyno gate`, with its options by their names."""
    request = GateRequest.of(network=network, **options)
    return app.gate(request, Narrator(quiet=not verbose))


@_named(TuneOptions)
def tune(network: str, *, verbose: bool = False, **options: Unpack[TuneOptions]) -> Tuned:
    """Search the fastest settings of one network and engine: `convdyno tune`."""
    return app.tune(TuneRequest.of(network=network, **options), Narrator(quiet=not verbose))


@_named(SweepOptions)
def sweep(
    file: str | Path, *, verbose: bool = False, **options: Unpack[SweepOptions]
) -> SweepStanding:
    """Measure every combination of a file's values: `convdyno sweep`; again, it goes on."""
    return app.sweep(SweepRequest.of(file=file, **options), Narrator(quiet=not verbose))


@_named(TrainOptions)
def train(network: str, **options: Unpack[TrainOptions]) -> Trained:
    """Train a network on real data, which are `data`, evaluate and save it: `convdyno train`."""
    if not options.get("data"):
        raise UsageError("which data? Give data='mnist', another name, or a path")
    return app.train(TrainRequest.of(network=network, **options))


@_named(EvaluateOptions)
def evaluate(checkpoint: str | Path, **options: Unpack[EvaluateOptions]) -> Evaluation:
    """Evaluate a checkpoint over every test image: `convdyno eval`."""
    return app.evaluate(EvaluateRequest.of(checkpoint=checkpoint, **options))


@_named(CertifyOptions)
def certify(network: str, **options: Unpack[CertifyOptions]) -> Certified:
    """Prove that engines compute the same network: `convdyno certify`."""
    return Certified(list(app.certify(CertifyRequest.of(network=network, **options))))


@_named(CompareOptions)
def compare(results: Folders = "results", **options: Unpack[CompareOptions]) -> Comparisons:
    """Compare stored cells that are alike in all but one thing: `convdyno compare`."""
    return app.compare(CompareRequest.of(results=results, **options))


@_named(ReportOptions)
def report(results: Folders = "results", **options: Unpack[ReportOptions]) -> Report:
    """Write what was measured: `convdyno report`, `html="report.html"` if no file is named."""
    if not options.keys() - {"where", "title"}:
        options["html"] = "report.html"
    return app.report(ReportRequest.of(results=results, **options))


def load(folder: str | Path = "results", where: str | Sequence[str] = ()) -> Table:
    """The records of a folder as flat rows, oldest first; `where` is as on the command line."""
    asked = CompareRequest.of(results=folder, where=where)
    rows, skipped = read_rows(asked.results[0], asked.where)
    table = Table(rows)
    table.skipped = skipped
    if table.skipped:
        more = f" (and {len(table.skipped) - 1} more)" if len(table.skipped) > 1 else ""
        warnings.warn(f"{table.skipped[0]}{more}", stacklevel=2)
    return table

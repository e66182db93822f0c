"""What convdyno does, for every caller: a frozen request in, a result out.

    from convdyno.app import BenchRequest, bench
    print(bench(BenchRequest(network="deepmnist", budget="20s")))

Nothing here prints, ends the process or reads the command line: who wants to follow gives a
narrator, and problems are exceptions of `convdyno.errors`. Use cases are imported when they are
first used, so that help is instant.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from convdyno.app.requests import BenchRequest as BenchRequest
from convdyno.app.requests import CertifyRequest as CertifyRequest
from convdyno.app.requests import CompareRequest as CompareRequest
from convdyno.app.requests import EvaluateRequest as EvaluateRequest
from convdyno.app.requests import GateRequest as GateRequest
from convdyno.app.requests import ReportRequest as ReportRequest
from convdyno.app.requests import SweepRequest as SweepRequest
from convdyno.app.requests import TrainRequest as TrainRequest
from convdyno.app.requests import TuneRequest as TuneRequest

if TYPE_CHECKING:
    from convdyno.app.benchmark import bench as bench
    from convdyno.app.certification import certify as certify
    from convdyno.app.comparison import compare as compare
    from convdyno.app.evaluation import evaluate as evaluate
    from convdyno.app.gates import gate as gate
    from convdyno.app.reporting import report as report
    from convdyno.app.result import Result as Result
    from convdyno.app.slurm_runs import submit as submit
    from convdyno.app.sweeps import sweep as sweep
    from convdyno.app.training import train as train
    from convdyno.app.tuning import tune as tune
    from convdyno.stage.progress import Narrator as Narrator

_MODULES = {
    "bench": "convdyno.app.benchmark",
    "certify": "convdyno.app.certification",
    "compare": "convdyno.app.comparison",
    "evaluate": "convdyno.app.evaluation",
    "gate": "convdyno.app.gates",
    "report": "convdyno.app.reporting",
    "Result": "convdyno.app.result",
    "submit": "convdyno.app.slurm_runs",
    "sweep": "convdyno.app.sweeps",
    "train": "convdyno.app.training",
    "tune": "convdyno.app.tuning",
    "Narrator": "convdyno.stage.progress",
}
__all__ = [*_MODULES, *(name for name in globals() if name.endswith("Request"))]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module 'convdyno.app' has no attribute {name!r}")

"""What this machine can do, and what would spoil a measurement on it."""

from __future__ import annotations

from typing import Any

from convdyno.data.decode import chosen
from convdyno.data.native.build import reason
from convdyno.engines.registry import engines
from convdyno.errors import ConvdynoError, TrialFailed
from convdyno.launch.local import LocalWorker
from convdyno.machine import facts
from convdyno.stage.progress import SILENCE, Narrator
from convdyno.trial.spec import make_trial

SILENCE_SECONDS = 120.0


def examine(*, quick: bool = False, narrator: Narrator = SILENCE) -> dict[str, Any]:
    """Processor, engines, disturbances, and which precisions are fast unless it shall be quick."""
    found: dict[str, Any] = {
        "machine": facts.machine(),
        "engines": {i.name: i.version for i in engines().values() if i.installed},
        "missing": {i.name: i.install for i in engines().values() if not i.installed},
        "disturbances": facts.disturbances(),
        "decoder": _decoder(),
    }
    if not quick:
        found["peaks"] = [
            _peaks(info.name, precision, narrator)
            for info in engines().values()
            if info.installed
            for precision in info.precisions
        ]
    return found


def _decoder() -> dict[str, str]:
    """What JPEGs are decoded with, and why it is not the fastest, where it is not."""
    try:
        name = chosen("auto")
    except ConvdynoError as missing:
        return {"name": "none", "reason": str(missing)}
    return {"name": name, "reason": (reason() or "") if name != "native" else ""}


def _peaks(engine: str, precision: str, narrator: Narrator) -> dict[str, Any]:
    """What a precision reaches in an engine, measured in a worker of its own."""
    narrator.tell(f"measuring {engine} {precision} ...")
    trial = make_trial(network="trivial", engine=engine, mode="infer", batch=1, precision=precision)
    row: dict[str, Any] = {"engine": engine, "precision": precision}
    worker = LocalWorker()
    try:
        opened = worker.ask("open", silence=SILENCE_SECONDS, trial=trial.model_dump(mode="json"))
        probed = worker.ask("probe", silence=SILENCE_SECONDS)
        row |= {peak["kind"]: peak["per_second"] for peak in probed["peaks"]}
        row["warnings"] = opened["settings"]["warnings"]
    except TrialFailed as failure:
        row["refused"] = str(failure)
    finally:
        worker.end()
    return row

"""What this machine can do, and what would spoil a measurement on it."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
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
ENOUGH_SECONDS = 40.0
"""After so long no further precision is tried, so that a minute is enough for all."""
NO_TIME = "no time left: `convdyno doctor --full` measures it"


def examine() -> dict[str, Any]:
    """Processor, engines, and what would disturb a measurement now."""
    return {
        "machine": facts.machine(),
        "engines": {i.name: i.version for i in engines().values() if i.installed},
        "missing": {i.name: i.install for i in engines().values() if not i.installed},
        "disturbances": facts.disturbances(),
        "decoder": _decoder(),
    }


def peaks(*, full: bool = False, narrator: Narrator = SILENCE) -> Iterator[dict[str, Any]]:
    """What each precision reaches in each engine, as soon as it is known.

    Unless all of it is wanted: without Keras, which computes as the framework beneath does, and for
    no longer than a minute.
    """
    until = math.inf if full else time.monotonic() + ENOUGH_SECONDS
    nvidia = bool(facts.gpus())
    for info in engines().values():
        for precision in info.precisions if info.installed else ():
            row = {"engine": info.name, "precision": precision}
            if ("/" in info.name and not full) or (precision == "tf32" and not nvidia):
                continue
            if time.monotonic() > until:
                yield row | {"refused": NO_TIME}
            else:
                with narrator.waiting(f"measuring {info.name} {precision}"):
                    found = _peaks(info.name, precision)
                narrator.clear()
                yield row | found


def _decoder() -> dict[str, str]:
    """What JPEGs are decoded with, and why it is not the fastest, where it is not."""
    try:
        name = chosen("auto")
    except ConvdynoError as missing:
        return {"name": "none", "reason": str(missing)}
    return {"name": name, "reason": (reason() or "") if name != "native" else ""}


def _peaks(engine: str, precision: str) -> dict[str, Any]:
    """What a precision reaches in an engine, measured in a worker of its own."""
    trial = make_trial(network="trivial", engine=engine, mode="infer", batch=1, precision=precision)
    worker = LocalWorker()
    try:
        opened = worker.ask("open", silence=SILENCE_SECONDS, trial=trial.model_dump(mode="json"))
        probed = worker.ask("probe", silence=SILENCE_SECONDS)
        found = {peak["kind"]: peak["per_second"] for peak in probed["peaks"]}
        return found | {"warnings": opened["settings"]["warnings"]}
    except TrialFailed as failure:
        return {"refused": str(failure)}
    finally:
        worker.end()

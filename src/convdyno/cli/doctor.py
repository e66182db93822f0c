"""`convdyno doctor`: what this machine can do, and what would spoil a measurement on it."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

EXAMPLES = """\b
Examples:
  convdyno doctor
  convdyno doctor --quick --json
"""

SILENCE_SECONDS = 120.0


def doctor(
    quick: Annotated[
        bool, typer.Option("--quick", help="Do not measure which precision is fast.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Examine this machine: processor, engines, fast precisions, disturbances, what to do."""
    from convdyno.engines.registry import engines
    from convdyno.results import facts

    report: dict[str, Any] = {
        "machine": facts.machine(),
        "engines": {i.name: i.version for i in engines().values() if i.installed},
        "missing": {i.name: i.install for i in engines().values() if not i.installed},
        "disturbances": facts.disturbances(),
        "decoder": _decoder(),
    }
    if not quick:
        names = [i.name for i in engines().values() if i.installed and i.precisions]
        report["peaks"] = [peak for name in names for peak in _peaks(name, as_json)]
    if as_json:
        typer.echo(json.dumps(report, indent=1))
        return
    from convdyno.report.console import Screen

    Screen().doctor(report)


def _decoder() -> dict[str, str]:
    """What JPEGs are decoded with, and why it is not the fastest, where it is not."""
    from convdyno.errors import ConvdynoError

    try:
        from convdyno.data.decode import chosen
        from convdyno.data.native.build import reason

        name = chosen("auto")
    except ConvdynoError as missing:
        return {"name": "none", "reason": str(missing)}
    return {"name": name, "reason": (reason() or "") if name != "native" else ""}


def _peaks(engine: str, quiet: bool) -> list[dict[str, Any]]:
    """What each precision reaches in that engine, measured in a worker of its own."""
    from convdyno.engines.registry import engines
    from convdyno.errors import TrialFailed
    from convdyno.launch.local import LocalWorker
    from convdyno.trial.spec import make_trial

    peaks = []
    for precision in engines()[engine].precisions:
        if not quiet:
            typer.echo(f"measuring {engine} {precision} ...", err=True)
        trial = make_trial(
            network="trivial", engine=engine, mode="infer", batch=1, precision=precision
        )
        row: dict[str, Any] = {"engine": engine, "precision": precision}
        worker = LocalWorker()
        try:
            opened = worker.ask(
                "open", silence=SILENCE_SECONDS, trial=trial.model_dump(mode="json")
            )
            probed = worker.ask("probe", silence=SILENCE_SECONDS)
            row |= {peak["kind"]: peak["per_second"] for peak in probed["peaks"]}
            row["warnings"] = opened["settings"]["warnings"]
        except TrialFailed as failure:
            row["refused"] = str(failure)
        finally:
            worker.end()
        peaks.append(row)
    return peaks

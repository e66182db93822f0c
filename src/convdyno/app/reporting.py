"""Everything that was measured, on one page and in other forms."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from convdyno.app.certification import stored_certificates
from convdyno.app.files import write_file
from convdyno.app.requests import ReportRequest
from convdyno.blueprint.count import FLOAT_BYTES, count
from convdyno.errors import ConvdynoError, NothingMeasured
from convdyno.report import charts
from convdyno.report.bench_json import to_json
from convdyno.report.cells import gather
from convdyno.report.csv import as_csv
from convdyno.report.figures import figures
from convdyno.report.markdown import markdown as as_markdown
from convdyno.report.page import page
from convdyno.report.report_json import bencher as as_bencher
from convdyno.report.report_json import report_document
from convdyno.report.report_model import ReportModel, make_report
from convdyno.stage.progress import SILENCE, Narrator
from convdyno.trial.spec import Trial
from convdyno.zoo.registry import build, networks


@dataclass(frozen=True)
class Report:
    """What was written, and all of it as data."""

    written: list[Path]
    document: dict[str, Any]
    """Empty if it was not asked for."""


def report(request: ReportRequest, narrator: Narrator = SILENCE) -> Report:
    """Write what was measured in every form that was asked for."""
    with ExitStack() as kept:
        meanwhile = charts.script_meanwhile
        library = kept.enter_context(meanwhile()) if request.html else charts.script
        found = gather(list(request.results), list(request.where))
        for sentence in found.skipped:
            narrator.say(f"skipped: {sentence}")
        if not found.cells and not found.trainings:
            places = ", ".join(map(str, request.results))
            raise NothingMeasured(f"there is nothing to report in {places}")
        model = make_report(found, stored_certificates(found.stores))
        written = [write_file(request.csv, as_csv(found.cells))] if request.csv else []
        written += _texts(model, request, library)
    written += _pictures(model, request.svg, request.png)
    data = report_document(model) if request.document else {}
    return Report(written, data)


def _texts(model: ReportModel, request: ReportRequest, library: Callable[[], str]) -> list[Path]:
    html, markdown, title = request.html, request.markdown, request.title
    written = []
    if html is not None:
        charts = figures(model, _activations)
        written.append(write_file(html, page(model, charts, title, library)))
    if markdown is not None:
        written.append(write_file(markdown, as_markdown(model, title)))
    if request.bencher is not None:
        written.append(write_file(request.bencher, to_json(as_bencher(model.latest))))
    return written


def _pictures(model: ReportModel, svg: Path | None, png: Path | None) -> list[Path]:
    """The charts as files, each by its own name."""
    if svg is None and png is None:
        return []
    written = []
    for figure in figures(model, _activations):
        if svg is not None:
            written.append(write_file(svg / f"{figure.name}.svg", charts.svg(figure)))
        if png is not None:
            written.append(write_file(png / f"{figure.name}.png", charts.png(figure)))
    return written


@cache
def _activations(trial: Trial, digest: str) -> int | None:
    """How many numbers the layers of a network of the zoo put out; None if it has changed."""
    return _outputs(
        trial.network, trial.image_size, trial.classes, trial.width, trial.auxiliary
    ).get(digest)


@cache
def _outputs(
    network: str, size: tuple[int, int] | None, classes: int | None, width: float, auxiliary: bool
) -> dict[str, int]:
    """The same by digest; nothing for networks of the user's own, whose code is not run for it."""
    if network not in networks():
        return {}
    try:
        blueprint = build(network, size, classes, width, auxiliary)
    except ConvdynoError:
        return {}
    outputs = sum(node.activation_bytes for node in count(blueprint)) // FLOAT_BYTES
    return {blueprint.digest: outputs}

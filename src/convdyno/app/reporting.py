"""Everything that was measured, on one page and in other forms."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any

from convdyno.app.certification import stored_certificates
from convdyno.app.files import write_file
from convdyno.app.requests import ReportRequest
from convdyno.blueprint.count import FLOAT_BYTES, count
from convdyno.errors import ConvdynoError, NothingMeasured
from convdyno.report import charts, report_document
from convdyno.report.content import Content, make_content
from convdyno.report.csv import Lines
from convdyno.report.document import to_json
from convdyno.report.entries import Entry, gather
from convdyno.report.figures import figures
from convdyno.report.markdown import markdown as as_markdown
from convdyno.report.page import page
from convdyno.report.report_document import bencher as as_bencher
from convdyno.report.rows import Row
from convdyno.stage.progress import SILENCE, Narrator
from convdyno.trial.spec import Trial
from convdyno.trial.words import bench_command
from convdyno.zoo.registry import build, networks


@dataclass(frozen=True)
class Report:
    """What was written, and all of it as data."""

    written: list[Path]
    document: dict[str, Any]
    """Empty if it was not asked for."""


def report(request: ReportRequest, narrator: Narrator = SILENCE) -> Report:
    """Write what was measured in every form that was asked for."""
    rows: dict[str, dict[str, Any]] = {}
    with ExitStack() as kept:
        meanwhile = charts.script_meanwhile
        library = kept.enter_context(meanwhile()) if request.html else charts.script
        table = StringIO()
        lines = Lines(table)

        def each(row: Row) -> None:
            if request.csv:
                lines.write(row)
            if request.document:
                rows[row.id] = row.to_data()

        found = gather(list(request.results), list(request.where), each)
        for sentence in found.skipped:
            narrator.say(f"skipped: {sentence}")
        if not found.entries and not found.trainings:
            places = ", ".join(map(str, request.results))
            raise NothingMeasured(f"there is nothing to report in {places}")
        content = make_content(found, stored_certificates(found.stores))
        written = [write_file(request.csv, table.getvalue())] if request.csv else []
        written += _texts(content, request, library)
    written += _pictures(content, request.svg, request.png)
    data = report_document.document(content, rows, repeating) if request.document else {}
    return Report(written, data)


def repeating(entry: Entry) -> str:
    """The command that measures a cell again; where a place is part of it, its run's own."""
    trial = entry.trial
    if entry.command and (trial.hosts > 1 or trial.slurm or trial.staged):
        return entry.command
    return bench_command(trial, ladder=trial.rung != "source")


def _texts(content: Content, request: ReportRequest, library: Callable[[], str]) -> list[Path]:
    html, markdown, title = request.html, request.markdown, request.title
    written = []
    if html is not None:
        charts = figures(content, _activations)
        written.append(write_file(html, page(content, charts, repeating, title, library)))
    if markdown is not None:
        written.append(write_file(markdown, as_markdown(content, repeating, title)))
    if request.bencher is not None:
        written.append(write_file(request.bencher, to_json(as_bencher(content.latest))))
    return written


def _pictures(content: Content, svg: Path | None, png: Path | None) -> list[Path]:
    """The charts as files, each by its own name."""
    if svg is None and png is None:
        return []
    written = []
    for figure in figures(content, _activations):
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

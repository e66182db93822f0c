"""Everything that was measured, on one page and in other forms."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from convdyno.app.requests import ReportRequest
from convdyno.app.shown import Shown
from convdyno.blueprint.count import FLOAT_BYTES, count
from convdyno.errors import ConvdynoError, NothingMeasured, UsageError
from convdyno.files import write_whole
from convdyno.report import charts
from convdyno.report.bench_json import to_json
from convdyno.report.cell import Cell
from convdyno.report.cells import gather
from convdyno.report.columns import flat
from convdyno.report.console import Screen
from convdyno.report.csv import as_csv
from convdyno.report.figures import figures
from convdyno.report.markdown import markdown
from convdyno.report.page import page
from convdyno.report.report_json import bencher, report_document
from convdyno.report.report_model import make_report
from convdyno.stage.progress import SILENCE, Narrator
from convdyno.store.folder import stored_certificates
from convdyno.trial.spec import Trial
from convdyno.zoo.registry import build, networks

OUTPUT = Path("-")
"""Instead of a file: what is to be printed."""


@dataclass(frozen=True, eq=False, repr=False)
class Report(Shown):
    """What was written, and all of it as data."""

    written: list[Path]
    document: dict[str, Any]
    """Empty if it was not asked for."""
    cells: list[Cell]
    """What was reported of."""
    printed: str = ""
    """What was wanted on standard output."""

    def show(self, screen: Screen) -> None:
        """Print which files were written."""
        screen.line("written: " + (", ".join(map(str, self.written)) or "nothing"))

    def to_dicts(self) -> list[dict[str, Any]]:
        """A flat dict for each cell, as `load` gives them."""
        return [flat(cell) for cell in self.cells]


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
        drawn = partial(figures, model, _activations)
        texts: list[tuple[Path | None, Callable[[], str]]] = [
            (request.csv, lambda: as_csv(found.cells)),
            (request.html, lambda: page(model, drawn(), request.title, library)),
            (request.markdown, lambda: markdown(model, request.title)),
            (request.bencher, lambda: to_json(bencher(model.latest))),
        ]
        printed = "".join(text() for path, text in texts if path == OUTPUT)
        files = [(path, text) for path, text in texts if path is not None and path != OUTPUT]
        written = [write_file(path, text()) for path, text in files]
    for figure in drawn() if request.svg or request.png else ():
        if request.svg is not None:
            written.append(write_file(request.svg / f"{figure.name}.svg", charts.svg(figure)))
        if request.png is not None:
            written.append(write_file(request.png / f"{figure.name}.png", charts.png(figure)))
    document = report_document(model) if request.document else {}
    return Report(written, document, found.cells, printed)


def write_file(path: Path, content: str | bytes) -> Path:
    """Write a file whole or not at all; what is no plain file, such as /dev/stdout, directly."""
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        else:
            write_whole(path.resolve(), content, sync=False)
    except OSError as wrong:
        raise UsageError(f"{str(path)!r} cannot be written: {wrong.strerror}") from None
    return path


def _activations(trial: Trial, digest: str) -> int | None:
    """How many numbers the layers of a network of the zoo put out; None if it has changed."""
    form = trial.network, trial.image_size, trial.classes, trial.width, trial.auxiliary
    return _outputs(*form).get(digest)


@cache
def _outputs(network: str, *form: Any) -> dict[str, int]:
    """The same by digest; nothing for networks of the user's own, whose code is not run for it."""
    if network not in networks():
        return {}
    try:
        blueprint = build(network, *form)
    except ConvdynoError:
        return {}
    outputs = sum(node.activation_bytes for node in count(blueprint)) // FLOAT_BYTES
    return {blueprint.digest: outputs}

"""`convdyno report`: everything that was measured, on one page."""

from __future__ import annotations

import shlex
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from convdyno.cli.files import write_file

if TYPE_CHECKING:
    from collections.abc import Callable

    from convdyno.report.cell import Cell
    from convdyno.report.report_model import ReportModel
    from convdyno.trial.spec import Trial

EXAMPLES = """\b
Examples:
  convdyno report
  convdyno report results/ --html report.html
  convdyno report results/ runs/ --where network=resnet50 --svg pictures --markdown report.md
  convdyno report results/ --csv all.csv --bencher bencher.json

\b
Exit codes: 0 done, 2 bad usage or input, 4 there is nothing to report.
"""
PAGE = Path("report.html")


def report(
    results: Annotated[
        list[Path] | None,
        typer.Argument(metavar="RESULTS", help="Folders of records, and of runs of training."),
    ] = None,
    html: Annotated[
        Path | None, typer.Option(help="One page that needs no network; default: report.html.")
    ] = None,
    svg: Annotated[Path | None, typer.Option(help="A folder for the charts as SVG.")] = None,
    png: Annotated[Path | None, typer.Option(help="A folder for the charts as PNG.")] = None,
    csv: Annotated[Path | None, typer.Option(help="All records as CSV.")] = None,
    markdown: Annotated[Path | None, typer.Option(help="The report as Markdown.")] = None,
    bencher: Annotated[Path | None, typer.Option(help="Bencher Metric Format (JSON).")] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(help="FIELD=VALUE[,VALUE] or FIELD!=VALUE; several must all hold."),
    ] = None,
    title: Annotated[str, typer.Option(help="Of the page.")] = "convdyno report",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Show what was measured: cells, ratios, scaling, where the time goes, what to mind.

    Without any option that names a file, the page is written to report.html.
    """
    from convdyno.cli.compare import stored_certificates
    from convdyno.errors import NothingMeasured
    from convdyno.report.cells import gather
    from convdyno.report.charts import script, script_meanwhile
    from convdyno.report.csv import as_csv
    from convdyno.report.report_model import make_report

    if not any((html, svg, png, csv, markdown, bencher, as_json)):
        html = PAGE
    with ExitStack() as kept:
        library = kept.enter_context(script_meanwhile()) if html else script
        found = gather(results or [Path("results")], where or [])
        for sentence in found.skipped:
            typer.echo(f"skipped: {sentence}", err=True)
        if not found.cells and not found.trainings:
            places = ", ".join(map(str, results or [Path("results")]))
            raise NothingMeasured(f"there is nothing to report in {places}")
        model = make_report(found, stored_certificates(found.stores))
        written = [write_file(csv, as_csv(found.cells))] if csv else []
        written += _texts(model, html, markdown, bencher, title, library)
    written += _pictures(model, svg, png)
    if as_json:
        from convdyno.report.bench_json import to_json
        from convdyno.report.report_json import report_document

        typer.echo(to_json(report_document(model, repeating)))
    else:
        typer.echo("written: " + ", ".join(map(str, written)))


def repeating(cell: Cell) -> str:
    """The command that measures a cell again; where a place is part of it, its run's own."""
    from convdyno.cli.words import bench_words

    trial = cell.trial
    if cell.command and (trial.hosts > 1 or trial.slurm or trial.staged):
        return cell.command
    return shlex.join(["convdyno", "bench", *bench_words(trial, ladder=trial.rung != "source")])


def _texts(
    model: ReportModel, html: Path | None, markdown: Path | None, bencher: Path | None, title: str,
    library: Callable[[], str],
) -> list[Path]:  # fmt: skip
    from convdyno.report.bench_json import to_json
    from convdyno.report.figures import figures
    from convdyno.report.markdown import markdown as as_markdown
    from convdyno.report.page import page
    from convdyno.report.report_json import bencher as as_bencher

    written = []
    if html is not None:
        charts = figures(model, _activations)
        written.append(write_file(html, page(model, charts, repeating, title, library)))
    if markdown is not None:
        written.append(write_file(markdown, as_markdown(model, repeating, title)))
    if bencher is not None:
        written.append(write_file(bencher, to_json(as_bencher(model.latest))))
    return written


def _pictures(model: ReportModel, svg: Path | None, png: Path | None) -> list[Path]:
    """The charts as files, each by its own name."""
    if svg is None and png is None:
        return []
    from convdyno.report import charts
    from convdyno.report.figures import figures

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
    from convdyno.blueprint.count import FLOAT_BYTES, count
    from convdyno.errors import ConvdynoError
    from convdyno.zoo.registry import build, networks

    if network not in networks():
        return {}
    try:
        blueprint = build(network, size, classes, width, auxiliary)
    except ConvdynoError:
        return {}
    outputs = sum(node.activation_bytes for node in count(blueprint)) // FLOAT_BYTES
    return {blueprint.digest: outputs}

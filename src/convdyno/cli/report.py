"""`convdyno report`: everything that was measured, on one page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import typer

from convdyno import app
from convdyno.cli.options import AsJson, Folders, asks, echo_json

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


@asks(app.ReportRequest)
def report(request: app.ReportRequest, results: Folders = None, as_json: AsJson = False) -> None:
    """Show what was measured, on one page.

    Cells, ratios, scaling, where the time goes, what to mind.

    Without any option that names a file, the page is written to report.html.
    """

    forms = ("html", "svg", "png", "csv", "markdown", "bencher")
    if not as_json and not any(getattr(request, form) for form in forms):
        request = replace(request, html=PAGE)
    found = app.report(replace(request, document=as_json), app.Narrator())
    if as_json:
        echo_json(found.document)
        return
    typer.echo(found.printed, nl=False)
    if found.written:
        typer.echo("written: " + ", ".join(map(str, found.written)), err=bool(found.printed))

"""`convdyno report`: everything that was measured, on one page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import typer

from convdyno.app.requests import ReportRequest
from convdyno.cli.options import AsJson, Folders, asks

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


@asks(ReportRequest)
def report(request: ReportRequest, results: Folders = None, as_json: AsJson = False) -> None:
    """Show what was measured: cells, ratios, scaling, where the time goes, what to mind.

    Without any option that names a file, the page is written to report.html.
    """
    from convdyno.app import Narrator
    from convdyno.app.reporting import report
    from convdyno.report.document import to_json

    forms = ("html", "svg", "png", "csv", "markdown", "bencher")
    if not as_json and not any(getattr(request, form) for form in forms):
        request = replace(request, html=PAGE)
    found = report(replace(request, document=as_json), Narrator())
    if as_json:
        typer.echo(to_json(found.document))
    else:
        typer.echo("written: " + ", ".join(map(str, found.written)))

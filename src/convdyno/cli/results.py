"""`convdyno results`: what has been measured."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

EXAMPLES = """\b
Examples:
  convdyno results list
  convdyno results show last
  convdyno results csv --out results > all.csv
"""

app = typer.Typer(
    help="Look at what has been measured: list, show, csv.",
    no_args_is_help=True,
    rich_markup_mode=None,
    epilog=EXAMPLES,
)

Out = Annotated[Path, typer.Option("--out", help="The results folder.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


@app.command("list", epilog=EXAMPLES)
def list_(out: Out = Path("results"), as_json: AsJson = False) -> None:
    """One line for each record, oldest first."""
    from convdyno.report.console import Screen
    from convdyno.report.document import to_json
    from convdyno.report.rows import row
    from convdyno.results.store import Store

    store = Store(out)
    rows = [row(record) for record in store.records()]
    _tell_skipped(store)
    if as_json:
        typer.echo(to_json({"records": [r.to_data() for r in rows]}))
    else:
        Screen().results(rows)


@app.command("show", epilog=EXAMPLES)
def show(
    record_id: Annotated[str, typer.Argument(help="An id, a part of it, or `last`.")],
    out: Out = Path("results"),
    as_json: AsJson = False,
) -> None:
    """One record: everything that was measured, and how to repeat it."""
    from convdyno.report.console import Screen
    from convdyno.report.rows import row
    from convdyno.results.store import Store

    record = Store(out).find(record_id)
    if as_json:
        typer.echo(record.model_dump_json(indent=1))
    else:
        Screen().record(record, row(record))


@app.command("csv", epilog=EXAMPLES)
def csv(
    out: Out = Path("results"),
    to: Annotated[
        Path | None, typer.Option("--to", help="A file; default: standard output.")
    ] = None,
) -> None:
    """All records as CSV, with the older tools' columns beside ours."""
    from convdyno.errors import UsageError
    from convdyno.report.csv import write_csv
    from convdyno.report.rows import row
    from convdyno.results.store import Store

    store = Store(out)
    rows = [row(record) for record in store.records()]
    _tell_skipped(store)
    if to is None:
        write_csv(rows, sys.stdout)
        return
    try:
        with to.open("w", newline="", encoding="utf-8") as file:
            write_csv(rows, file)
    except OSError as wrong:
        raise UsageError(f"{str(to)!r} cannot be written: {wrong.strerror}") from None


def _tell_skipped(store: object) -> None:
    for sentence in store.skipped:  # type: ignore[attr-defined]
        typer.echo(f"skipped: {sentence}", err=True)

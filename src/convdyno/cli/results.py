"""`convdyno results`: what has been measured."""

from __future__ import annotations

import sys
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from convdyno.cli.options import AsJson

if TYPE_CHECKING:
    from convdyno.app.stored_results import Merged

EXAMPLES = """\b
Examples:
  convdyno results list --where network=resnet50 --where label.gpu=k80
  convdyno results show last
  convdyno results csv --out results > all.csv
  convdyno results archive
  convdyno results merge /mnt/node1/results /mnt/node2/results --out all
"""

app = typer.Typer(
    help="Look at what has been measured, and keep it in order: list, show, csv, archive, merge.",
    no_args_is_help=True,
    rich_markup_mode=None,
    epilog=EXAMPLES,
)

Out = Annotated[Path, typer.Option("--out", help="The results folder.")]
Where = Annotated[
    list[str] | None,
    typer.Option("--where", help="FIELD=VALUE or FIELD!=VALUE, also label.NAME=...; again: and."),
]


@app.command("list", epilog=EXAMPLES)
def list_(out: Out = Path("results"), where: Where = None, as_json: AsJson = False) -> None:
    """One line for each record, oldest first."""
    from convdyno.app import Narrator
    from convdyno.app.stored_results import heads, records

    if as_json:
        from convdyno.report.document import to_json
        from convdyno.report.rows import row

        rows = [row(record) for record in records(out, where or (), Narrator())]
        typer.echo(to_json({"records": [r.to_data() for r in rows]}))
        return
    from convdyno.report.listing import lines

    typer.echo("\n".join(lines(heads(out, where or (), Narrator()))))


@app.command("show", epilog=EXAMPLES)
def show(
    record_id: Annotated[str, typer.Argument(help="An id, a part of it, or `last`.")],
    out: Out = Path("results"),
    as_json: AsJson = False,
) -> None:
    """One record: everything that was measured, and how to repeat it."""
    from convdyno.app.stored_results import find_record
    from convdyno.report.console import Screen
    from convdyno.report.rows import row

    record = find_record(out, record_id)
    if as_json:
        typer.echo(record.model_dump_json(indent=1))
    else:
        Screen().record(record, row(record))


@app.command("csv", epilog=EXAMPLES)
def csv(
    out: Out = Path("results"),
    where: Where = None,
    to: Annotated[
        Path | None,
        typer.Option("--to", help="A file, or a folder: then DATE-results.csv in it."),
    ] = None,
) -> None:
    """All records as CSV, with the older tools' columns beside ours."""
    import datetime

    from convdyno.app import Narrator
    from convdyno.app.files import write_file
    from convdyno.app.stored_results import records
    from convdyno.report.csv import write_csv
    from convdyno.report.rows import row

    rows = map(row, records(out, where or (), Narrator()))
    if to is None:
        write_csv(rows, sys.stdout)
        return
    if to.is_dir():
        to = to / f"{datetime.date.today()}-results.csv"
    table = StringIO()
    write_csv(rows, table)
    write_file(to, table.getvalue())


@app.command("archive", epilog=EXAMPLES)
def archive(out: Out = Path("results"), where: Where = None, as_json: AsJson = False) -> None:
    """Move all records, or some, out of the way: into archived/DATE below their folder.

    That folder is a results folder like any other. What is being measured now stays.
    """
    from convdyno.app import Narrator
    from convdyno.app.stored_results import archive
    from convdyno.report.document import to_json
    from convdyno.report.words import noun

    done = archive(out, where or (), Narrator())
    if as_json:
        document = {
            "folder": str(done.archived.folder) if done.archived else None,
            "records": [head.id for head in done.moved],
            "staying": list(done.staying),
        }
        typer.echo(to_json(document))
        return
    for name, holder in done.staying.items():
        typer.echo(f"{name} stays: it is being measured by {holder}", err=True)
    if done.archived is None:
        typer.echo("there is nothing to archive")
    else:
        count, folder = done.archived.others, done.archived.folder
        others = f" and {noun(count, 'other file')}" if count else ""
        typer.echo(f"{noun(done.archived.records, 'record')}{others} moved to {folder}")


@app.command("merge", epilog=EXAMPLES)
def merge(
    sources: Annotated[list[Path], typer.Argument(metavar="FOLDER...", help="Other stores.")],
    out: Out = Path("results"),
    as_json: AsJson = False,
) -> None:
    """Bring the records of other folders, from other machines perhaps, into one.

    Every record stays as it is and knows its machine: unlike machines are never averaged. A second
    time changes nothing.
    """
    from convdyno.app.stored_results import merge
    from convdyno.report.document import to_json

    merged = merge(sources, out)
    if as_json:
        typer.echo(to_json({"into": str(out), "from": [_merged_data(one) for one in merged]}))
        return
    for one in merged:
        for line in _merged_lines(one):
            typer.echo(line)


def _merged_data(one: Merged) -> dict[str, Any]:
    return {
        "folder": str(one.source),
        "added": one.added,
        "updated": one.updated,
        "renamed": one.renamed,
        "present": one.present,
        "skipped": one.skipped,
        "machines": dict(one.machines),
    }


def _merged_lines(one: Merged) -> list[str]:
    from convdyno.report.words import noun

    lines = [
        f"{one.source}: {noun(len(one.added), 'record')} added, {len(one.updated)} brought up to "
        f"date, {one.present} there already"
    ]
    lines += [f"  {noun(count, 'record')} from {name}" for name, count in one.machines.items()]
    lines += [f"  {old} is now {new}: another had the name" for old, new in one.renamed.items()]
    return lines + [f"  skipped: {sentence}" for sentence in one.skipped]

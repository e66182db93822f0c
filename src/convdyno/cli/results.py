"""`convdyno results`: what has been measured."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from convdyno.cli.help import examples
from convdyno.cli.options import AsJson, Out, echo_json, group, new_screen

EXAMPLES = """\b
Examples:
  convdyno results list --where network=resnet50 --where label.gpu=k80
  convdyno results show last
  convdyno results csv --out results > all.csv
  convdyno results archive
  convdyno results merge /mnt/node1/results /mnt/node2/results --out all
"""

app = group(
    "What has been measured: list, show, csv, archive, merge.",
    EXAMPLES,
)

Where = Annotated[
    list[str] | None,
    typer.Option("--where", help="FIELD=VALUE or FIELD!=VALUE, also label.NAME=...; again: and."),
]


@app.command(
    "list",
    epilog=examples(
        "convdyno results list",
        "convdyno results list --where network=resnet50 --where label.gpu=k80",
    ),
)
def list_(out: Out = Path("results"), where: Where = None, as_json: AsJson = False) -> None:
    """One line for each record, oldest first."""
    from convdyno.app import Narrator
    from convdyno.app.stored_results import heads, records

    if as_json:
        from convdyno.report.cell import cell_of
        from convdyno.report.columns import cell_data

        cells = map(cell_of, records(out, where or (), Narrator()))
        echo_json({"records": [cell_data(cell) for cell in cells]})
        return
    from convdyno.report.listing import lines

    typer.echo("\n".join(lines(heads(out, where or (), Narrator()))))


@app.command(
    "show",
    epilog=examples(
        "convdyno results show last",
        "convdyno results show last --json",
    ),
)
def show(
    record_id: Annotated[str, typer.Argument(help="An id, its beginning, or `last`.")],
    out: Out = Path("results"),
    as_json: AsJson = False,
) -> None:
    """One record: everything that was measured, and how to repeat it."""
    from convdyno.app.stored_results import find_record
    from convdyno.report.cell import cell_of

    record = find_record(out, record_id)
    if as_json:
        typer.echo(record.model_dump_json(indent=1))
    else:
        new_screen().record(record, cell_of(record))


@app.command(
    "csv",
    epilog=examples(
        "convdyno results csv > all.csv",
        "convdyno results csv --where engine=torch --to all.csv",
    ),
)
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
    from convdyno.app.stored_results import records
    from convdyno.report.cell import cell_of
    from convdyno.report.csv import as_csv, write_csv

    cells = map(cell_of, records(out, where or (), Narrator()))
    if to is None or to == Path("-"):
        write_csv(cells, sys.stdout)
        return
    if to.is_dir():
        to = to / f"{datetime.date.today()}-results.csv"
    from convdyno.app.reporting import write_file

    write_file(to, as_csv(cells))


@app.command(
    "archive",
    epilog=examples(
        "convdyno results archive",
        "convdyno results archive --where status=failed",
    ),
)
def archive(out: Out = Path("results"), where: Where = None, as_json: AsJson = False) -> None:
    """Move all records, or some, out of the way: into archived/DATE below their folder.

    That folder is a results folder like any other. What is being measured now stays.
    """
    from convdyno.app import Narrator
    from convdyno.app.stored_results import archive
    from convdyno.report.format import noun

    done = archive(out, where or (), Narrator())
    if as_json:
        document = {
            "folder": str(done.archived.folder) if done.archived else None,
            "records": [head.id for head in done.moved],
            "staying": list(done.staying),
        }
        echo_json(document)
        return
    for name, holder in done.staying.items():
        typer.echo(f"{name} stays: it is being measured by {holder}", err=True)
    if done.archived is None:
        typer.echo("there is nothing to archive")
    else:
        count, folder = done.archived.others, done.archived.folder
        others = f" and {noun(count, 'other file')}" if count else ""
        typer.echo(f"{noun(done.archived.records, 'record')}{others} moved to {folder}")


@app.command(
    "merge",
    epilog=examples(
        "convdyno results merge /mnt/node1/results /mnt/node2/results --out all",
    ),
)
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
    from convdyno.report.format import noun

    merged = merge(sources, out)
    if as_json:
        names = ("added", "updated", "renamed", "present", "skipped", "machines")
        data = [{"folder": str(m.source)} | {n: getattr(m, n) for n in names} for m in merged]
        echo_json({"into": str(out), "from": data})
        return
    for one in merged:
        added, updated = noun(len(one.added), "record"), f"{len(one.updated)} brought up to date"
        lines = [f"{one.source}: {added} added, {updated}, {one.present} there already"]
        lines += [f"  {noun(count, 'record')} from {name}" for name, count in one.machines.items()]
        lines += [f"  {old} is now {new}: another had the name" for old, new in one.renamed.items()]
        lines += [f"  skipped: {sentence}" for sentence in one.skipped]
        typer.echo("\n".join(lines))

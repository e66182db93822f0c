"""`convdyno results`: what has been measured."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from convdyno.results.index import Head, Index
    from convdyno.results.merge import Merged
    from convdyno.results.record import Record

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
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Where = Annotated[
    list[str] | None,
    typer.Option("--where", help="FIELD=VALUE or FIELD!=VALUE, also label.NAME=...; again: and."),
]


@app.command("list", epilog=EXAMPLES)
def list_(out: Out = Path("results"), where: Where = None, as_json: AsJson = False) -> None:
    """One line for each record, oldest first."""
    if as_json:
        from convdyno.report.bench_json import to_json
        from convdyno.report.cell import cell_of
        from convdyno.report.columns import cell_data

        cells = map(cell_of, _records(out, where))
        typer.echo(to_json({"records": [cell_data(cell) for cell in cells]}))
        return
    from convdyno.report.listing import lines

    typer.echo("\n".join(lines(_heads(out, where))))


@app.command("show", epilog=EXAMPLES)
def show(
    record_id: Annotated[str, typer.Argument(help="An id, its beginning, or `last`.")],
    out: Out = Path("results"),
    as_json: AsJson = False,
) -> None:
    """One record: everything that was measured, and how to repeat it."""
    from convdyno.report.cell import cell_of
    from convdyno.report.console import Screen
    from convdyno.results.store import read_record

    record = read_record(out / _index(out).find(record_id).file)
    if as_json:
        typer.echo(record.model_dump_json(indent=1))
    else:
        Screen().record(record, cell_of(record))


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

    from convdyno.cli.files import write_file
    from convdyno.report.cell import cell_of
    from convdyno.report.csv import as_csv, write_csv

    cells = map(cell_of, _records(out, where))
    if to is None:
        write_csv(cells, sys.stdout)
        return
    if to.is_dir():
        to = to / f"{datetime.date.today()}-results.csv"
    write_file(to, as_csv(cells))


@app.command("archive", epilog=EXAMPLES)
def archive(out: Out = Path("results"), where: Where = None, as_json: AsJson = False) -> None:
    """Move all records, or some, out of the way: into archived/DATE below their folder.

    That folder is a results folder like any other. What is being measured now stays.
    """
    from convdyno.report.bench_json import to_json
    from convdyno.report.format import noun
    from convdyno.results.archive import archive
    from convdyno.results.claims import holders
    from convdyno.results.machines import cell_name

    heads = _heads(out, where)
    busy = dict(holders(out)) if heads else {}
    staying = [head for head in heads if cell_name(head.digest, head.kind) in busy]
    moving = [head for head in heads if head not in staying]
    files = [head.file for head in moving]
    done = archive(out, files, derived=not where and not staying) if moving else None
    if as_json:
        document = {
            "folder": str(done.folder) if done else None,
            "records": [head.id for head in moving],
            "staying": [head.id for head in staying],
        }
        typer.echo(to_json(document))
        return
    for head in staying:
        holder = busy[cell_name(head.digest, head.kind)]
        typer.echo(f"{head.id} stays: it is being measured by {holder}", err=True)
    if done is None:
        typer.echo("there is nothing to archive")
    else:
        others = f" and {noun(done.others, 'other file')}" if done.others else ""
        typer.echo(f"{noun(done.records, 'record')}{others} moved to {done.folder}")


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
    from convdyno.report.bench_json import to_json
    from convdyno.results import merge as merging
    from convdyno.results.store import Store

    store = Store(out)
    store.prepare()
    merged = [merging.merge(source, store) for source in sources]
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
    from convdyno.report.format import noun

    lines = [
        f"{one.source}: {noun(len(one.added), 'record')} added, {len(one.updated)} brought up to "
        f"date, {one.present} there already"
    ]
    lines += [f"  {noun(count, 'record')} from {name}" for name, count in one.machines.items()]
    lines += [f"  {old} is now {new}: another had the name" for old, new in one.renamed.items()]
    return lines + [f"  skipped: {sentence}" for sentence in one.skipped]


def _index(out: Path) -> Index:
    """What is in a folder."""
    from convdyno.results.index import Index

    def figures(record: Record) -> dict[str, Any]:
        from convdyno.stats.index_figures import figures

        return figures(record)

    return Index(out, figures)


def _heads(out: Path, where: list[str] | None) -> list[Head]:
    """The heads of the records for which all conditions hold."""
    index = _index(out)
    try:
        return index.select(where or ())
    finally:
        _tell_skipped(index.skipped)


def _records(out: Path, where: list[str] | None) -> Iterator[Record]:
    """The same in full, one at a time."""
    from convdyno.errors import BadStore
    from convdyno.results.store import read_record

    for head in _heads(out, where):
        with suppress(BadStore):  # It was moved away meanwhile.
            yield read_record(out / head.file)


def _tell_skipped(sentences: list[str]) -> None:
    for sentence in sentences:
        typer.echo(f"skipped: {sentence}", err=True)

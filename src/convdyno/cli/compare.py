"""`convdyno compare`: what is faster, from records that are there already."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from convdyno.report.comparisons import Certificates
    from convdyno.results.store import Store

EXAMPLES = """\b
Examples:
  convdyno compare results/ --by engine --where network=resnet50
  convdyno compare results/ --by precision --where engine=torch --where mode=train
  convdyno compare results/ --by engine --against torch --json
  convdyno compare here/ there/ --by machine

\b
Exit codes: 0 done, 2 bad usage or input, 4 there is nothing to compare.
"""


def compare(
    results: Annotated[
        list[Path] | None, typer.Argument(metavar="RESULTS", help="Folders of records.")
    ] = None,
    by: Annotated[
        str, typer.Option(help="The axis: engine, precision, batch, ..., machine, label.NAME")
    ] = "engine",
    where: Annotated[
        list[str] | None,
        typer.Option(help="FIELD=VALUE[,VALUE] or FIELD!=VALUE; several must all hold."),
    ] = None,
    against: Annotated[
        str | None, typer.Option(help="Compare all values with this one; default: each with each.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Compare stored cells that are alike in all but one thing.

    Cells that took turns in one run are compared round by round. Cells of different runs on one
    machine are compared as they are, and called unpaired. Unlike machines are not compared, unless
    by machine.
    """
    from convdyno.errors import NothingMeasured, UnknownName
    from convdyno.report.bench_json import to_json
    from convdyno.report.cells import gather
    from convdyno.report.compare_view import compare_document, tables
    from convdyno.report.comparisons import (
        check_axis,
        judge,
        pairs_along,
        strangers_along,
        value_of,
    )
    from convdyno.report.console import MANY, Screen
    from convdyno.report.format import UNPAIRED

    conditions = where or []
    found = gather(results or [Path("results")], conditions)
    for sentence in found.skipped:
        typer.echo(f"skipped: {sentence}", err=True)
    axis = check_axis(by, found.cells)
    values = dict.fromkeys(v for e in found.measured if (v := value_of(e, axis)) is not None)
    if against is not None and values and against not in values:
        raise UnknownName(axis, against, values)
    unjudged = pairs_along(axis, found.cells, against)
    pairs = judge(unjudged, stored_certificates(found.stores))
    strangers = strangers_along(axis, found.cells)
    if as_json:
        typer.echo(to_json(compare_document(axis, conditions, pairs, strangers, found.skipped)))
    else:
        screen = Screen()
        for title, table in tables(pairs):
            screen.line(title, style="bold")
            screen.table(table, plain=len(pairs) > MANY)
            screen.line()
        if any(not pair.paired for pair in pairs):
            screen.line(f"unpaired: {UNPAIRED}")
        for one in strangers:
            screen.line(str(one), style="yellow")
    if not pairs:
        there = f"there is: {', '.join(values)}" if values else "no record was measured"
        raise NothingMeasured(f"no two cells differ in {axis} alone; {there}")


def stored_certificates(stores: list[Store]) -> Certificates:
    """The proofs that engines compute the same, from all of the folders."""
    return {
        (certificate.network, certificate.kernels): certificate
        for store in reversed(stores)
        for certificate in store.certificates()
    }

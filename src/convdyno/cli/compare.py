"""`convdyno compare`: what is faster, from records that are there already."""

from __future__ import annotations

from convdyno import app
from convdyno.cli.options import AsJson, Folders, asks, echo_json, new_screen
from convdyno.errors import NothingMeasured

EXAMPLES = """\b
Examples:
  convdyno compare results/ --by engine --where network=resnet50
  convdyno compare results/ --by precision --where engine=torch --where mode=train
  convdyno compare results/ --by engine --against torch --json
  convdyno compare here/ there/ --by machine

\b
Exit codes: 0 done, 2 bad usage or input, 4 there is nothing to compare.
"""


@asks(app.CompareRequest)
def compare(request: app.CompareRequest, results: Folders = None, as_json: AsJson = False) -> None:
    """Compare stored cells that are alike in all but one thing.

    Cells that took turns in one run are compared round by round. Cells of different runs on one
    machine are compared as they are, and called unpaired. Unlike machines are not compared, unless
    by machine.
    """
    from convdyno.report.compare_view import compare_document, tables
    from convdyno.report.console import MANY
    from convdyno.report.format import UNPAIRED

    found = app.compare(request, app.Narrator())
    pairs = found.pairs
    if as_json:
        where, strangers = list(request.where), found.strangers
        echo_json(compare_document(found.axis, where, pairs, strangers, found.skipped))
    else:
        screen = new_screen()
        for title, table in tables(pairs):
            screen.line(title, style="bold")
            screen.table(table, plain=len(pairs) > MANY)
            screen.line()
        if any(not pair.paired for pair in pairs):
            screen.line(f"unpaired: {UNPAIRED}")
        for one in found.strangers:
            screen.line(str(one), style="yellow")
    if not pairs:
        values = found.values
        there = f"there is: {', '.join(values)}" if values else "no record was measured"
        raise NothingMeasured(f"no two cells differ in {found.axis} alone; {there}")

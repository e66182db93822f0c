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
    from convdyno.report.compare_view import compare_document, show_pairs

    found = app.compare(request, app.Narrator())
    pairs, strangers = found.pairs, found.strangers
    if as_json:
        where = list(request.where)
        echo_json(compare_document(found.axis, where, pairs, strangers, found.skipped))
    else:
        show_pairs(new_screen(), pairs, strangers)
    if not pairs:
        raise NothingMeasured(found.nothing)

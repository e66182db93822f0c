"""`convdyno gate`: has it become slower, or something else?"""

from __future__ import annotations

import typer

from convdyno import app
from convdyno.cli.options import AsJson, Network, Networks, Quiet, asks, echo_json, new_screen

EXAMPLES = """\b
Examples:
  convdyno gate resnet50 --base-python ../main/.venv/bin/python
  convdyno gate resnet50 --base-set layout=nchw --within 5%
  convdyno gate --network mine.nets:small --base-folder ../main --json
  convdyno gate lenet --base-command "env OMP_NUM_THREADS=1 python -m convdyno.run.worker"
  convdyno gate --base results/main --within 3%
  convdyno gate resnet50 --floor --budget 10m

\b
Exit codes: 0 pass, 1 regression, 2 bad usage or a limit below the noise floor, 3 undecided,
4 nothing was measured, 130 or 143 stopped by Ctrl-C or SIGTERM (128 + the signal).
"""


@asks(app.GateRequest, "gate")
def gate(
    request: app.GateRequest, networks: Networks = None, network: Network = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:  # fmt: skip
    """Hold this environment against a base: has it become slower?

    Both are measured in turns, in the same rounds on this machine.

    The candidate passes when the interval of its speed lies above the limit, and is a regression
    when it lies below. What needs no statistics is compared exactly: the network, its counts, the
    losses of its first steps, compilations while it was measured.

    `--floor` measures the noise floor, which is what the same trial differs from itself here, and
    keeps it; a limit below it is then refused.
    """
    from convdyno.report.gate import EXIT_CODES, floor_document, gate_document, overall

    found = app.gate(request, app.Narrator(quiet=as_json or quiet))
    if request.floor and as_json:
        echo_json(floor_document(found.floors))
    elif as_json:
        echo_json(gate_document(found.gates, found.within, found.folder, found.base_folder))
    else:
        found.show(new_screen())
    if not request.floor:
        raise typer.Exit(EXIT_CODES[overall(found.gates)])

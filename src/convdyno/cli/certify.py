"""`convdyno certify`: the proof that engines compute the same network."""

from __future__ import annotations

from typing import Annotated

import typer

from convdyno import app
from convdyno.cli.options import AsJson, asks, echo_json, new_screen

EXAMPLES = """\b
Examples:
  convdyno certify resnet50-v1.5 --engine all
  convdyno certify deepmnist,lenet --engine torch --json
  convdyno certify resnet50 --engine torch,jax --precision fp32,bf16
  convdyno certify resnet20 --engine torch --coverage

\b
Exit codes: 0 all passed, 2 bad usage, 5 an engine differs or failed,
130 or 143 stopped by Ctrl-C or SIGTERM (128 + the signal).
"""


@asks(app.CertifyRequest)
def certify(
    request: app.CertifyRequest,
    network: Annotated[
        str, typer.Argument(metavar="NETWORK", help="A name, or a comma list of names.")
    ],
    as_json: AsJson = False,
) -> None:
    """Prove that engines compute the same network.

    Forward, gradients, updates, statistics. A small form of the network (an eighth of the channels,
    small images) is computed by each engine in a process of its own and compared, tensor by tensor,
    with a float64 reference.
    """
    from convdyno.report.bench_json import certificates_document

    found = []
    for certificate in app.certify(request):
        found.append(certificate)
        if not as_json:
            new_screen().certificate(certificate)
    if as_json:
        echo_json(certificates_document(found))
    if not all(certificate.passed for certificate in found):
        raise typer.Exit(5)

"""`convdyno show`: a network, layer by layer."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from convdyno.app.requests import DrawRequest
from convdyno.cli import complete
from convdyno.cli.options import AsJson, asks, echo_json, new_screen

EXAMPLES = """\b
Examples:
  convdyno show resnet50
  convdyno show inception3 --image-size 224 --classes 10
  convdyno show mypackage.nets:tiny --json
"""


@asks(DrawRequest)
def show(
    request: DrawRequest,
    network: Annotated[
        str,
        typer.Argument(
            metavar="NETWORK",
            help="A name of the zoo, or package.module:function.",
            autocompletion=complete.networks,
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """Show a network, layer by layer.

    Shapes, parameters, multiply-accumulates, memory.
    """
    from convdyno.app.catalogue import count, drawn

    blueprint = drawn(request)
    counts = count(blueprint)
    if as_json:
        document = {
            "network": blueprint.name,
            "digest": blueprint.digest,
            "image": blueprint.image,
            "classes": blueprint.classes,
            "parameters": blueprint.parameters,
            "macs": blueprint.macs,
            "activation_bytes": sum(node.activation_bytes for node in counts),
            "heads": [{"node": node, "weight": weight} for node, weight in blueprint.heads],
            "nodes": [
                {"name": node.name, "op": cost.op, "inputs": node.inputs, **asdict(cost)}
                for node, cost in zip(blueprint.nodes, counts, strict=True)
            ],
        }
        echo_json(document)
        return
    screen = new_screen()
    screen.table(
        [
            {
                "layer": cost.name,
                "op": cost.op,
                "output": "x".join(map(str, cost.shape)),
                "parameters": cost.parameters,
                "macs": cost.macs,
            }
            for cost in counts
        ]
    )
    screen.network(
        blueprint.name, blueprint.image, blueprint.classes, blueprint.parameters, blueprint.macs
    )
    activations = sum(node.activation_bytes for node in counts)
    screen.line(
        f"{activations / 1e6:.1f} MB of float32 activations an image, "
        f"{4 * blueprint.parameters / 1e6:.1f} MB of float32 weights; "
        f"digest {blueprint.digest[:12]}"
    )

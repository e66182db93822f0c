"""`convdyno show`: a network, layer by layer."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from convdyno.cli import complete
from convdyno.cli.options import AsJson

EXAMPLES = """\b
Examples:
  convdyno show resnet50
  convdyno show inception3 --image-size 224 --classes 10
  convdyno show mypackage.nets:tiny --json
"""


def show(
    network: Annotated[
        str,
        typer.Argument(
            help="A name of the zoo, or package.module:function.", autocompletion=complete.networks
        ),
    ],
    image_size: Annotated[
        str | None, typer.Option(help="224 or 224x160; default: the network's own.")
    ] = None,
    classes: Annotated[int | None, typer.Option(help="Number of classes.")] = None,
    width: Annotated[float, typer.Option(help="Multiplies every channel count.")] = 1.0,
    auxiliary: Annotated[
        bool, typer.Option("--auxiliary", help="With the auxiliary heads.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show a network: layers, shapes, parameters, multiply-accumulates, memory."""
    from convdyno.app.networks import costs, drawn

    blueprint = drawn(network, image_size, classes, width, auxiliary)
    counts = costs(blueprint)
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
                {
                    "name": node.name,
                    "op": cost.op,
                    "inputs": node.inputs,
                    "shape": cost.shape,
                    "parameters": cost.parameters,
                    "macs": cost.macs,
                    "activation_bytes": cost.activation_bytes,
                }
                for node, cost in zip(blueprint.nodes, counts, strict=True)
            ],
        }
        typer.echo(json.dumps(document, indent=1))
        return
    from convdyno.report.console import Screen

    screen = Screen()
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

"""What a network costs: parameters, multiply-accumulates and activation memory, node by node."""

from __future__ import annotations

import math
from dataclasses import dataclass

from convdyno.blueprint.graph import Blueprint, is_state
from convdyno.blueprint.ops import Shape

FLOAT_BYTES = 4


@dataclass(frozen=True, slots=True)
class NodeCount:
    """The cost of one node, for one image in float32."""

    name: str
    op: str
    shape: Shape
    parameters: int
    macs: int
    activation_bytes: int


def count(blueprint: Blueprint) -> list[NodeCount]:
    """The cost of each node, in the order of the graph."""
    return [
        NodeCount(
            name=node.name,
            op=type(node.op).__name__,
            shape=blueprint.shapes[node.name],
            parameters=sum(
                math.prod(shape)
                for weight, shape in node.op.weights(*blueprint.shapes_in(node)).items()
                if not is_state(weight)
            ),
            macs=node.op.macs(*blueprint.shapes_in(node)),
            activation_bytes=FLOAT_BYTES * math.prod(blueprint.shapes[node.name]),
        )
        for node in blueprint.nodes
    ]

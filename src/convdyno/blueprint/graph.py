"""A network as plain data: an immutable, topologically ordered graph of named ops."""

from __future__ import annotations

import hashlib
import json
import math
import sys
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, NamedTuple, get_args

from convdyno.blueprint.ops import (
    STATE,
    Dense,
    Dropout,
    Flatten,
    Input,
    Op,
    Shape,
    op_from_data,
    op_to_data,
)
from convdyno.errors import BadBlueprint

Init = Literal["he", "glorot", "deepmnist"]
"""How initial weights are drawn; see `weights.py`."""

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Node:
    """One op, its name and the names of what it reads."""

    name: str
    op: Op
    inputs: tuple[str, ...] = ()


class Head(NamedTuple):
    """An output of class scores and its share in the loss; the first head is the answer."""

    node: str
    weight: float = 1.0


@dataclass(frozen=True)
class Blueprint:
    """A network: no framework, no layout, no weights."""

    name: str
    nodes: tuple[Node, ...]
    heads: tuple[Head, ...]
    init: Init = "he"

    def __post_init__(self) -> None:
        _ = self.shapes
        if self.init not in get_args(Init):
            raise BadBlueprint(f"{self.name}: no initialisation is called {self.init!r}")
        if not self.heads:
            raise BadBlueprint(f"{self.name} has no output")
        for head in self.heads:
            if head.node not in self.shapes:
                raise BadBlueprint(f"{self.name}: the output {head.node!r} is not a node")
            shape = self.shapes[head.node]
            if len(shape) != 1 or shape != self.shapes[self.heads[0].node]:
                raise BadBlueprint(
                    f"{self.name}: the output {head.node!r} has the shape {shape}, "
                    "not one score for each class"
                )

    @cached_property
    def shapes(self) -> dict[str, Shape]:
        """The output shape of each node; walking it proves that the graph is well formed."""
        shapes: dict[str, Shape] = {}
        later = {node.name for node in self.nodes}
        for node in self.nodes:
            where = f"{self.name}: node {node.name!r} ({type(node.op).__name__})"
            if node.name in shapes:
                raise BadBlueprint(f"{where} has a name that an earlier node has")
            for source in node.inputs:
                if source not in shapes:
                    late = "comes after it, or in a cycle with it"
                    known = late if source in later else "does not exist"
                    raise BadBlueprint(f"{where} reads {source!r}, which {known}")
            low, high = node.op.arity
            if len(node.inputs) < low or (high is not None and len(node.inputs) > high):
                wanted = low if low == high else f"{low} or more"
                raise BadBlueprint(f"{where} has {len(node.inputs)} inputs, not {wanted}")
            try:
                shapes[node.name] = node.op.shape(*(shapes[i] for i in node.inputs))
            except ValueError as wrong:
                raise BadBlueprint(f"{where}: {wrong}") from None
        if sum(isinstance(node.op, Input) for node in self.nodes) != 1:
            raise BadBlueprint(f"{self.name} must have exactly one Input node")
        return shapes

    @cached_property
    def weights(self) -> dict[str, Shape]:
        """The shape of every weight, by its canonical name `node/weight`."""
        return {
            f"{node.name}/{weight}": shape
            for node in self.nodes
            for weight, shape in node.op.weights(*self.shapes_in(node)).items()
        }

    @cached_property
    def trainable(self) -> dict[str, Shape]:
        """The weights that training changes by gradient."""
        return {name: shape for name, shape in self.weights.items() if not is_state(name)}

    @property
    def image(self) -> Shape:
        """Height, width and channels of the input."""
        return next(self.shapes[node.name] for node in self.nodes if isinstance(node.op, Input))

    @property
    def classes(self) -> int:
        """How many classes the answer tells apart."""
        return self.shapes[self.heads[0].node][0]

    @property
    def parameters(self) -> int:
        """How many numbers training changes."""
        return sum(math.prod(shape) for shape in self.trainable.values())

    @property
    def macs(self) -> int:
        """Multiply-accumulates of one image's forward pass through all heads."""
        return sum(node.op.macs(*self.shapes_in(node)) for node in self.nodes)

    def shapes_in(self, node: Node) -> tuple[Shape, ...]:
        """The shapes that a node reads."""
        return tuple(self.shapes[name] for name in node.inputs)

    def for_inference(self) -> Blueprint:
        """The same network with only what the answer needs: no auxiliary heads."""
        return Blueprint(self.name, self._needed(self.heads[0].node), self.heads[:1], self.init)

    def probed(self, name: str, classes: int) -> Blueprint:
        """The beginning of the network, with a dense layer on all values of one node."""
        nodes = self._needed(name)
        if len(self.shapes[name]) > 1:
            nodes = (*nodes, Node(f"{name}/values", Flatten(), (name,)))
        answer = Node(f"{name}/probe", Dense(classes, bias=False), (nodes[-1].name,))
        return Blueprint(self.name, (*nodes, answer), (Head(answer.name),), self.init)

    def without_dropout(self) -> Blueprint:
        """The same network with nothing random in its training."""
        calm = (replace(n, op=Dropout(0.0)) if isinstance(n.op, Dropout) else n for n in self.nodes)
        return Blueprint(self.name, tuple(calm), self.heads, self.init)

    def _needed(self, name: str) -> tuple[Node, ...]:
        needed = {name}
        for node in reversed(self.nodes):
            if node.name in needed:
                needed.update(node.inputs)
        return tuple(node for node in self.nodes if node.name in needed)

    @cached_property
    def digest(self) -> str:
        """The identity of the network, whatever its name: sha256 of its canonical JSON."""
        data = {key: value for key, value in self.to_data().items() if key != "name"}
        text = json.dumps(data, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def to_data(self) -> dict[str, object]:
        """The network as plain data, for JSON."""
        return {
            "format": FORMAT,
            "name": self.name,
            "init": self.init,
            "heads": [list(head) for head in self.heads],
            "nodes": [
                {"name": n.name, "inputs": list(n.inputs)} | op_to_data(n.op) for n in self.nodes
            ],
        }

    def to_json(self) -> str:
        """The canonical text of the network."""
        return json.dumps(self.to_data(), sort_keys=True, indent=1)

    @staticmethod
    def from_json(text: str) -> Blueprint:
        """The network that `to_json` wrote; refuses anything else with a sentence."""
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as wrong:
            raise BadBlueprint(f"the blueprint is not JSON: {wrong}") from None
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise BadBlueprint(
                f"the blueprint is not of format {FORMAT}, the one that this version reads"
            )
        parts = {"format": int, "name": str, "init": str, "heads": list, "nodes": list}
        if unlike := data.keys() ^ parts.keys():
            verb = "has no part" if min(unlike) in data else "lacks the part"
            raise BadBlueprint(f"a blueprint {verb} {min(unlike)!r}; it has {', '.join(parts)}")
        for part, kind in parts.items():
            if not isinstance(data[part], kind):
                raise BadBlueprint(
                    f"the part {part!r} of a blueprint cannot be a {type(data[part]).__name__}"
                )
        heads = tuple(_head_from_data(item) for item in data["heads"])
        nodes = tuple(_node_from_data(item) for item in data["nodes"])
        return Blueprint(data["name"], nodes, heads, data["init"])


def is_state(weight: str) -> bool:
    """Whether the weight of that canonical name is a running statistic."""
    return weight.rpartition("/")[2] in STATE


def _head_from_data(item: object) -> Head:
    match item:
        case [str(node), int() | float() as weight] if 0 < weight <= sys.float_info.max:
            return Head(node, float(weight))
    raise BadBlueprint(f"an output is a node's name and its share in the loss, not {item!r}")


def _node_from_data(item: object) -> Node:
    if not isinstance(item, dict):
        raise BadBlueprint(f"a node is an object with a name, an op and inputs, not {item!r}")
    name, inputs = item.get("name"), item.get("inputs")
    if (
        not isinstance(name, str)
        or not isinstance(inputs, list)
        or not all(isinstance(i, str) for i in inputs)
    ):
        raise BadBlueprint(
            f"a node needs a name and a list of inputs, not name={name!r} inputs={inputs!r}"
        )
    try:
        op = op_from_data({k: v for k, v in item.items() if k not in ("name", "inputs")})
    except ValueError as wrong:
        raise BadBlueprint(f"node {name!r}: {wrong}") from None
    return Node(name, op, tuple(inputs))

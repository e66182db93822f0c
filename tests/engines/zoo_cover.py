"""A few short networks in which everything occurs that engines lower in the whole zoo.

Most networks of the zoo are near variants: the same ops in the same surroundings, more often. A
signature is what an engine may decide by when it lowers one node: the op with all its fields but
its width, how its windows lie in what it reads, and which ops stand before and after it. Networks
are chosen until every signature of the zoo has been seen, and each is cut down to what it is
needed for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from typing import Any

from convdyno.blueprint.graph import Blueprint, Head, Node
from convdyno.blueprint.ops import Act, Conv, Flatten, Input, Norm, Op, Pool
from convdyno.errors import BadBlueprint

Signature = tuple[Any, ...]
WIDTHS = {"out", "groups", "before", "after", "height", "width", "channels"}
"""Fields that say how large an op is, not what it does; groups are told by their kind."""
SMALLEST = 16
"""Pixels on a side of images that are left."""
VECTOR = 16
"""Channels below which engines choose other kernels; see `torch/lower.py`."""


def signatures(blueprint: Blueprint) -> frozenset[Signature]:
    """Everything about a network that an engine may decide by."""
    readers: dict[str, list[Node]] = {node.name: [] for node in blueprint.nodes}
    for node in blueprint.nodes:
        for name in node.inputs:
            readers[name].append(node)
    heads = Counter(head.node for head in blueprint.heads)
    kinds = {node.name: _kind(node.op) for node in blueprint.nodes}
    found: set[Signature] = {("heads", *(head.weight for head in blueprint.heads))}
    learning = set[str]()
    for node in blueprint.nodes:
        slope = not learning.isdisjoint(node.inputs)
        if slope or node.op.weights(*blueprint.shapes_in(node)):
            learning.add(node.name)
        before = tuple((kinds[i], len(readers[i]) + heads[i] > 1) for i in node.inputs)
        after = {kinds[reader.name] for reader in readers[node.name]}
        after |= {"the answer"} if heads[node.name] else set()
        found.add((*_itself(node.op, blueprint.shapes_in(node)), before, slope))
        found.add(("between", kinds[node.name], frozenset(b for b, _ in before), frozenset(after)))
    return frozenset(found)


def _kind(op: Op) -> str:
    return f"{type(op).__name__} {op.kind}" if isinstance(op, Act | Pool) else type(op).__name__


def _itself(op: Op, shapes: tuple[tuple[int, ...], ...]) -> Signature:
    own = {f.name: getattr(op, f.name) for f in fields(op) if f.name not in WIDTHS}  # type: ignore[arg-type]
    told: dict[str, Any] = {"images": len(shapes[0]) == 3} if shapes else {}
    if isinstance(op, Conv | Pool):
        size, out = shapes[0][:2], op.shape(*shapes)[:2]
        told["rest"] = tuple(n % step for n, step in zip(size, op.stride, strict=True))
        told["one window"] = out == (1, 1)
        told["alone in window"] = tuple(n < k for n, k in zip(size, op.kernel, strict=True))
    if isinstance(op, Conv):
        channels = shapes[0][2]
        told["groups"] = "one" if op.groups == 1 else "each" if op.groups == channels else "some"
        told["channels"] = min(channels // op.groups, 2), channels // op.groups < VECTOR
    if isinstance(op, Flatten):
        told["cells"] = shapes[0][:2] != (1, 1)
    if isinstance(op, Norm):
        told["cells"] = shapes[0][:2] != (1, 1)
    return (type(op).__name__, *own.items(), *told.items())


def cover(zoo: Iterable[Blueprint], known: Iterable[Blueprint] = ()) -> list[Blueprint]:
    """Short networks that have every signature of the zoo which no known network has."""
    having = {blueprint: signatures(blueprint) for blueprint in zoo}
    left = set().union(*having.values()).difference(*map(signatures, known))
    chosen = []
    while left:
        best = max(having, key=lambda b: (len(having[b] & left), -len(b.nodes)))
        chosen.append(shortened(best, frozenset(having[best] & left)))
        left -= signatures(chosen[-1])
    return chosen


def shortened(blueprint: Blueprint, wanted: frozenset[Signature]) -> Blueprint:
    """What is left of a network when all that the wanted signatures do not need is left out."""

    def has_them(tried: Blueprint) -> bool:
        return bool(tried.weights) and wanted <= signatures(tried)

    while True:
        before = blueprint
        for node in reversed(before.nodes):
            tried = (t for source in node.inputs for t in _without(blueprint, node, source))
            blueprint = next(filter(has_them, tried), blueprint)
        sides = range(SMALLEST, blueprint.image[0])
        smaller = (t for side in sides for t in _built(blueprint, blueprint.nodes, side))
        blueprint = next(filter(has_them, smaller), blueprint)
        if blueprint == before:
            return blueprint


def _without(blueprint: Blueprint, left_out: Node, source: str) -> Iterator[Blueprint]:
    """The network in which what read a node reads `source`; with images that may suit it better."""
    if left_out.name not in blueprint.shapes:
        return
    nodes = [
        replace(node, inputs=tuple(source if i == left_out.name else i for i in node.inputs))
        for node in blueprint.nodes
        if node.name != left_out.name
    ]
    heads = [h._replace(node=source) if h.node == left_out.name else h for h in blueprint.heads]
    side = blueprint.image[0]
    yield from _built(blueprint, nodes, side, heads)
    if isinstance(left_out.op, Conv | Pool) and left_out.op.stride != (1, 1):
        near = side // left_out.op.stride[0]
        for other in range(max(SMALLEST, near - 3), near + 4):
            yield from _built(blueprint, nodes, other, heads)


def _built(
    blueprint: Blueprint, nodes: Sequence[Node], side: int, heads: Sequence[Head] = ()
) -> Iterator[Blueprint]:
    """The network of those nodes that the heads need, for images of another size; if it can be."""
    heads = tuple(heads) or blueprint.heads
    needed, kept = {head.node for head in heads}, list[Node]()
    for node in reversed(nodes):
        if node.name in needed:
            needed.update(node.inputs)
            image = isinstance(node.op, Input)
            op = replace(node.op, height=side, width=side) if image else node.op
            kept.insert(0, replace(node, op=op))
    with suppress(BadBlueprint):
        yield Blueprint(blueprint.name, tuple(kept), heads, blueprint.init)

"""The op, or the part of the update rule, in which an engine parts from the reference.

A network is cut off behind a node, and a dense layer is put on all values there: if scores, loss
and gradients of what is left are right, the fault is behind it. Halving finds the first node that
is not. If gradients are right and weights are not, the rule is at fault: the reference takes steps
by rules that are wrong in one part each, and the part is named whose effect looks like it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from convdyno.stage.differences import LIMIT, Arrays, Difference

ARITHMETIC = ("forward", "loss", "gradient")
"""Kinds of evidence that ops decide."""
ALIKE = 0.9
"""The cosine between two differences from which on one explains the other."""
MOMENTS = {"first": "the first moment", "second": "the second moment"}
Look = Callable[[str], Sequence[Difference]]
"""How far an engine is off in the network up to a node."""
Suspects = Callable[[], dict[str, Arrays]]
"""What the reference gets by rules that are wrong in one part, by that part's name."""


@dataclass(frozen=True)
class Suspicion:
    """What an engine got, what is right, and the ways to look closer."""

    blueprint: str
    rows: Sequence[Difference]
    found: Arrays
    expected: Arrays
    look: Look
    suspects: Suspects
    devices: int = 1

    @cached_property
    def _nodes(self) -> dict[str, dict[str, object]]:
        return {node["name"]: node for node in json.loads(self.blueprint)["nodes"]}

    def culprit(self) -> str:
        """In words, where an engine parts from the reference."""
        wrong = [row for row in self.rows if not row.passed]
        kinds = {row.kind for row in wrong}
        if kinds & set(ARITHMETIC):
            return self._op(wrong)
        if "dropout" in kinds:
            return self._dropout(wrong)
        if kinds == {"statistics"} or kinds == {"statistics", "average"}:
            tensor = next(row.tensor for row in wrong if row.kind == "statistics")
            return f"the running statistics differ from {self._of(tensor)} on"
        return self._rule(wrong) if self.devices == 1 else self._exchange(kinds)

    def _op(self, wrong: Sequence[Difference]) -> str:
        owners = {row.tensor.rpartition("/")[0] for row in wrong if row.kind == "gradient"}
        if {row.kind for row in wrong} & set(ARITHMETIC) == {"gradient"} and len(owners) == 1:
            return f"the gradient is wrong at {self._said(owners.pop())}"
        first = next(iter(self._nodes))
        at_once = [row for row in self.look(first) if not row.passed and row.kind in ARITHMETIC]
        if at_once:
            return self._at_once(at_once)
        heads = [head[0] for head in json.loads(self.blueprint)["heads"]]
        bad = next((head for head in heads if not self._right(head)), None)
        if bad is None:
            return "every op is right by itself: the shares of the heads in the loss differ"
        return f"the values differ from {self._said(self._first(bad))} on"

    def _at_once(self, wrong: Sequence[Difference]) -> str:
        """A dense layer on the images alone is wrong already: the layer is, or the loss."""
        if "forward" not in {row.kind for row in wrong}:
            return "the loss differs, or its label smoothing, whatever network it is of"
        dense = next((n for n, node in self._nodes.items() if node["op"] == "Dense"), "")
        return f"the values differ from {self._said(dense)} on" if dense else "every value differs"

    def _dropout(self, wrong: Sequence[Difference]) -> str:
        """The first dropout of the rate that is wrong, and in what."""
        rows = [row.tensor.split("/") for row in wrong if row.kind == "dropout"]
        rate = float(rows[0][0])
        nodes = [n for n, about in self._nodes.items() if about.get("rate") == rate]
        return f"what passes differs at {self._said(nodes[0])}: {', '.join(row[1] for row in rows)}"

    def _first(self, bad: str) -> str:
        """The first node before a wrong one with which the network up to it is wrong."""
        order = self._before(bad)
        good, last = 0, len(order) - 1
        while last - good > 1:
            middle = (good + last) // 2
            good, last = (middle, last) if self._right(order[middle]) else (good, middle)
        found = order[last]
        # What stands beside it in another branch was not looked at yet.
        for source in self._nodes[found]["inputs"]:  # type: ignore[attr-defined]
            if source != order[0] and source != order[good] and not self._right(source):
                return self._first(source)
        return found

    def _before(self, name: str) -> list[str]:
        """All nodes that one needs, in order, and itself."""
        needed = {name}
        for node in reversed(self._nodes):
            if node in needed:
                needed.update(self._nodes[node]["inputs"])  # type: ignore[arg-type]
        return [node for node in self._nodes if node in needed]

    def _right(self, node: str) -> bool:
        return all(row.passed for row in self.look(node) if row.kind in ARITHMETIC)

    def _rule(self, wrong: Sequence[Difference]) -> str:
        """The part of the update rule whose fault would look like what is seen."""
        off = self._off(self.found)
        alike = {
            part: abs(float(off @ other)) / max(float(np.linalg.norm(other)), 1e-300)
            for part, arrays in self.suspects().items()
            if (other := self._off(arrays)).shape == off.shape
        }
        part = max(alike, key=lambda name: alike[name], default="")
        if part and alike[part] >= ALIKE * float(np.linalg.norm(off)):
            return f"the update rule differs in {part}"
        moments = {row.tensor.partition("/")[0] for row in wrong if row.kind == "memory"}
        if named := [words for kind, words in MOMENTS.items() if kind in moments]:
            return f"the update rule differs in {' and '.join(named)}"
        tensors = {row.tensor for row in wrong if row.kind == "update"}
        if len({tensor.rpartition("/")[0] for tensor in tensors}) == 1:
            return f"the update is wrong at {self._of(tensors.pop())}"
        kinds = ", ".join(sorted({row.kind for row in wrong}))
        return f"gradients are right, but not what the update rule makes of them ({kinds})"

    def _exchange(self, kinds: set[str]) -> str:
        """Of several devices together, each of which is right by itself."""
        return (
            f"what {self.devices} devices make of their gradients is wrong "
            f"({', '.join(sorted(kinds))}): if it passes with --devices 1, the exchange is at fault"
        )

    def _off(self, arrays: Arrays) -> np.ndarray:
        """All differences in memory, weights and averages as one vector, in limits."""
        parts = []
        for name, right in self.expected.items():
            if name.startswith(("memory/", "update/", "average/")) and name in arrays:
                limit = float(self.expected[LIMIT + name][0]) or 1.0
                off = (np.asarray(arrays[name], np.float64) - right).ravel()
                # Each tensor counts alike: how it is off, and whether it is, but not how far.
                size = float(np.linalg.norm(off))
                parts.append(off / size if size > limit else 0 * off)
        return np.nan_to_num(np.concatenate(parts)) if parts else np.zeros(0)

    def _of(self, tensor: str) -> str:
        return self._said(tensor.rpartition("/")[0])

    def _said(self, name: str) -> str:
        """A node, with its op."""
        return f"{name!r} ({self._nodes[name]['op']})"

"""Deliberate faults, put around any engine: what a certificate has to catch, and by which name.

A faulty engine is a right one that is given another blueprint, another rule or other weights than
were asked for, in training, in use or in both; or whose gradients and statistics are spoilt
afterwards. What it computes is what an engine with that fault in its own code would compute.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import keras_process
import numpy as np
from miniatures import MINIATURES, small

from convdyno.blueprint.draft import Draft
from convdyno.blueprint.graph import Blueprint, Head, Node
from convdyno.blueprint.ops import LRN, Act, Add, Flatten, Mean, Pool, Scale
from convdyno.engines import registry
from convdyno.run import evidence
from convdyno.stage.culprit import Suspicion
from convdyno.stage.differences import Difference, differences
from convdyno.trial.manner import Manner, UpdateRule
from convdyno.trial.suspects import suspects

USUAL, ADAM = UpdateRule(), UpdateRule(kind="adam")


def same(array: np.ndarray) -> np.ndarray:
    return array


@dataclass(frozen=True)
class Fault:
    """What is wrong with an engine, where it shows, and how it must be named."""

    name: str
    network: str
    named: str
    """What the certificate's sentence must have in it: a node, or a part of the rule."""
    at: str = ""
    misread: dict[str, Any] = field(default_factory=dict)
    """Fields of the node `at`, changed."""
    op: Any = None
    """What is computed instead of the node `at`."""
    only: str = "train and infer"
    """In which of the two it is wrong."""
    rule: UpdateRule = USUAL
    changed: dict[str, Callable[[Any], Any]] = field(default_factory=dict)
    """Numbers of the rule, as the engine reads them."""
    spoilt: dict[str, Callable[[np.ndarray], np.ndarray]] = field(default_factory=dict)
    """Evidence by its name, as the engine gives it."""
    heads: Callable[[Head], Head] | None = None
    loads: dict[str, Callable[[np.ndarray], np.ndarray]] = field(default_factory=dict)
    """Weights by name, as the engine takes them."""
    reads: tuple[str, ...] = ()
    """What the node `at` reads instead."""

    def taken(self, node: Node) -> Node:
        """A node as the engine takes it."""
        if node.name != self.at:
            return node
        op = self.op or replace(node.op, **self.misread)
        return replace(node, op=op, inputs=self.reads or node.inputs)


@dataclass
class Faulty:
    """A right engine with a fault around it."""

    engine: Any
    fault: Fault

    def open(self, blueprint: Blueprint, trial: Any, weights: Any) -> Any:
        """Two sessions: one that trains, one that is in use."""
        fault = self.fault
        wrong = replace(blueprint, nodes=tuple(map(fault.taken, blueprint.nodes)))
        if fault.heads:
            wrong = replace(wrong, heads=tuple(map(fault.heads, wrong.heads)))
        changes = {n: change(getattr(trial.optimiser, n)) for n, change in fault.changed.items()}
        changes.pop("rate", None)
        misled = trial.model_copy(update={"optimiser": trial.optimiser.model_copy(update=changes)})
        loaded = {
            name: np.ascontiguousarray(fault.loads.get(name, same)(array), np.float32)
            for name, array in weights.items()
        }
        trains, used = ("train" in fault.only), ("infer" in fault.only)
        first = (wrong, misled, loaded) if trains else (blueprint, misled, weights)
        second = (wrong, trial, loaded) if used else (blueprint, trial, weights)
        training, in_use = self.engine.open(*first), self.engine.open(*second)
        return FaultySession(training, in_use, fault, weights, first[2])


@dataclass
class FaultySession:
    """A session that trains in one way and is used in another."""

    training: Any
    in_use: Any
    fault: Fault
    before: Any
    loaded: Any
    """The weights as the training session has them."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.training, name)

    def place(self, *batch: Any) -> Any:
        return self.training.place(*batch), self.in_use.place(*batch)

    def logits(self, batch: Any) -> Any:
        return self.in_use.logits(batch[1])

    def train_step(self, batch: Any) -> None:
        self.training.train_step(batch[0])

    def set_rate(self, rate: float) -> None:
        self.training.set_rate(self.fault.changed.get("rate", lambda right: right)(rate))

    def gradients(self, batch: Any) -> Any:
        return self._spoilt("gradient/", self.training.gradients(batch[0]))

    def state(self) -> Any:
        return self._spoilt("memory/", self.training.state())

    def weights(self) -> Any:
        return {
            name: self.before[name] + self._change(name, array - self.loaded[name])
            for name, array in self.training.weights().items()
        }

    def _change(self, name: str, change: np.ndarray) -> np.ndarray:
        for kind in ("update/", "statistics/"):
            change = self._spoilt(kind, {name: change})[name]
        return change

    def _spoilt(self, kind: str, arrays: Any) -> Any:
        return {n: self.fault.spoilt.get(kind + n, same)(array) for n, array in arrays.items()}


def responding() -> Blueprint:
    """Response norms as small as AlexNet's, which random weights do not feel."""
    x = Draft("responding", (12, 12, 3)).image.conv_relu(6, 3, pad=1).lrn(2, 1e-4 / 5, 0.75, 1.0)
    x = x.max_pool(3, 2).conv_relu(8, 3, pad=1).lrn(2, 1e-4, 0.75, 2.0)
    return x.max_pool(2, 2).flatten().dense(9).relu().logits(5).done()


def branching() -> Blueprint:
    """Branches of which each can be wrong alone."""
    x = Draft("branching", (9, 9, 3)).image.conv_norm_relu(6, 3, 2, 1)
    one, two = x.conv_relu(4, 1), x.conv_relu(4, 3, pad=1).conv_relu(3, 3, pad=1)
    x = one.concat(two, x.avg_pool(3, 1, 1).conv_relu(2, 1))
    return x.mean().logits(5).done()


NETWORKS: dict[str, Callable[[], Blueprint]] = {
    **MINIATURES,
    "small": small,
    "responding": responding,
    "branching": branching,
}


@cache
def network(name: str) -> Blueprint:
    return NETWORKS[name]().without_dropout()


@cache
def asked(name: str, manner: Manner) -> tuple[evidence.Question, evidence.Evidence]:
    """What is asked about a network, and what is right."""
    oracle = registry.load("reference")
    question = evidence.pose(oracle, network(name), manner)
    return question, evidence.expect(oracle, question, manner)


def sentence(engine: Any, name: str, network_: str, manner: Manner) -> str:
    """What a certificate would say of an engine; nothing if it passes."""
    question, right = asked(network_, manner)
    oracle = registry.load("reference")
    found = evidence.answer(engine, name, question, manner)
    rows = differences(found, right)
    if all(row.passed for row in rows):
        return ""

    def look(node: str) -> list[Difference]:
        part = evidence.cut(oracle, question, node, manner)
        answer = evidence.answer(engine, name, part, manner)
        return differences(answer, evidence.expect(oracle, part, manner))

    def by_suspects() -> dict[str, Any]:
        return {
            part: evidence.answer(
                oracle, "reference", replace(question, optimiser=wrong(question.optimiser)), manner
            )
            for part, wrong in suspects(manner).items()
        }

    text = question.blueprint.to_json()
    return Suspicion(text, rows, found, right, look, by_suspects).culprit()


def here() -> str:
    """The engine of this process."""
    return keras_process.engine()


def as_leaky(nodes: tuple[Node, ...]) -> tuple[Node, ...]:
    """A ReLU is a leaky one that does not leak."""
    return tuple(replace(n, op=Act("leaky", 0.0)) if n.op == Act("relu") else n for n in nodes)


def mean_as_pool(nodes: tuple[Node, ...]) -> tuple[Node, ...]:
    """A mean is one large average pool."""
    shapes = Blueprint("shapes", nodes, (Head(nodes[-1].name),)).shapes
    found: list[Node] = []
    for node in nodes:
        if isinstance(node.op, Mean):
            size = shapes[node.inputs[0]][:2]
            found.append(Node(f"{node.name}/pool", Pool("average", size, size), node.inputs))
            found.append(Node(node.name, Flatten(), (f"{node.name}/pool",)))
        else:
            found.append(node)
    return tuple(found)


def sums_turned_round(nodes: tuple[Node, ...]) -> tuple[Node, ...]:
    """A sum does not depend on the order of its summands."""
    return tuple(replace(n, inputs=n.inputs[::-1]) if isinstance(n.op, Add) else n for n in nodes)


def response_norm_in_two(nodes: tuple[Node, ...]) -> tuple[Node, ...]:
    """(b + a s)^-p is b^-p (1 + a/b s)^-p."""
    found: list[Node] = []
    for node in nodes:
        if isinstance(op := node.op, LRN):
            plain = LRN(op.radius, op.alpha / op.bias, op.beta, 1.0)
            found.append(Node(f"{node.name}/plain", plain, node.inputs))
            found.append(Node(node.name, Scale(op.bias**-op.beta), (f"{node.name}/plain",)))
        else:
            found.append(node)
    return tuple(found)


EQUAL = {
    "residual": (as_leaky, mean_as_pool, sums_turned_round),
    "inception": (response_norm_in_two, sums_turned_round),
    "responding": (response_norm_in_two, as_leaky),
}
"""Rewrites of networks that change nothing but the rounding."""


@dataclass
class Rewriting:
    """A right engine that computes the same in another form."""

    engine: Any
    rewrite: Callable[[tuple[Node, ...]], tuple[Node, ...]]

    def open(self, blueprint: Blueprint, trial: Any, weights: Any) -> Any:
        """A session of the rewritten network."""
        nodes = self.rewrite(blueprint.nodes)
        return self.engine.open(replace(blueprint, nodes=nodes), trial, weights)

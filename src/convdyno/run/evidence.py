"""What an engine computes for a small network: the evidence that a certificate compares.

Networks with batch norm and ReLU amplify rounding: where a value happens to lie next to a kink,
two right answers differ. So the reference first looks for weights at which rounding alone changes
little, and everybody uses those.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.numpy import save_file

from convdyno.blueprint.graph import Blueprint
from convdyno.blueprint.ops import Norm
from convdyno.blueprint.weights import Weights, lively_weights
from convdyno.data.synthetic import synthetic_batch
from convdyno.engines.contract import Batch, Engine, OpByOp, Optimiser, Session, Trial
from convdyno.store.certificate import distance

IMAGES = 4
STEPS = 3
MOVE = 1e-3
"""The largest share of a weight that the first step may move it by."""
WEIGHT_DECAY = 0.1
"""Enough for a mistake in it to show."""
ROUNDING = 2.0**-24
SEEDS = 8
CALM = 1e-4
"""Weights are good enough when rounding them changes the gradient by no more than this share."""

Evidence = dict[str, NDArray[np.float32]]


@dataclass(frozen=True)
class Question:
    """What every engine is asked to compute."""

    blueprint: Blueprint
    weights: Weights
    rate: float
    condition: float = 0.0
    """How much rounding the weights changes the reference's gradient."""


def pose(reference: Engine, blueprint: Blueprint) -> Question:
    """Find weights and a learning rate at which the network is well conditioned."""
    best: Question | None = None
    for seed in range(SEEDS):
        weights = lively_weights(blueprint, seed)
        session, batch = _open(reference, "reference", Question(blueprint, weights, rate=1e-30))
        weights |= _batch_statistics(session, batch, blueprint, weights)
        random = np.random.default_rng([seed, 0x0FF])
        nudged = {
            name: (array * (1 + ROUNDING * random.choice((-2, 2), array.shape))).astype(np.float32)
            for name, array in weights.items()
        }
        gradients = []
        for tried in (weights, nudged):
            session.load(tried)
            gradients.append(session.gradients(batch))
        condition = distance(gradients[1], gradients[0])
        if best is None or condition < best.condition:
            best = Question(blueprint, weights, _rate(weights, gradients[0]), condition)
        if condition <= CALM:
            break
    assert best is not None
    return best


def answer(
    engine: Engine, name: str, question: Question, kernels: str = "native", *, brief: bool = False
) -> Evidence:
    """Class scores, first loss, gradients, and every weight after a few steps.

    A brief answer runs op by op where an engine usually compiles, makes one step, and leaves the
    gradients out, which the step shows too.
    """
    with engine.op_by_op() if brief and isinstance(engine, OpByOp) else nullcontext():
        session, batch = _open(engine, name, question, kernels)
        evidence = {"logits": session.logits(batch)}
        if not brief:
            evidence |= {f"gradient/{n}": g for n, g in session.gradients(batch).items()}
        session.train_step(batch)
        evidence["loss"] = np.array([session.loss()], np.float32)
        for _ in range(0 if brief else STEPS - 1):
            session.train_step(batch)
        return evidence | {f"after/{n}": array for n, array in session.weights().items()}


def values_of(engine: Engine, name: str, question: Question, node: str) -> Evidence:
    """All values of one node, as in use: what finds the op in which two engines part."""
    part = question.blueprint.for_inference().upto(node)
    weights = {n: question.weights[n] for n in part.weights}
    session, batch = _open(engine, name, Question(part, weights, question.rate), mode="infer")
    return {"logits": session.logits(batch)}


def _open(
    engine: Engine, name: str, question: Question, kernels: str = "native", mode: str = "train"
) -> tuple[Session, Batch]:
    blueprint = question.blueprint
    trial = Trial.model_validate(
        {
            "network": blueprint.name,
            "engine": name,
            "mode": mode,
            "batch": IMAGES,
            "threads": 1,
            "optimiser": Optimiser(rate=question.rate, weight_decay=WEIGHT_DECAY),
            "kernels": kernels,
        }
    )
    session = engine.open(blueprint, trial, question.weights)
    images, labels = synthetic_batch(blueprint.image, blueprint.classes, IMAGES, seed=0)
    return session, session.place(images, labels)


def _rate(weights: Weights, gradients: Weights) -> float:
    """The rate at which no kernel moves by more than `MOVE` of itself in the first step."""
    shares = [
        float(np.linalg.norm(gradient) / np.linalg.norm(weights[name]))
        for name, gradient in gradients.items()
        if name.endswith("/kernel")
    ]
    return MOVE / (2 * max([*shares, 1e-6]))


def _batch_statistics(
    session: Session, batch: Batch, blueprint: Blueprint, weights: Weights
) -> Weights:
    """Running statistics near those of the batch, so that the network in use is well conditioned.

    A training step moves a running statistic by (1 - decay) of the way to the batch's.
    """
    session.train_step(batch)
    after = session.weights()
    found = {}
    for node in blueprint.nodes:
        if isinstance(node.op, Norm):
            for kind, low in (("mean", -np.inf), ("variance", 1e-3)):
                name = f"{node.name}/{kind}"
                way = (after[name] - weights[name]) / (1 - node.op.decay)
                found[name] = np.maximum(weights[name] + 1.1 * way, low).astype(np.float32)
    return found


def save(evidence: Evidence, path: str) -> None:
    """Write arrays to a file."""
    save_file({name: np.ascontiguousarray(array) for name, array in evidence.items()}, path)


def save_question(question: Question, path: str) -> None:
    """Write what is asked to a file; the blueprint travels apart."""
    numbers = {"rate": repr(question.rate), "condition": repr(question.condition)}
    save_file(question.weights, path, metadata=numbers)


def load_question(path: str, blueprint: Blueprint) -> Question:
    """What `save_question` wrote."""
    with safe_open(path, framework="numpy") as file:
        numbers = file.metadata()
        weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    return Question(blueprint, weights, float(numbers["rate"]), float(numbers["condition"]))

"""What an engine computes for a small network: the evidence that a certificate compares.

Everybody is asked the same: class scores, the loss, every gradient; then some steps at a rate so
small that no weight moves, in which an update rule gathers what it remembers; then one large step.
So gradients are always those at the weights that were chosen, where rounding matters little, and
what the rule makes of them is seen in its memory and in the weights.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.numpy import save_file

from convdyno.blueprint.graph import Blueprint, is_state
from convdyno.blueprint.weights import Weights
from convdyno.data.synthetic import HostBatch
from convdyno.engines.contract import Engine, FaultEffect, OpByOp, Optimiser, Oracle, Session, Trial
from convdyno.run import limits
from convdyno.run.ranks import Ranks
from convdyno.run.rule_numbers import with_numbers
from convdyno.trial.manner import Manner

IMAGES = 4
CLASSES = 10
"""Of a network that is cut off at a node."""
COARSE = 3
"""How often the oracle computes with coarse errors."""
STILL = 1e-20
"""The share of the rate at which no weight moves, in float64 either."""
HALVES = ("fp16",)
"""Precisions that scale the loss."""
LOSS_SCALE = 128.0

Evidence = dict[str, NDArray[np.float32]]
"""Arrays by the kind of evidence and the tensor: `gradient/conv1/kernel`."""


@dataclass(frozen=True)
class Question:
    """What every engine is asked to compute."""

    blueprint: Blueprint
    weights: Weights
    optimiser: Optimiser
    """The rule, with numbers at which all of it matters; the rate is that of the last step."""
    seed: int = 0

    parts: int = 1
    """How many parts a batch has: computed one after the other, or by devices side by side."""

    def batches(self) -> tuple[HostBatch, HostBatch]:
        """The same images twice, with other labels.

        So the gradients differ, and the values do not, nor what is near a kink. For that reason
        too every part of a batch has the same images.
        """
        random = np.random.default_rng([self.seed, 0xBA7C4])
        images = np.tile(_images(self.blueprint, random), (self.parts, 1, 1, 1))
        labels = random.integers(0, self.blueprint.classes, len(images), np.int64)
        others = random.integers(1, self.blueprint.classes, len(images), np.int64)
        return (images, labels), (images, (labels + others) % self.blueprint.classes)


def pose(oracle: Engine, blueprint: Blueprint, manner: Manner, seed: int = 0) -> Question:
    """Find weights at which every op matters, and numbers at which every part of the rule does."""
    assert isinstance(oracle, Oracle)
    parts = manner.accumulate * manner.devices
    asked = Question(blueprint, {}, Optimiser(), seed, parts)
    images = asked.batches()[0][0][:IMAGES]
    asked = replace(asked, weights=oracle.lively(blueprint, images, seed))
    session = _open(oracle, "reference", asked, Manner(rule=manner.rule))
    gradients = session.gradients(session.place(*asked.batches()[0]))
    return replace(asked, optimiser=with_numbers(manner.rule, asked.weights, gradients))


def cut(oracle: Engine, question: Question, node: str, manner: Manner) -> Question:
    """The same question up to a node, on all values of which a dense layer is put."""
    assert isinstance(oracle, Oracle)
    part = question.blueprint.probed(node, CLASSES)
    images = question.batches()[0][0][:IMAGES]
    probe = oracle.probe(part, question.weights, images)
    weights = {n: question.weights[n] for n in part.weights if n in question.weights} | probe
    shorter = Question(part, weights, Optimiser(), question.seed, question.parts)
    session = _open(oracle, "reference", shorter, Manner(rule=manner.rule))
    gradients = session.gradients(session.place(*shorter.batches()[0]))
    return replace(shorter, optimiser=with_numbers(manner.rule, weights, gradients))


def expect(oracle: Engine, question: Question, manner: Manner) -> Evidence:
    """What is right, and for each tensor how far an engine may be from it (as `limit/...`)."""
    assert isinstance(oracle, Oracle)
    own = manner.reference
    truth = answer(oracle, "reference", question, own)
    numbers = dict.fromkeys(("fp32", manner.precision))
    rounded = [
        answer(oracle.rounding(kind, backwards=way), "reference", question, own)
        for kind in numbers
        for way in (False, True)
    ]
    coarse = [
        answer(oracle.rounding("fp32", coarse=seed), "reference", question, own)
        for seed in range(COARSE)
    ]
    by_squares = answer(oracle.rounding("fp32", by_squares=True), "reference", question, own)
    found = limits.limits(truth, rounded, coarse, by_squares, manner.precision)
    return truth | {f"limit/{name}": np.array([limit]) for name, limit in found.items()}


def coverage(oracle: Engine, question: Question, right: Evidence) -> list[FaultEffect]:
    """For every node and every way in which it can be wrong, how many limits the loss moves by."""
    assert isinstance(oracle, Oracle)
    limit = float(right["limit/loss/loss"][0])
    images, labels = question.batches()[0]
    batch = images[:IMAGES], labels[:IMAGES]
    effects = oracle.coverage(question.blueprint, question.weights, batch)
    return [replace(effect, moved=effect.moved / limit) for effect in effects]


def answer(
    engine: Engine,
    name: str,
    question: Question,
    manner: Manner,
    ranks: Ranks | None = None,
    *,
    brief: bool = False,
) -> Evidence:
    """Scores, loss, gradients, and what steps make of memory, weights and statistics.

    A brief answer runs op by op where an engine usually compiles, and leaves the gradients out,
    which the steps show too. So does that of a rank, whose own gradients are of its own labels.
    """
    ranks = ranks or Ranks()
    with engine.op_by_op() if brief and isinstance(engine, OpByOp) else nullcontext():
        session = _open(engine, name, question, manner)
        first, second = (session.place(*_part(batch, ranks)) for batch in question.batches())
        scores = session.logits(first)
        evidence = {"forward/scores": np.tile(scores, (manner.devices, 1))}
        if not brief and ranks.alone:
            evidence |= {f"gradient/{n}": g for n, g in session.gradients(first).items()}
        session.train_step(first)
        evidence["loss/loss"] = np.array([np.mean(ranks.gather(session.loss()))], np.float32)
        session.train_step(second)
        session.train_step(first)
        kinds = ("velocity/", "first/", "second/")
        state = session.state()
        evidence |= {f"memory/{n}": state[n] for n in state if n.startswith(kinds)}
        session.set_rate(question.optimiser.rate)
        session.train_step(second)
        for weight, after in session.weights().items():
            kind = "statistics" if is_state(weight) else "update"
            evidence[f"{kind}/{weight}"] = _change(after, question.weights[weight])
        if question.optimiser.ema is not None:
            state = session.state()
            for weight, before in question.weights.items():
                evidence[f"average/{weight}"] = _change(state[f"average/{weight}"], before)
        return evidence


def _part(batch: HostBatch, ranks: Ranks) -> HostBatch:
    """A rank's own part of a batch."""
    images, labels = batch
    size = len(labels) // ranks.world.size
    mine = slice(ranks.world.rank * size, (ranks.world.rank + 1) * size)
    return images[mine], labels[mine]


def _change(after: NDArray[np.float32], before: NDArray[np.float32]) -> NDArray[np.float32]:
    return (after.astype(np.float64) - before).astype(np.float32)


def _open(engine: Engine, name: str, question: Question, manner: Manner) -> Session:
    rate = question.optimiser.rate * STILL
    settings = manner.model_dump(exclude={"rule"})
    trial = Trial.model_validate(
        settings
        | {
            "network": question.blueprint.name,
            "engine": name,
            "mode": "train",
            "batch": IMAGES * question.parts // manner.devices,
            "threads": 1,
            "optimiser": question.optimiser.model_copy(update={"rate": rate}),
            "loss_scale": LOSS_SCALE if manner.precision in HALVES else None,
        }
    )
    return engine.open(question.blueprint, trial, question.weights)


def _images(blueprint: Blueprint, random: np.random.Generator) -> NDArray[np.uint8]:
    """Noise of differing brightness and contrast: no two images have the same means."""
    shape = (IMAGES, 1, 1, blueprint.image[2])
    middle, spread = random.uniform(70, 185, shape), random.uniform(40, 70, shape)
    noise = random.uniform(-1, 1, (IMAGES, *blueprint.image))
    return np.clip(middle + spread * noise, 0, 255).astype(np.uint8)


def save(evidence: Evidence, path: str) -> None:
    """Write arrays to a file."""
    save_file({name: np.ascontiguousarray(array) for name, array in evidence.items()}, path)


def save_question(question: Question, path: str) -> None:
    """Write what is asked to a file; the blueprint travels apart."""
    words = {
        "optimiser": question.optimiser.model_dump_json(),
        "seed": str(question.seed),
        "parts": str(question.parts),
    }
    save_file(question.weights, path, metadata=words)


def load_question(path: str, blueprint: Blueprint) -> Question:
    """What `save_question` wrote."""
    with safe_open(path, framework="numpy") as file:
        words = file.metadata()
        weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    optimiser = Optimiser.model_validate_json(words["optimiser"])
    return Question(blueprint, weights, optimiser, int(words["seed"]), int(words["parts"]))

"""Dropout by its statistics: what passes, how often, how much larger, and anew every time.

Random numbers are each engine's own, so no two engines drop the same values. But what a dropout
lets pass can be read off exactly. Behind it stands a dense layer whose kernel is zero, with a class
for each image and one more: then every probability is known, and the kernel's gradient is a simple
function of the values that passed, each image's in a column of its own.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convdyno.blueprint.graph import Blueprint, Head, Node
from convdyno.blueprint.ops import Dense, Dropout, Flatten, Input
from convdyno.engines.contract import Engine, Optimiser, Trial, normalise
from convdyno.trial.manner import Manner

SIDE, CHANNELS, IMAGES = 16, 4, 32
SIGMAS = 5.0
"""How many deviations a count may be from what is expected of chance."""
EXACT = {"fp32": 1e-4, "tf32": 1e-2, "bf16": 2e-2, "fp16": 5e-3}
"""How far a value that passed may be from what it should be, relative."""
MOMENTUM = 0.9
MEASURES = ("scaling", "share", "images", "positions", "steps", "use")
"""What is measured, each as a share of what is allowed: the size of what passes, how much passes,
how that scatters over images and positions, whether each step draws anew, whether use drops."""

Values = NDArray[np.float64]


def rates(blueprint: Blueprint) -> list[float]:
    """The shares that a network's dropouts drop."""
    found = {node.op.rate for node in blueprint.nodes if isinstance(node.op, Dropout)}
    return sorted(found - {0.0})


def right(blueprint: Blueprint) -> dict[str, NDArray[Any]]:
    """What is right of every measure, and its limit, as a certificate compares them."""
    names = [f"dropout/{rate}/{measure}" for rate in rates(blueprint) for measure in MEASURES]
    return {n: np.zeros(1, np.float32) for n in names} | {f"limit/{n}": np.ones(1) for n in names}


def found(
    engine: Engine, name: str, blueprint: Blueprint, manner: Manner
) -> dict[str, NDArray[np.float32]]:
    """Every measure of every dropout of a network, as an engine has it."""
    evidence = {}
    for rate in rates(blueprint):
        for measure, off in _measured(engine, name, rate, manner).items():
            evidence[f"dropout/{rate}/{measure}"] = np.array([off], np.float32)
    return evidence


def _measured(engine: Engine, name: str, rate: float, manner: Manner) -> dict[str, float]:
    nodes = (
        Node("image", Input(SIDE, SIDE, CHANNELS)),
        Node("values", Flatten(), ("image",)),
        Node("dropped", Dropout(rate), ("values",)),
        Node("scores", Dense(IMAGES + 1, bias=False), ("dropped",)),
    )
    blueprint = Blueprint("dropout", nodes, (Head("scores"),))
    still = Optimiser(rate=1e-20, momentum=MOMENTUM, nesterov=False, weight_decay=0.0)
    about = {"network": "dropout", "engine": name, "batch": IMAGES, "threads": 1}
    settings = manner.model_dump(include={"kernels", "precision", "layout", "compile"})
    loss_scale = 1.0 if manner.precision == "fp16" else None
    trial = Trial.model_validate(
        {**about, **settings, "optimiser": still, "loss_scale": loss_scale}
    )
    random = np.random.default_rng(0xD20)
    images = random.integers(150, 256, (IMAGES, SIDE, SIDE, CHANNELS), np.uint8)
    kernel = np.zeros(blueprint.weights["scores/kernel"], np.float32)
    session = engine.open(blueprint, trial, {"scores/kernel": kernel})
    batch = session.place(images, np.arange(IMAGES))
    session.train_step(batch)
    first = session.state()["velocity/scores/kernel"].astype(np.float64)
    session.train_step(batch)
    both = session.state()["velocity/scores/kernel"].astype(np.float64)
    values = normalise(images).reshape(IMAGES, -1).astype(np.float64)
    passed = [_passed(slope) / values for slope in (first, both - MOMENTUM * first)]
    known = random.standard_normal(kernel.shape).astype(np.float32)
    session.load({"scores/kernel": known})
    scores = values @ known
    off = float(np.linalg.norm(session.logits(batch) - scores) / np.linalg.norm(scores))
    exact = EXACT[manner.precision]
    return deviations(passed[0], passed[1], rate, exact) | {"use": off / exact}


def _passed(slope: Values) -> Values:
    """What passed of each image's values, from the gradient of a kernel that is zero."""
    # Of class c: (sum of all images / classes - image c) / images. No image is of the last class.
    return IMAGES * (slope[:, -1:] - slope[:, :-1]).T


def deviations(first: Values, second: Values, rate: float, exact: float) -> dict[str, float]:
    """How far two draws are from what is right, each measure as a share of what is allowed.

    They tell which part of each value passed: (images, positions).
    """
    kept, draws = 1 - rate, np.stack([first, second])
    masks = draws > 0.5
    off = np.where(masks, np.abs(draws * kept - 1), np.abs(draws))
    agreed = kept**2 + rate**2
    return {
        "scaling": float(off.max()) / exact,
        "share": _sigmas(masks.mean(), kept, masks.size),
        "images": _spread(masks.sum(axis=2).ravel(), masks.shape[2], kept),
        "positions": _spread(masks.sum(axis=1).ravel(), masks.shape[1], kept),
        "steps": _sigmas((masks[0] == masks[1]).mean(), agreed, masks[0].size),
    }


def _sigmas(share: float, wanted: float, draws: int) -> float:
    return abs(float(share) - wanted) / math.sqrt(wanted * (1 - wanted) / draws) / SIGMAS


def _spread(counts: NDArray[np.int64], draws: int, share: float) -> float:
    """Whether counts scatter as independent draws do: Pearson's statistic against its own."""
    statistic = float((np.square(counts - draws * share) / (draws * share * (1 - share))).sum())
    return abs(statistic - len(counts)) / math.sqrt(2 * len(counts)) / SIGMAS

"""The oracle's update rules, in float64: what a step makes of weights, gradients and memory."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from convdyno.blueprint.ops import Shape
from convdyno.engines.contract import Optimiser, decays, memories

Array = NDArray[np.float64]
Memory = dict[str, Array]
"""What training remembers, by the names of `contract.State`."""

ADAM_BETA1, ADAM_BETA2 = 0.9, 0.999


def fresh_memory(optimiser: Optimiser, trainable: Mapping[str, Shape]) -> Memory:
    """What training remembers before the first update, but for the average of the weights."""
    memory = {
        f"{kind}/{name}": np.zeros(shape)
        for kind in memories(optimiser)
        for name, shape in trainable.items()
    }
    return memory | {"updates": np.zeros(())}


def update(
    optimiser: Optimiser,
    weights: Mapping[str, Array],
    gradients: Mapping[str, Array],
    memory: Memory,
) -> tuple[dict[str, Array], Memory]:
    """All weights and the memory after one update; `weights` has the new statistics already."""
    now, after = dict(weights), {"updates": memory["updates"] + 1}
    for name, g in prepare(optimiser, weights, gradients).items():
        w = weights[name]
        if optimiser.kind == "adam":
            first, second = f"first/{name}", f"second/{name}"
            so_far, step = (w, g, memory[first], memory[second]), int(after["updates"])
            now[name], after[first], after[second] = adam(
                *so_far, step, rate=optimiser.rate, epsilon=optimiser.epsilon
            )
            continue
        now[name], v = sgd(
            w,
            g,
            memory.get(f"velocity/{name}", np.zeros(())),
            rate=optimiser.rate,
            momentum=optimiser.momentum,
            nesterov=optimiser.nesterov,
        )
        if optimiser.momentum:
            after[f"velocity/{name}"] = v
    if optimiser.ema is not None:
        for name, w in now.items():
            average = memory[f"average/{name}"]
            after[f"average/{name}"] = optimiser.ema * average + (1 - optimiser.ema) * w
    return now, after


def prepare(
    optimiser: Optimiser, weights: Mapping[str, Array], gradients: Mapping[str, Array]
) -> dict[str, Array]:
    """The gradients that a rule gets: with L2, clipped together, and scaled one by one."""
    found = {
        name: g + optimiser.weight_decay * weights[name] if decays(optimiser, name) else g
        for name, g in gradients.items()
    }
    if optimiser.clip_norm is not None:
        total = np.sqrt(sum(np.square(g).sum() for g in found.values()))
        share = min(1.0, optimiser.clip_norm / total) if total else 1.0
        found = {name: share * g for name, g in found.items()}
    if optimiser.larc_eta is not None:
        found = {name: larc(optimiser, weights[name], g) for name, g in found.items()}
    return found


def larc(optimiser: Optimiser, w: Array, g: Array) -> Array:
    """Layer-wise adaptive rate control: a gradient in proportion to its weight."""
    assert optimiser.larc_eta is not None
    norms = np.linalg.norm(w), np.linalg.norm(g)
    ratio = optimiser.larc_eta * norms[0] / norms[1] if all(norms) else 1.0
    if optimiser.larc_mode == "clip":
        ratio = ratio / optimiser.rate if ratio < optimiser.rate else 1.0
    return ratio * g


def sgd(
    w: Array, g: Array, v: Array, *, rate: float, momentum: float, nesterov: bool
) -> tuple[Array, Array]:
    """One step of gradient descent with momentum: the new weight and velocity (zero at first)."""
    v = momentum * v + g
    return w - rate * (g + momentum * v if nesterov else v), v


def adam(
    w: Array, g: Array, m: Array, s: Array, step: int, *, rate: float, epsilon: float
) -> tuple[Array, Array, Array]:
    """Step number `step` (1, 2, ...) of Adam: the new weight and moments (zero at first)."""
    # In float32 what is left of 1, and powers close to it, lose digits, as they do in engines.
    beta1, beta2 = g.dtype.type(ADAM_BETA1), g.dtype.type(ADAM_BETA2)
    m = beta1 * m + (1 - beta1) * g
    s = beta2 * s + (1 - beta2) * g**2
    mean, square = m / (1 - beta1**step), s / (1 - beta2**step)
    return w - rate * mean / (np.sqrt(square) + epsilon), m, s

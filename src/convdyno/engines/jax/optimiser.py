"""The update rules and the loss scale of fp16: pure functions inside the compiled step."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jax import Array
from jax import numpy as jnp

from convdyno.engines.contract import Optimiser, decays
from convdyno.engines.jax.lower import Arrays

ADAM_BETA1, ADAM_BETA2 = 0.9, 0.999
SCALE_AT_FIRST, SCALE_GROWTH, SCALE_BACKOFF, SCALE_PATIENCE = 65536.0, 2.0, 0.5, 2000
"""As in torch's GradScaler, which people know."""
Memory = tuple[Arrays, ...]
"""What the update rule remembers: velocities, or two moments."""


class LossScale(NamedTuple):
    """A dynamic loss scale: its value, and how many good steps it has seen since it changed."""

    value: Array | np.float32
    good: Array | np.int32


def at_first() -> LossScale:
    """The loss scale before the first step."""
    return LossScale(np.float32(SCALE_AT_FIRST), np.int32(0))


def update(
    spec: Optimiser, weights: Arrays, gradients: Arrays, memory: Memory, count: Array, rate: Array
) -> tuple[Arrays, Memory]:
    """The weights and the memory after update number `count` (1, 2, ...)."""
    gradients = _prepared(spec, weights, gradients, rate)
    rows = {
        name: _rule(spec, w, gradients[name], [m[name] for m in memory], count, rate)
        for name, w in weights.items()
    }
    after = [{name: row[n] for name, row in rows.items()} for n in range(1 + len(memory))]
    return after[0], tuple(after[1:])


def average(decay: float, before: Arrays, now: Arrays) -> Arrays:
    """The exponential moving average after an update."""
    return {name: decay * array + (1 - decay) * now[name] for name, array in before.items()}


def finite(gradients: Arrays) -> Array:
    """Whether no gradient overflowed."""
    return jnp.stack([jnp.isfinite(g).all() for g in gradients.values()]).all()


def rescale(scale: LossScale, ok: Array) -> LossScale:
    """The loss scale after a step that was good or not."""
    good = jnp.where(ok, scale.good + 1, 0)
    grown = good == SCALE_PATIENCE
    factor = jnp.where(ok, jnp.where(grown, SCALE_GROWTH, 1.0), SCALE_BACKOFF)
    return LossScale(scale.value * factor, jnp.where(grown, 0, good))


def _prepared(spec: Optimiser, weights: Arrays, gradients: Arrays, rate: Array) -> Arrays:
    """The gradients that a rule gets: with L2, clipped together, and scaled one by one."""
    decay = spec.weight_decay
    found = {
        name: g + decay * weights[name] if decay and decays(spec, name) else g
        for name, g in gradients.items()
    }
    if spec.clip_norm is not None:
        total = jnp.sqrt(sum(jnp.square(g).sum() for g in found.values()))
        share = jnp.minimum(spec.clip_norm / total, 1)
        found = {name: share * g for name, g in found.items()}
    if spec.larc_eta is not None:
        found = {name: _larc(spec, weights[name], g, rate) for name, g in found.items()}
    return found


def _larc(spec: Optimiser, w: Array, g: Array, rate: Array) -> Array:
    assert spec.larc_eta is not None
    of_weight, of_gradient = (jnp.sqrt(jnp.square(x).sum()) for x in (w, g))
    both = (of_weight > 0) & (of_gradient > 0)
    ratio = jnp.where(both, spec.larc_eta * of_weight / of_gradient, 1)
    return g * (jnp.minimum(ratio / rate, 1) if spec.larc_mode == "clip" else ratio)


def _rule(
    spec: Optimiser, w: Array, g: Array, memory: list[Array], count: Array, rate: Array
) -> tuple[Array, ...]:
    if spec.kind == "adam":
        m = ADAM_BETA1 * memory[0] + (1 - ADAM_BETA1) * g
        s = ADAM_BETA2 * memory[1] + (1 - ADAM_BETA2) * jnp.square(g)
        mean, square = m / (1 - ADAM_BETA1**count), s / (1 - ADAM_BETA2**count)
        return w - rate * mean / (jnp.sqrt(square) + spec.epsilon), m, s
    if not memory:
        return (w - rate * g,)
    v = spec.momentum * memory[0] + g
    return w - rate * (g + spec.momentum * v if spec.nesterov else v), v

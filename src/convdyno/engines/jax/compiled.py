"""The programs that are compiled for one network, as pure functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
from jax import Array, lax
from jax import numpy as jnp

from convdyno.blueprint.graph import Blueprint
from convdyno.engines import contract
from convdyno.engines.contract import Trial
from convdyno.engines.jax import lower, optimiser
from convdyno.engines.jax.lower import Arrays, Policy
from convdyno.errors import Refused

Gradients = Callable[..., tuple[Array, Arrays, Arrays]]
"""(weights, statistics, key, images, labels, scale) -> (loss, statistics after, gradients)."""


class State(NamedTuple):
    """What a training step replaces; its memory is handed on from step to step."""

    weights: Arrays
    statistics: Arrays
    memory: optimiser.Memory
    updates: Any
    """How many there have been."""
    key: Any
    """Plain bits: a typed key would take every call off JAX's fast path."""
    scale: optimiser.LossScale | None
    """Only where it is dynamic."""
    average: Arrays | None
    """Of all weights and statistics, where the trial keeps one."""


Step = Callable[[State, Any, Any, Any], tuple[State, Array]]
"""(state, images, labels, rate) -> (state, loss)."""


class Exchange(NamedTuple):
    """What a device has to do with others in a step."""

    average: Callable[[Arrays], Arrays]
    """Its gradients -> those of all."""
    own_key: Callable[[Any], Any]
    """A key that all have -> one of its own."""


def gradients(blueprint: Blueprint, policy: Policy, smoothing: float) -> Gradients:
    """The loss of a batch before an update, and its slope; `scale` keeps small slopes in fp16."""
    network = lower.lower(blueprint, policy, training=True)

    def scaled_loss(
        weights: Arrays, statistics: Arrays, key: Any, images: Any, labels: Any, scale: Any
    ) -> tuple[Array, tuple[Array, Arrays]]:
        scores, after = network(weights | statistics, images, jax.random.wrap_key_data(key))
        loss = lower.loss(blueprint, scores, labels, smoothing)
        return loss * scale, (loss, after)

    def compute(weights: Arrays, *rest: Any) -> tuple[Array, Arrays, Arrays]:
        found, (loss, after) = jax.grad(scaled_loss, has_aux=True)(weights, *rest)
        return loss, after, {name: gradient / rest[-1] for name, gradient in found.items()}

    return compute


def train(
    blueprint: Blueprint, policy: Policy, trial: Trial, scale: float, exchange: Exchange | None
) -> Step:
    """Forward, backward and update; alone or with others, of a batch as a whole or in parts."""
    spec, parts = trial.optimiser, trial.accumulate
    compute = gradients(blueprint, policy, spec.label_smoothing)
    if parts > 1:
        compute = _one_by_one(compute, parts)
    drops = contract.drops(blueprint)

    def step(state: State, images: Any, labels: Any, rate: Any) -> tuple[State, Array]:
        key = mine = state.key
        if drops:
            key, mine = jax.random.key_data(jax.random.split(jax.random.wrap_key_data(key)))
            if exchange:
                mine = _rekeyed(mine, exchange.own_key)
        factor = state.scale.value if state.scale else scale
        loss, statistics, slopes = compute(
            state.weights, state.statistics, mine, images, labels, factor
        )
        if exchange:
            slopes = exchange.average(slopes)
        updates = state.updates + 1
        weights, memory = optimiser.update(spec, state.weights, slopes, state.memory, updates, rate)
        average = state.average
        if spec.ema is not None and average is not None:
            average = optimiser.average(spec.ema, average, weights | statistics)
        after = State(weights, statistics, memory, updates, key, None, average)
        return (_unless_overflown(state, slopes, after) if state.scale else after), loss

    return step


def infer(answer: Blueprint, policy: Policy) -> Callable[[Arrays, Any], Array]:
    """(weights in use, images) -> the scores of the first head."""
    network = lower.lower(answer, policy, training=False)
    return lambda weights, images: network(weights, images, None)[0][0]


def in_use(policy: Policy) -> Callable[[Arrays], Arrays]:
    """Kernels and biases as the network computes with them; batch norm stays in float32."""

    def cast(name: str, array: Array) -> Array:
        half = name.rpartition("/")[2] in ("kernel", "bias")
        return array.astype(policy.dtype) if half else array

    return lambda arrays: {name: cast(name, array) for name, array in arrays.items()}


def normalise(policy: Policy) -> Callable[[Any], Array]:
    """Bytes as the network sees them: 0..255 becomes -1..1."""
    return lambda images: (images.astype(jnp.float32) / 127.5 - 1).astype(policy.between)


def _one_by_one(compute: Gradients, parts: int) -> Gradients:
    """The same of a batch in equal parts, which need no more memory at a time than one of them.

    Statistics go from part to part; loss and gradients are the means over the parts.
    """

    def whole(
        weights: Arrays, statistics: Arrays, key: Any, images: Any, labels: Any, scale: Any
    ) -> tuple[Array, Arrays, Arrays]:
        if len(labels) % parts:
            raise Refused(f"a batch of {len(labels)} cannot be cut into {parts} equal parts")

        def add(so_far: Any, part: Any) -> tuple[Any, None]:
            statistics, total = so_far
            number, *batch = part
            mine = _rekeyed(key, lambda key: jax.random.fold_in(key, number))
            loss, statistics, slopes = compute(weights, statistics, mine, *batch, scale)
            return (statistics, jax.tree.map(jnp.add, total, (loss, slopes))), None

        none = jnp.zeros(()), jax.tree.map(jnp.zeros_like, weights)
        cut = (array.reshape(parts, -1, *array.shape[1:]) for array in (images, labels))
        (statistics, total), _ = lax.scan(add, (statistics, none), (jnp.arange(parts), *cut))
        loss, slopes = jax.tree.map(lambda sum: sum / parts, total)
        return loss, statistics, slopes

    return whole


def _rekeyed(bits: Any, change: Callable[[Any], Any]) -> Array:
    return jax.random.key_data(change(jax.random.wrap_key_data(bits)))


def _unless_overflown(before: State, slopes: Arrays, after: State) -> State:
    """As torch's GradScaler: a step that overflows only lowers the scale."""
    assert before.scale is not None
    ok = optimiser.finite(slopes)
    weights, memory, updates, average = jax.tree.map(
        lambda new, old: jnp.where(ok, new, old),
        (after.weights, after.memory, after.updates, after.average),
        (before.weights, before.memory, before.updates, before.average),
    )
    scale = optimiser.rescale(before.scale, ok)
    return State(weights, after.statistics, memory, updates, after.key, scale, average)

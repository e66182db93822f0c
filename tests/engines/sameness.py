"""What it means that an engine computes what the reference computes; each check is of one fact."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from miniatures import host_batch, lively_weights

from convdyno.blueprint.graph import Blueprint, is_state
from convdyno.engines import reference
from convdyno.engines.contract import Optimiser, Session, Weights, normalise

SPECS = {
    "nesterov": Optimiser(rate=0.05, weight_decay=0.01),
    "heavy ball": Optimiser(rate=0.05, nesterov=False, weight_decay=0.01),
    "no momentum": Optimiser(rate=0.05, momentum=0.0),
    "kernels": Optimiser(rate=0.05, weight_decay=0.1, decay_on="kernels"),
    "adam": Optimiser(kind="adam", rate=0.01, weight_decay=0.01),
    "adam kernels": Optimiser(kind="adam", rate=0.01, weight_decay=0.1, decay_on="kernels"),
}


def assert_close(found: Any, expected: Any, tolerance: float, what: str = "") -> None:
    scale = max(np.abs(expected).max(), 1e-6)
    assert np.abs(found - expected).max() <= tolerance * scale, what


def same(a: Weights, b: Weights) -> bool:
    return a.keys() == b.keys() and all(a[n].tobytes() == b[n].tobytes() for n in a)


def check_weights_come_back(session: Session, blueprint: Blueprint) -> None:
    for seed in (1, 9):
        weights = lively_weights(blueprint, seed)
        session.load(weights)
        assert same(session.weights(), weights)


def check_forward(session: Session, blueprint: Blueprint, tolerance: float = 1e-5) -> None:
    weights, host = lively_weights(blueprint), host_batch(blueprint)
    session.load(weights)
    found = session.logits(session.place(*host))
    assert found.dtype == np.float32
    assert_close(found, reference.logits(blueprint, weights, normalise(host[0])), tolerance)


def check_loss(session: Session, blueprint: Blueprint, tolerance: float = 1e-5) -> None:
    weights, host = lively_weights(blueprint), host_batch(blueprint)
    session.load(weights)
    session.train_step(session.place(*host))
    expected = reference.loss(blueprint, weights, normalise(host[0]), host[1])
    assert session.loss() == pytest.approx(expected, rel=tolerance)


def check_gradients(session: Session, blueprint: Blueprint) -> None:
    """They are the reference's finite differences, and looking at them changes nothing."""
    weights, (images, labels) = lively_weights(blueprint), host_batch(blueprint)
    session.load(weights)
    gradients = session.gradients(session.place(images, labels))
    assert same(session.weights(), weights)
    assert {n: g.shape for n, g in gradients.items()} == blueprint.trainable
    largest = max(float(np.abs(g).max()) for g in gradients.values())
    random = np.random.default_rng(3)
    for name, gradient in gradients.items():
        for _ in range(2):
            index = tuple(int(random.integers(n)) for n in gradient.shape)
            expected = reference.finite_difference(
                blueprint, weights, normalise(images), labels, name, index
            )
            assert gradient[index] == pytest.approx(expected, rel=1e-3, abs=1e-5 * largest), name


def check_updates(
    session: Session,
    blueprint: Blueprint,
    spec: Optimiser,
    rates: tuple[float, ...] = (1.0, 1.0, 1.0),
) -> None:
    """Steps follow the rule, from fresh optimiser state; `rates` are multiples of the spec's."""
    weights, host = lively_weights(blueprint), host_batch(blueprint)
    batch = session.place(*host)
    expected = {n: w.astype(np.float64) for n, w in weights.items()}
    memory = {n: (np.zeros(shape), np.zeros(shape)) for n, shape in blueprint.trainable.items()}
    for step, multiple in enumerate(rates, 1):
        session.set_rate(spec.rate * multiple)
        gradients = session.gradients(batch)
        statistics = reference.running_statistics(blueprint, expected, normalise(host[0]))
        for name, gradient in gradients.items():
            decay = spec.weight_decay if reference.decays(spec, name) else 0.0
            g, rule = gradient.astype(np.float64), {"rate": spec.rate * multiple, "decay": decay}
            if spec.kind == "adam":
                w, *moments = reference.adam(expected[name], g, *memory[name], step, **rule)
                expected[name], memory[name] = w, tuple(moments)
            else:
                rule |= {"momentum": spec.momentum, "nesterov": spec.nesterov}
                w, v = reference.sgd(expected[name], g, memory[name][0], **rule)
                expected[name], memory[name] = w, (v, v)
        expected |= statistics
        session.train_step(batch)
    for name, found in session.weights().items():
        assert_close(found, expected[name], 1e-5, name)
        assert np.abs(found - weights[name]).max() > 1e-4


def check_statistics(session: Session, blueprint: Blueprint) -> None:
    """The running variance is the population's, also when the size of the batch changes."""
    weights = lively_weights(blueprint)
    session.load(weights)
    session.set_rate(1e-12)
    for seed, images in enumerate((2, 2, 5, 3, 2)):
        host = host_batch(blueprint, images, seed)
        session.train_step(session.place(*host))
        weights |= reference.running_statistics(blueprint, weights, normalise(host[0]))
    found = session.weights()
    for name in filter(is_state, weights):
        assert_close(found[name], weights[name], 1e-6, name)
    batch = session.place(*host)
    assert_close(
        session.logits(batch), reference.logits(blueprint, found, normalise(host[0])), 1e-5
    )


def check_half_gradients(
    open_session: Callable[..., Session], blueprint: Blueprint, precision: str
) -> None:
    """Gradients in half precision are near those in float32."""
    weights, host = lively_weights(blueprint), host_batch(blueprint)
    exact = open_session(blueprint, weights)
    half = open_session(blueprint, weights, precision=precision)
    expected = exact.gradients(exact.place(*host))
    for name, gradient in half.gradients(half.place(*host)).items():
        assert_close(gradient, expected[name], 0.05, name)

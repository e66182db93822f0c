"""JAX computes what the reference computes: forward, loss, gradients, updates, statistics."""

import numpy as np
import pytest
from jax_sessions import open_session
from miniatures import MINIATURES, grouped, host_batch, lively_weights, plain, residual

from convdyno.blueprint.graph import is_state
from convdyno.engines import reference
from convdyno.engines.contract import Optimiser, normalise


def assert_close(found, expected, tolerance, what=""):
    scale = max(np.abs(expected).max(), 1e-6)
    assert np.abs(found - expected).max() <= tolerance * scale, what


@pytest.mark.parametrize("name", MINIATURES)
def test_forward_loss_and_gradients(name):
    """With rate 1 and nothing else an update is the gradient: one program shows it and the loss."""
    blueprint = MINIATURES[name]()
    weights, (images, labels) = lively_weights(blueprint), host_batch(blueprint)
    bare = Optimiser(rate=1.0, momentum=0.0, weight_decay=0.0)
    session = open_session(blueprint, weights, optimiser=bare)
    batch, pixels = session.place(images, labels), normalise(images)
    assert_close(session.logits(batch), reference.logits(blueprint, weights, pixels), 1e-5)
    session.train_step(batch)
    expected = reference.loss(blueprint, weights, pixels, labels)
    assert session.loss() == pytest.approx(expected, rel=1e-5)
    after = session.weights()
    gradients = {n: weights[n].astype(np.float64) - after[n] for n in blueprint.trainable}
    largest = max(float(np.abs(g).max()) for g in gradients.values())
    random = np.random.default_rng(3)
    for weight, gradient in gradients.items():
        for _ in range(2):
            index = tuple(int(random.integers(n)) for n in gradient.shape)
            slope = reference.finite_difference(blueprint, weights, pixels, labels, weight, index)
            assert gradient[index] == pytest.approx(slope, rel=1e-3, abs=1e-5 * largest), weight


SPECS = {
    "nesterov": Optimiser(rate=0.05, weight_decay=0.01),
    "heavy ball": Optimiser(rate=0.05, nesterov=False, weight_decay=0.01),
    "no momentum": Optimiser(rate=0.05, momentum=0.0),
    "kernels": Optimiser(rate=0.05, weight_decay=0.1, decay_on="kernels"),
    "adam": Optimiser(kind="adam", rate=0.01, weight_decay=0.01),
    "adam kernels": Optimiser(kind="adam", rate=0.01, weight_decay=0.1, decay_on="kernels"),
}


@pytest.fixture(scope="module")
def slopes():
    """One session that only gives gradients: its program is compiled once for all rules."""
    return open_session(residual())


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_three_updates_follow_the_rule(spec, slopes):
    blueprint = residual()
    weights, host = lively_weights(blueprint), host_batch(blueprint)
    session = open_session(blueprint, weights, optimiser=spec)
    batch = session.place(*host)
    expected = {n: w.astype(np.float64) for n, w in weights.items()}
    memory = {n: (np.zeros(shape), np.zeros(shape)) for n, shape in blueprint.trainable.items()}
    assert {n: g.shape for n, g in slopes.gradients(batch).items()} == blueprint.trainable
    for step in (1, 2, 3):
        slopes.load(session.weights())
        statistics = reference.running_statistics(blueprint, expected, normalise(host[0]))
        for name, gradient in slopes.gradients(batch).items():
            decay = spec.weight_decay if reference.decays(spec, name) else 0.0
            g, rule = gradient.astype(np.float64), {"rate": spec.rate, "decay": decay}
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


def test_running_variance_is_the_populations_also_when_the_batch_changes():
    blueprint = grouped()
    weights = lively_weights(blueprint)
    session = open_session(blueprint, weights, optimiser=Optimiser(rate=1e-12))
    for seed, images in enumerate((2, 3, 2)):
        host = host_batch(blueprint, images, seed)
        session.train_step(session.place(*host))
        weights |= reference.running_statistics(blueprint, weights, normalise(host[0]))
    found = session.weights()
    for name in filter(is_state, weights):
        assert_close(found[name], weights[name], 1e-6, name)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_after_training_the_answer_is_the_references_with_the_same_weights(precision):
    blueprint = residual()
    session = open_session(blueprint, precision=precision, optimiser=Optimiser(rate=0.01))
    host = host_batch(blueprint)
    batch = session.place(*host)
    for _ in range(3):
        session.train_step(batch)
        expected = reference.logits(blueprint, session.weights(), normalise(host[0]))
        assert_close(session.logits(batch), expected, 1e-5 if precision == "fp32" else 0.05)


def test_batch_norm_is_exact_far_from_zero():
    """The variance of large numbers that differ little is not lost in their squares."""
    from jax import numpy as jnp

    from convdyno.blueprint.ops import Norm
    from convdyno.engines.jax.lower import native_norm

    x = 1000 + np.random.default_rng(0).standard_normal((64, 4, 4, 2)).astype(np.float32)
    _, _, variance = native_norm(Norm(), jnp.asarray(x), jnp.ones(2), jnp.zeros(2))
    assert_close(np.asarray(variance), x.astype(np.float64).var((0, 1, 2)), 1e-4)


@pytest.mark.parametrize("name", MINIATURES)
def test_half_precision_is_near(name):
    blueprint = MINIATURES[name]()
    weights, (images, labels) = lively_weights(blueprint), host_batch(blueprint)
    session = open_session(blueprint, weights, precision="bf16", mode="infer")
    found = session.logits(session.place(images, labels))
    assert found.dtype == np.float32
    assert_close(found, reference.logits(blueprint, weights, normalise(images)), 0.05)


@pytest.mark.parametrize("name", ["residual", "lopsided_pools", "grouped", "inception"])
def test_the_loss_in_half_precision_is_near(name):
    blueprint = MINIATURES[name]()
    weights, (images, labels) = lively_weights(blueprint), host_batch(blueprint)
    session = open_session(blueprint, weights, precision="bf16")
    session.train_step(session.place(images, labels))
    expected_loss = reference.loss(blueprint, weights, normalise(images), labels)
    assert session.loss() == pytest.approx(expected_loss, rel=0.05)


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_gradients_in_half_precision_are_near(precision):
    blueprint = plain()
    weights, (images, labels) = lively_weights(blueprint), host_batch(blueprint)
    exact = open_session(blueprint, weights)
    half = open_session(blueprint, weights, precision=precision)
    expected = exact.gradients(exact.place(images, labels))
    batch = half.place(images, labels)
    for name, gradient in half.gradients(batch).items():
        assert_close(gradient, expected[name], 0.05, name)
    tolerance = 0.05 if precision == "bf16" else 0.01
    assert_close(
        half.logits(batch), reference.logits(blueprint, weights, normalise(images)), tolerance
    )

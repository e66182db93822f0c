"""JAX computes what the reference computes: forward, loss, gradients, updates, statistics."""

import numpy as np
import pytest
import sameness
from jax_sessions import open_session
from miniatures import MINIATURES, grouped, host_batch, plain, residual, small
from sameness import assert_close

from convdyno.engines import reference
from convdyno.engines.contract import Optimiser, normalise


@pytest.fixture(scope="module", params=MINIATURES)
def opened(request):
    blueprint = MINIATURES[request.param]()
    return open_session(blueprint), blueprint


def test_weights_come_back_bit_for_bit(opened):
    sameness.check_weights_come_back(*opened)


def test_forward(opened):
    sameness.check_forward(*opened)


def test_gradients(opened):
    sameness.check_gradients(*opened)


def test_loss(opened):
    sameness.check_loss(*opened)


@pytest.mark.parametrize("spec", sameness.SPECS.values(), ids=sameness.SPECS)
def test_updates_follow_the_rule(spec):
    session = open_session(small(), optimiser=spec)
    sameness.check_updates(session, small(), spec, rates=(1, 1, 0.5, 2))


def test_running_variance_is_the_populations_also_when_the_batch_changes():
    sameness.check_statistics(open_session(grouped()), grouped())


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
    session = open_session(blueprint, precision="bf16", mode="infer")
    sameness.check_forward(session, blueprint, 0.05)


@pytest.mark.parametrize("name", ["residual", "lopsided_pools", "grouped", "inception"])
def test_the_loss_in_half_precision_is_near(name):
    blueprint = MINIATURES[name]()
    sameness.check_loss(open_session(blueprint, precision="bf16"), blueprint, 0.05)


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_gradients_in_half_precision_are_near(precision):
    sameness.check_half_gradients(open_session, plain(), precision)

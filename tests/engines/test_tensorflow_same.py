"""TensorFlow computes what the reference computes: forward, gradients, updates, statistics."""

from dataclasses import replace

import pytest
import sameness
from miniatures import MINIATURES, grouped, host_batch, plain, residual
from tensorflow_sessions import open_session

from convdyno.engines.contract import Optimiser


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


def test_nothing_is_traced_twice(opened):
    session, blueprint = opened
    batch = session.place(*host_batch(blueprint))
    for rate in (0.1, 0.2):
        session.set_rate(rate)
        session.train_step(batch)
        session.infer_step(batch)
        assert session.compilations() == 2


@pytest.mark.parametrize("spec", sameness.SPECS.values(), ids=sameness.SPECS)
def test_updates_follow_the_rule(spec):
    session = open_session(residual(), optimiser=spec)
    sameness.check_updates(session, residual(), spec, rates=(1, 1, 0.5, 2))


def test_running_variance_is_the_populations_also_when_the_batch_changes():
    sameness.check_statistics(open_session(grouped()), grouped())


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
@pytest.mark.parametrize("name", MINIATURES)
def test_half_precision_is_near(name, precision):
    blueprint = MINIATURES[name]()
    session = open_session(blueprint, precision=precision)
    sameness.check_forward(session, blueprint, 0.05 if precision == "bf16" else 0.01)
    sameness.check_loss(session, blueprint, 0.05)


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_gradients_in_half_precision_are_near(precision):
    sameness.check_half_gradients(open_session, plain(), precision)


@pytest.mark.parametrize("name", MINIATURES)
def test_channels_first_is_the_same_function(name, monkeypatch):
    """It is for GPUs, but a CPU can tell whether it is right."""
    from convdyno.engines.tensorflow import settings

    prepare = settings.prepare
    monkeypatch.setattr(settings, "prepare", lambda *given: replace(prepare(*given), layout="nchw"))
    blueprint = MINIATURES[name]()
    session = open_session(blueprint)
    assert session.place(*host_batch(blueprint)).images.shape[1] == blueprint.image[2]
    sameness.check_forward(session, blueprint)
    sameness.check_gradients(session, blueprint)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["residual", "widened", "inception"])
def test_compiled_steps_are_the_same_steps(name):
    blueprint, spec = MINIATURES[name](), Optimiser(rate=0.05)
    session = open_session(blueprint, compile="on")
    assert session.settings.compiled
    sameness.check_forward(session, blueprint)
    sameness.check_updates(session, blueprint, spec)

"""torch computes what the reference computes: forward, loss, gradients, updates, statistics."""

import pytest
import sameness
from miniatures import MINIATURES, grouped, host_batch, plain, residual
from sameness import assert_close
from torch_sessions import open_session

from convdyno.blueprint.draft import Draft
from convdyno.engines import reference
from convdyno.engines.contract import Optimiser, normalise

LAYOUTS = ("nchw", "nhwc")


@pytest.fixture(
    scope="module", params=[(n, layout) for n in MINIATURES for layout in LAYOUTS], ids="-".join
)
def opened(request):
    name, layout = request.param
    blueprint = MINIATURES[name]()
    return open_session(blueprint, layout=layout), blueprint


def test_weights_come_back_bit_for_bit(opened):
    sameness.check_weights_come_back(*opened)


def test_forward(opened):
    sameness.check_forward(*opened)


def test_gradients(opened):
    sameness.check_gradients(*opened)


def test_loss(opened):
    sameness.check_loss(*opened)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("spec", sameness.SPECS.values(), ids=sameness.SPECS)
def test_updates_follow_the_rule(spec, layout):
    session = open_session(residual(), layout=layout, optimiser=spec)
    sameness.check_updates(session, residual(), spec, rates=(1, 1, 0.5, 2))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_running_variance_is_the_populations_also_when_the_batch_changes(layout):
    sameness.check_statistics(open_session(grouped(), layout=layout), grouped())


@pytest.mark.parametrize("layout", LAYOUTS)
def test_after_training_the_answer_is_the_references_with_the_same_weights(layout):
    blueprint = grouped()
    session = open_session(blueprint, layout=layout, optimiser=Optimiser(rate=0.01))
    host = host_batch(blueprint, 2)
    batch = session.place(*host)
    for _ in range(3):
        session.train_step(batch)
        expected = reference.logits(blueprint, session.weights(), normalise(host[0]))
        assert_close(session.logits(batch), expected, 1e-5)


def test_a_strided_1x1_convolution_of_few_channels_has_its_right_gradient():
    """oneDNN's own kernel crashes on this one or corrupts memory, when channels come last."""
    blueprint = Draft("thin", (56, 56, 8)).image.conv(16, 1, 2).mean().logits(5).done()
    found = []
    for layout in LAYOUTS:
        session = open_session(blueprint, layout=layout)
        found.append(session.gradients(session.place(*host_batch(blueprint, 2))))
    for name, gradient in found[0].items():
        assert_close(found[1][name], gradient, 1e-5, name)


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", MINIATURES)
def test_half_precision_is_near(name, layout, precision):
    blueprint = MINIATURES[name]()
    session = open_session(blueprint, layout=layout, precision=precision)
    sameness.check_forward(session, blueprint, 0.05 if precision == "bf16" else 0.01)
    sameness.check_loss(session, blueprint, 0.05)


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_gradients_in_half_precision_are_near(precision):
    sameness.check_half_gradients(open_session, plain(), precision)

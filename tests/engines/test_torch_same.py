"""torch computes what the reference computes: forward, loss, gradients, updates, statistics."""

import numpy as np
import pytest
from miniatures import MINIATURES, grouped, host_batch, lively_weights, plain, residual
from torch_sessions import open_session

from convdyno.blueprint.draft import Draft
from convdyno.blueprint.graph import is_state
from convdyno.engines import reference
from convdyno.engines.contract import Optimiser, normalise

LAYOUTS = ("nchw", "nhwc")
ALL = [(name, layout) for name in MINIATURES for layout in LAYOUTS]


def assert_close(found, expected, tolerance, what=""):
    scale = max(np.abs(expected).max(), 1e-6)
    assert np.abs(found - expected).max() <= tolerance * scale, what


@pytest.mark.parametrize(("name", "layout"), ALL)
def test_forward_and_loss(name, layout):
    blueprint = MINIATURES[name]()
    weights, (images, labels) = lively_weights(blueprint), host_batch(blueprint)
    session = open_session(blueprint, weights, layout=layout)
    batch = session.place(images, labels)
    assert_close(
        session.logits(batch), reference.logits(blueprint, weights, normalise(images)), 1e-5
    )
    session.train_step(batch)
    expected = reference.loss(blueprint, weights, normalise(images), labels)
    assert session.loss() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(("name", "layout"), ALL)
def test_gradients_are_the_finite_differences_of_the_reference(name, layout):
    blueprint = MINIATURES[name]()
    weights, (images, labels) = lively_weights(blueprint), host_batch(blueprint)
    session = open_session(blueprint, weights, layout=layout)
    gradients = session.gradients(session.place(images, labels))
    assert {n: g.shape for n, g in gradients.items()} == blueprint.trainable
    largest = max(float(np.abs(g).max()) for g in gradients.values())
    random = np.random.default_rng(3)
    for weight, gradient in gradients.items():
        for _ in range(2):
            index = tuple(int(random.integers(n)) for n in gradient.shape)
            expected = reference.finite_difference(
                blueprint, weights, normalise(images), labels, weight, index
            )
            assert gradient[index] == pytest.approx(expected, rel=1e-3, abs=1e-5 * largest), weight


SPECS = {
    "nesterov": Optimiser(rate=0.05, weight_decay=0.01),
    "heavy ball": Optimiser(rate=0.05, nesterov=False, weight_decay=0.01),
    "no momentum": Optimiser(rate=0.05, momentum=0.0),
    "kernels": Optimiser(rate=0.05, weight_decay=0.1, decay_on="kernels"),
    "adam": Optimiser(kind="adam", rate=0.01, weight_decay=0.01),
    "adam kernels": Optimiser(kind="adam", rate=0.01, weight_decay=0.1, decay_on="kernels"),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_three_updates_follow_the_rule(spec, layout):
    blueprint = residual()
    weights, host = lively_weights(blueprint), host_batch(blueprint)
    session = open_session(blueprint, weights, layout=layout, optimiser=spec)
    batch = session.place(*host)
    expected = {n: w.astype(np.float64) for n, w in weights.items()}
    memory = {n: (np.zeros(shape), np.zeros(shape)) for n, shape in blueprint.trainable.items()}
    for step in (1, 2, 3):
        gradients = session.gradients(batch)
        statistics = reference.running_statistics(blueprint, expected, normalise(host[0]))
        for name, gradient in gradients.items():
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


@pytest.mark.parametrize("layout", LAYOUTS)
def test_running_variance_is_the_populations_also_when_the_batch_changes(layout):
    blueprint = grouped()
    weights = lively_weights(blueprint)
    session = open_session(blueprint, weights, layout=layout, optimiser=Optimiser(rate=1e-12))
    for seed, images in enumerate((2, 2, 5, 3, 2)):
        host = host_batch(blueprint, images, seed)
        session.train_step(session.place(*host))
        weights |= reference.running_statistics(blueprint, weights, normalise(host[0]))
    found = session.weights()
    for name in filter(is_state, weights):
        assert_close(found[name], weights[name], 1e-6, name)


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
    weights, (images, labels) = lively_weights(blueprint), host_batch(blueprint)
    session = open_session(blueprint, weights, layout=layout, precision=precision)
    batch = session.place(images, labels)
    expected = reference.logits(blueprint, weights, normalise(images))
    found = session.logits(batch)
    assert found.dtype == np.float32
    assert_close(found, expected, 0.05 if precision == "bf16" else 0.01)
    session.train_step(batch)
    expected_loss = reference.loss(blueprint, weights, normalise(images), labels)
    assert session.loss() == pytest.approx(expected_loss, rel=0.05)


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_gradients_in_half_precision_are_near(precision):
    blueprint = plain()
    weights, host = lively_weights(blueprint), host_batch(blueprint)
    exact = open_session(blueprint, weights)
    half = open_session(blueprint, weights, precision=precision)
    expected = exact.gradients(exact.place(*host))
    for name, gradient in half.gradients(half.place(*host)).items():
        assert_close(gradient, expected[name], 0.05, name)

"""The oracle's gradients are the finite differences of its own loss."""

import numpy as np
import pytest
from miniatures import MINIATURES, host_batch, lively_weights

from convdyno.engines import reference, registry
from convdyno.engines.contract import Optimiser, Trial, normalise
from convdyno.engines.reference_backward import differentiate


@pytest.mark.parametrize("name", MINIATURES)
def test_gradients_are_finite_differences(name: str) -> None:
    blueprint = MINIATURES[name]()
    weights, (images, labels) = lively_weights(blueprint), host_batch(blueprint)
    pixels = normalise(images)
    step = differentiate(blueprint, weights, pixels, labels)
    assert step.loss == pytest.approx(reference.loss(blueprint, weights, pixels, labels))
    assert {n: g.shape for n, g in step.gradients.items()} == blueprint.trainable
    largest = max(float(np.abs(g).max()) for g in step.gradients.values())
    random = np.random.default_rng(5)
    for weight, gradient in step.gradients.items():
        for _ in range(3):
            index = tuple(int(random.integers(n)) for n in gradient.shape)
            expected = reference.finite_difference(
                blueprint, weights, pixels, labels, weight, index, h=1e-6
            )
            assert gradient[index] == pytest.approx(expected, rel=1e-4, abs=1e-7 * largest), weight


def test_training_moves_weights_and_running_statistics() -> None:
    blueprint = MINIATURES["residual"]()
    weights, (images, labels) = lively_weights(blueprint), host_batch(blueprint)
    trial = Trial(network="residual", engine="reference", batch=4, optimiser=Optimiser(rate=0.05))
    session = registry.load("reference").open(blueprint, trial, weights)
    batch = session.place(images, labels)
    losses = []
    for _ in range(4):
        session.train_step(batch)
        losses.append(session.loss())
    after = session.weights()
    assert losses == sorted(losses, reverse=True)
    assert all(np.abs(after[name] - weights[name]).max() > 0 for name in blueprint.weights)

"""Initial weights: the same for the same seed and name, independent of the rest, well spread."""

import hashlib
import math

import numpy as np
import pytest

from convdyno.blueprint.draft import Draft
from convdyno.blueprint.graph import Blueprint, Init
from convdyno.blueprint.weights import Weights, initial_weights


def network(init: Init = "he", name: str = "net", more: bool = False) -> Blueprint:
    net = Draft(name, (6, 6, 32), init=init)
    x = net.image.conv(96, 3, bias=True, name="conv").norm(name="norm")
    if more:
        x = x.conv(8, 1, name="another")
    with net.scope("other"):
        x = x.mean().dense(400, name="dense")
    return x.logits(200).done()


def same(a: Weights, b: Weights) -> bool:
    return a.keys() == b.keys() and all(np.array_equal(a[key], b[key]) for key in a)


def test_every_weight_is_there_in_its_shape_and_in_float32() -> None:
    blueprint = network()
    weights = initial_weights(blueprint)
    assert {key: value.shape for key, value in weights.items()} == blueprint.weights
    assert {value.dtype for value in weights.values()} == {np.dtype("float32")}


def test_one_seed_gives_the_same_weights() -> None:
    assert same(initial_weights(network(), 7), initial_weights(network(), 7))


def test_another_seed_gives_other_weights() -> None:
    a, b = initial_weights(network(), 0), initial_weights(network(), 1)
    assert not np.array_equal(a["conv/kernel"], b["conv/kernel"])


def test_the_name_of_the_network_does_not_matter() -> None:
    assert same(initial_weights(network(name="a")), initial_weights(network(name="b")))


def test_a_weight_does_not_depend_on_other_nodes() -> None:
    a, b = initial_weights(network()), initial_weights(network(more=True))
    assert np.array_equal(a["conv/kernel"], b["conv/kernel"])


def test_nodes_of_one_shape_have_different_weights() -> None:
    net = Draft("twins", (4, 4, 8))
    weights = initial_weights(net.image.conv(8, 1).conv(8, 1).mean().logits(2).done())
    assert not np.array_equal(weights["conv1/kernel"], weights["conv2/kernel"])


def test_a_weight_is_drawn_from_the_hash_of_its_own_name() -> None:
    word = int.from_bytes(hashlib.sha256(b"other/dense/kernel").digest()[:8], "big")
    drawn = np.random.default_rng([5, word]).standard_normal((96, 400), np.float32)
    expected = drawn * math.sqrt(2 / 96)
    assert np.allclose(initial_weights(network(), 5)["other/dense/kernel"], expected)


@pytest.mark.parametrize(
    ("init", "weight", "deviation"),
    [
        ("he", "conv/kernel", math.sqrt(2 / (9 * 96))),  # fan out
        ("he", "other/dense/kernel", math.sqrt(2 / 96)),  # fan in
        ("glorot", "conv/kernel", math.sqrt(2 / (9 * 32 + 9 * 96))),
        ("glorot", "other/dense/kernel", math.sqrt(2 / (96 + 400))),
        ("deepmnist", "conv/kernel", 0.1 * 0.87962),  # a normal cut at two deviations
    ],
)
def test_kernels_have_the_right_moments(init: Init, weight: str, deviation: float) -> None:
    values = initial_weights(network(init))[weight].astype(np.float64)
    error = deviation / math.sqrt(values.size)  # of the mean; that of the deviation is smaller
    assert abs(values.mean()) < 4 * error
    assert abs(values.std() - deviation) < 4 * error


def test_glorots_are_uniform_within_their_limit() -> None:
    values = np.abs(initial_weights(network("glorot"))["other/dense/kernel"])
    limit = math.sqrt(6 / (96 + 400))
    assert 0.99 * limit < values.max() <= limit


def test_deepmnists_are_within_two_deviations() -> None:
    values = np.abs(initial_weights(network("deepmnist"))["other/dense/kernel"])
    assert 0.19 < values.max() <= 0.2


@pytest.mark.parametrize(("init", "bias"), [("he", 0.0), ("glorot", 0.0), ("deepmnist", 0.1)])
def test_biases_are_constant(init: Init, bias: float) -> None:
    assert (initial_weights(network(init))["conv/bias"] == np.float32(bias)).all()


@pytest.mark.parametrize(
    ("weight", "value"), {"scale": 1, "offset": 0, "mean": 0, "variance": 1}.items()
)
def test_batch_norm_starts_as_the_identity(weight: str, value: float) -> None:
    assert (initial_weights(network())[f"norm/{weight}"] == value).all()

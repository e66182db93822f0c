"""The oracle against arithmetic done by hand."""

import numpy as np
import pytest
import sameness
from miniatures import MINIATURES, host_batch, lively_weights, plain, residual

from convdyno.blueprint.draft import Draft
from convdyno.blueprint.ops import (
    LRN,
    OPS,
    Act,
    ChannelGate,
    ChannelNorm,
    ChannelScale,
    Conv,
    Norm,
    Pool,
    Shuffle,
    Slice,
)
from convdyno.engines import reference, reference_update
from convdyno.engines.contract import Optimiser, Trial, normalise
from convdyno.engines.reference import COMPUTE
from convdyno.errors import Refused

ROW = np.array([1.0, 2.0, 3.0]).reshape(1, 1, 3, 1)
LAST_HANGS = {"kernel": (1, 2), "stride": (1, 2), "pad": (0, 0, 0, 1)}


def compute(op, x, **weights):
    return COMPUTE[type(op)](op, weights, x).ravel().tolist()


def test_a_convolution_is_a_cross_correlation_with_zero_padding():
    kernel = np.array([10.0, 1.0, 100.0]).reshape(1, 3, 1, 1)
    op = Conv(1, (1, 3), pad=(0, 0, 1, 1))
    assert compute(op, ROW, kernel=kernel) == [201.0, 312.0, 23.0]


def test_each_group_of_channels_has_its_own_kernel():
    kernel = np.array([2.0, 3.0, 5.0]).reshape(1, 1, 1, 3)
    op = Conv(3, (1, 1), groups=3)
    assert compute(op, ROW.reshape(1, 1, 1, 3), kernel=kernel) == [2.0, 6.0, 15.0]


def test_padding_never_wins_a_maximum():
    assert compute(Pool("max", **LAST_HANGS), -ROW) == [-1.0, -3.0]


def test_an_average_counts_padding_only_if_it_says_so():
    assert compute(Pool("average", **LAST_HANGS), ROW) == [1.5, 3.0]
    assert compute(Pool("average", **LAST_HANGS, count_pad=True), ROW) == [1.5, 1.5]


def test_local_response_is_normalised_by_the_sum_of_squares_nearby():
    x = ROW.reshape(1, 1, 1, 3)
    near = np.array([1 + 4, 1 + 4 + 9, 4 + 9])
    expected = [1, 2, 3] / (2 + 0.5 * near) ** 0.75
    np.testing.assert_allclose(compute(LRN(1, 0.5, 0.75, 2.0), x), expected)


CHANNELS = ROW.reshape(1, 1, 1, 3)


@pytest.mark.parametrize(
    ("kind", "expected"),
    # From tables of the normal distribution and of e^x, to their digits.
    {
        "silu": [-0.268941, 0.731059, 3.928055],
        "hardsigmoid": [1 / 3, 2 / 3, 1.0],
        "hardswish": [-1 / 3, 2 / 3, 4.0],
        "gelu": [-0.158655, 0.841345, 3.999873],
        "gelu-tanh": [-0.158808, 0.841192, 3.999930],
    }.items(),
)
def test_activations_by_hand(kind, expected):
    found = compute(Act(kind), np.array([-1.0, 1.0, 4.0]))
    np.testing.assert_allclose(found, expected, atol=2e-6)


def test_a_gate_multiplies_each_channel():
    image = np.array([1.0, 2.0, 3.0, 4.0]).reshape(1, 1, 2, 2)
    found = COMPUTE[ChannelGate](ChannelGate(), {}, image, np.array([[10.0, 0.5]]))
    assert found.ravel().tolist() == [10.0, 1.0, 30.0, 2.0]


def test_channels_are_normalised_position_by_position():
    found = compute(ChannelNorm(1e-12), CHANNELS, scale=np.ones(3), offset=np.array([0, 0, 1.0]))
    np.testing.assert_allclose(found, [-np.sqrt(1.5), 0, np.sqrt(1.5) + 1], rtol=1e-9)
    assert compute(ChannelScale(), CHANNELS, gain=np.array([2.0, 3.0, 5.0])) == [2.0, 6.0, 15.0]


def test_channels_are_taken_and_shuffled():
    assert compute(Slice(1, 2), CHANNELS) == [2.0, 3.0]
    six = np.arange(6.0).reshape(1, 1, 1, 6)
    assert compute(Shuffle(2), six) == [0, 3, 1, 4, 2, 5]
    assert compute(Shuffle(3), six) == [0, 2, 4, 1, 3, 5]


def test_batch_norm_in_training_has_mean_0_and_population_variance_1():
    net = Draft("norm", (3, 3, 2))
    net.norm = Norm(eps=1e-12)
    blueprint = net.image.norm(name="norm").mean().done()
    weights = {"norm/scale": np.ones(2), "norm/offset": np.zeros(2)}
    weights |= {"norm/mean": np.zeros(2), "norm/variance": np.ones(2)}
    images = normalise(host_batch(blueprint)[0])
    value = reference.forward(blueprint, weights, images, training=True).values["norm"]
    np.testing.assert_allclose(value.mean((0, 1, 2)), 0, atol=1e-12)
    np.testing.assert_allclose(value.var((0, 1, 2)), 1, rtol=1e-9)


def test_equal_scores_cost_the_log_of_the_number_of_classes():
    assert reference.cross_entropy(np.zeros((3, 7)), np.array([0, 3, 6])) == pytest.approx(
        np.log(7)
    )


def test_the_derivative_of_cross_entropy_by_a_bias_is_probability_minus_frequency():
    blueprint = plain()
    weights, (images, labels) = lively_weights(blueprint), host_batch(blueprint)
    images = normalise(images)
    scores = reference.forward(blueprint, weights, images, training=True).values["logits"]
    probability = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    expected = probability.mean(0) - np.bincount(labels, minlength=5) / len(labels)
    for index in range(5):
        found = reference.finite_difference(
            blueprint, weights, images, labels, "logits/bias", (index,)
        )
        assert found == pytest.approx(expected[index], abs=1e-8)


def test_running_statistics_keep_the_decay():
    blueprint = residual()
    weights, images = lively_weights(blueprint), normalise(host_batch(blueprint)[0])
    batch = reference.forward(blueprint, weights, images, training=True).statistics
    after = reference.running_statistics(blueprint, weights, images)
    for name, value in after.items():
        np.testing.assert_allclose(value, 0.9 * weights[name] + 0.1 * batch[name])


def test_two_steps_of_nesterov_by_hand():
    spec = Optimiser(rate=0.5, momentum=0.5, weight_decay=0.1)
    weights, memory = (
        {"a/kernel": np.array(1.0)},
        reference_update.fresh_memory(spec, {"a/kernel": ()}),
    )
    weights, memory = reference_update.update(spec, weights, {"a/kernel": np.array(1.0)}, memory)
    w, v = weights["a/kernel"], memory["velocity/a/kernel"]
    assert (w, v) == (1 - 0.5 * (1.1 + 0.55), 1.1)
    weights, memory = reference_update.update(spec, weights, {"a/kernel": np.array(0.0)}, memory)
    w2, v2 = weights["a/kernel"], memory["velocity/a/kernel"]
    assert v2 == pytest.approx(0.55 + 0.1 * w)
    assert w2 == pytest.approx(w - 0.5 * (0.1 * w + 0.5 * v2))


def test_the_first_step_of_adam_is_the_rate_whatever_the_gradient():
    for gradient in (1e-3, 1.0, -50.0):
        so_far = (np.array(2.0), np.array(gradient), np.array(0.0), np.array(0.0))
        w, _, _ = reference_update.adam(*so_far, 1, rate=0.1, epsilon=1e-8)
        assert w == pytest.approx(2 - 0.1 * np.sign(gradient), rel=1e-5)


def test_l2_can_be_kept_to_kernels():
    both, kernels = Optimiser(), Optimiser(decay_on="kernels")
    assert [reference_update.decays(both, n) for n in ("a/kernel", "a/bias")] == [True, True]
    assert [reference_update.decays(kernels, n) for n in ("a/kernel", "a/bias")] == [True, False]


def test_larc_by_hand():
    """|w| = 5 and |g| = 10, so at eta 0.1 the ratio is 0.05."""
    w, g, zero = np.array([3.0, 4.0]), np.array([6.0, 8.0]), np.zeros(2)
    scale = Optimiser(larc_eta=0.1, larc_mode="scale", rate=0.5)
    np.testing.assert_allclose(reference_update.larc(scale, w, g), 0.05 * g)
    np.testing.assert_allclose(reference_update.larc(scale, zero, g), g)
    for rate, expected in ((0.5, 0.1), (0.05, 1), (0.01, 1), (0.0, 1)):
        clip = scale.model_copy(update={"rate": rate, "larc_mode": "clip"})
        np.testing.assert_allclose(reference_update.larc(clip, w, g), expected * g)
    fast = Optimiser(larc_eta=0.1, rate=4.0)
    np.testing.assert_allclose(reference_update.larc(fast, zero, g), g / 4)
    np.testing.assert_allclose(reference_update.larc(fast, w, zero), zero)


def test_gradients_are_clipped_together_with_their_l2_and_before_larc():
    """With L2 the gradients are (3, 4) and (12), of norm 13 together."""
    weights = {"a/kernel": np.array([2.0, 1.0]), "b/kernel": np.array([4.0])}
    gradients = {"a/kernel": np.array([1.0, 3.0]), "b/kernel": np.array([8.0])}
    plain_ = Optimiser(weight_decay=1.0)
    for norm, share in ((26.0, 1), (6.5, 0.5), (1.3, 0.1)):
        spec = plain_.model_copy(update={"clip_norm": norm})
        found = reference_update.prepare(spec, weights, gradients)
        np.testing.assert_allclose(found["a/kernel"], share * np.array([3.0, 4.0]))
        np.testing.assert_allclose(found["b/kernel"], [share * 12])
    both = plain_.model_copy(update={"clip_norm": 1.3, "larc_eta": 0.2, "rate": 1.0})
    found = reference_update.prepare(both, weights, gradients)
    np.testing.assert_allclose(found["b/kernel"], [1.2 * (0.2 * 4 / 1.2)])


def test_an_average_starts_at_the_first_weights_and_keeps_its_decay():
    blueprint = residual()
    weights, host = lively_weights(blueprint), host_batch(blueprint)
    training = trial(mode="train", optimiser=Optimiser(rate=0.05, ema=0.75))
    session = reference.engine().open(blueprint, training, weights)
    expected = weights
    for _ in range(2):
        session.train_step(session.place(*host))
        now = session.weights()
        expected = {name: 0.75 * a + 0.25 * now[name] for name, a in expected.items()}
    for name, average in expected.items():
        np.testing.assert_allclose(session.state()[f"average/{name}"], average, rtol=1e-5)


def test_smooth_labels_give_every_class_its_share():
    scores, labels = np.array([[1.0, 2.0, 4.0]]), np.array([2])
    log_p = scores[0] - np.log(np.exp(scores[0]).sum())
    expected = -(0.7 * log_p[2] + 0.1 * log_p.sum())
    assert reference.cross_entropy(scores, labels, 0.3) == pytest.approx(expected)


@pytest.mark.parametrize("spec", ["all together", "all with adam", "no momentum"])
def test_training_goes_on_from_its_state(spec):
    def open_session(blueprint, weights, **values):
        training = trial(mode="train", optimiser=sameness.SPECS[spec], **values)
        return reference.engine().open(blueprint, training, weights)

    whole = open_session(residual(), lively_weights(residual()))
    batch = whole.place(*host_batch(residual()))
    whole.train_step(batch)
    again = open_session(residual(), lively_weights(residual(), 9))
    again.load(whole.weights())
    again.restore(whole.state())
    for session in (whole, again):
        session.train_step(batch)
    for name, array in whole.weights().items():
        sameness.assert_close(again.weights()[name], array, 1e-5, name)
    assert int(again.state()["updates"]) == 2
    if spec != "no momentum":
        sameness.check_foreign_states(whole, residual(), sameness.SPECS[spec])


def test_training_with_dropout_is_refused():
    blueprint = Draft("drop", (2, 2, 1)).image.flatten().dropout(0.5).logits(2).done()
    weights, (images, labels) = lively_weights(blueprint), host_batch(blueprint)
    with pytest.raises(Refused, match="dropout"):
        reference.loss(blueprint, weights, normalise(images), labels)
    assert reference.logits(blueprint, weights, normalise(images)).shape == (4, 2)


def trial(**values):
    return Trial(network="mini", engine="reference", batch=4, **{"mode": "infer", **values})


def test_the_miniatures_have_every_op():
    """What is in none of them is compared with the reference by nobody."""
    found = {type(node.op).__name__ for draw in MINIATURES.values() for node in draw().nodes}
    assert found == set(OPS)


@pytest.mark.parametrize("name", MINIATURES)
def test_the_engine_infers_every_miniature(name):
    blueprint = MINIATURES[name]()
    weights = lively_weights(blueprint)
    images, labels = host_batch(blueprint)
    session = reference.engine().open(blueprint, trial(), weights)
    batch = session.place(images, labels)
    session.infer_step(batch)
    session.wait()
    expected = reference.logits(blueprint, weights, normalise(images))
    np.testing.assert_allclose(session.logits(batch), expected, rtol=1e-6)
    assert session.logits(batch).dtype == np.float32


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"precision": "bf16"}, "no precision 'bf16', only fp32"),
        ({"layout": "nchw"}, "no layout 'nchw', only auto, nhwc"),
        ({"device": "cuda"}, "no device 'cuda', only auto, cpu"),
    ],
)
def test_what_the_engine_cannot_do_is_refused(values, sentence):
    with pytest.raises(Refused, match=sentence):
        reference.engine().open(plain(), trial(**values), lively_weights(plain()))


def test_the_engine_has_probes_of_three_kinds():
    session = reference.engine().open(plain(), trial(), lively_weights(plain()))
    found = session.probes()
    assert [probe.kind for probe in found] == ["matmul", "conv", "copy"]
    for probe in found:
        probe.run()
        assert probe.work > 1e6

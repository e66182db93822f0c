"""What a session of JAX's owes beside the right numbers."""

import math
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from jax import numpy as jnp
from jax_sessions import open_session
from miniatures import MINIATURES, dropping, host_batch, lively_weights, plain, residual
from miniatures import with_auxiliary as auxiliary
from peaks import check_probes

from convdyno.blueprint.draft import Draft
from convdyno.engines import registry
from convdyno.engines.contract import Optimiser, normalise
from convdyno.engines.jax import lower, optimiser
from convdyno.errors import Refused
from convdyno.machine.processor import physical_cores


def same(a, b):
    return a.keys() == b.keys() and all(a[n].tobytes() == b[n].tobytes() for n in a)


@pytest.mark.parametrize("name", MINIATURES)
def test_weights_come_back_bit_for_bit(name):
    blueprint = MINIATURES[name]()
    weights, others = lively_weights(blueprint), lively_weights(blueprint, seed=9)
    session = open_session(blueprint, weights, mode="infer")
    assert same(session.weights(), weights)
    session.load(others)
    assert same(session.weights(), others)


def test_new_weights_are_used_and_held_ones_stay_as_they_were():
    session = open_session(plain())
    batch = session.place(*host_batch(plain()))
    held = session.weights()
    again = {name: array.copy() for name, array in held.items()}
    before = session.logits(batch)
    session.train_step(batch)
    assert same(held, again)
    assert not np.allclose(session.logits(batch), before)
    session.load(held)
    np.testing.assert_array_equal(session.logits(batch), before)


def test_a_batch_is_normalised_and_owns_its_memory():
    images, labels = host_batch(residual(), 64)
    session = open_session(residual())
    expected, numbers = normalise(images), labels.copy()
    batch = session.place(images, labels)
    images[:], labels[:] = 0, 0
    np.testing.assert_allclose(batch.images, expected, atol=1e-7)
    np.testing.assert_array_equal(batch.labels, numbers)


@pytest.mark.parametrize("build", [residual, dropping])
def test_gradients_and_inference_leave_training_alone(build):
    blueprint = build()
    one, two = open_session(blueprint), open_session(blueprint)
    batch = one.place(*host_batch(blueprint))
    for session in (one, two):
        session.train_step(batch)
    before = one.weights()
    one.gradients(batch)
    one.infer_step(batch)
    assert same(one.weights(), before)
    for session in (one, two):
        session.train_step(batch)
    assert same(one.weights(), two.weights())


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_the_loss_falls_on_a_fixed_batch_and_nothing_is_compiled_again(precision):
    kind, rate = ("adam", 0.005) if precision == "bf16" else ("sgd", 0.02)
    session = open_session(
        residual(), precision=precision, optimiser=Optimiser(kind=kind, rate=rate)
    )
    batch = session.place(*host_batch(residual()))
    session.train_step(batch)
    compiled, losses = session.compilations(), [session.loss()]
    assert compiled > 0
    for step in range(12):
        session.set_rate(rate * (1 - step / 100))
        session.train_step(session.place(*host_batch(residual())))
        losses.append(session.loss())
    assert session.compilations() == compiled
    assert all(map(math.isfinite, losses))
    assert losses[-1] < 0.7 * losses[0]
    assert all(np.isfinite(w).all() for w in session.weights().values())


def test_a_step_hands_its_memory_on():
    session = open_session(plain())
    held = session._state
    session.train_step(session.place(*host_batch(plain())))
    assert all(array.is_deleted() for array in jax.tree.leaves((held.weights, held.memory)))


def test_a_session_for_inference_has_no_optimiser_and_does_not_train():
    session = open_session(plain(), mode="infer")
    assert session._state.memory == ()
    batch = session.place(*host_batch(plain()))
    session.infer_step(batch)
    session.wait()
    with pytest.raises(Refused, match="opened for inference"):
        session.train_step(batch)


def test_a_device_works_in_the_order_in_which_it_is_asked():
    """So that waiting for the latest result is waiting for everything."""
    multiply = jax.jit(lambda a: a @ a)
    large, small = jnp.ones((1500, 1500)), jnp.ones((4, 4))
    for matrix in (large, small):
        multiply(matrix).block_until_ready()
    for _ in range(3):
        first, second = multiply(large), multiply(small)
        second.block_until_ready()
        assert first.is_ready()


def test_a_static_loss_scale_does_not_change_the_update():
    blueprint = plain()
    plain_steps = open_session(blueprint)
    scaled = open_session(blueprint, precision="fp16", loss_scale=128.0)
    for session in (plain_steps, scaled):
        session.train_step(session.place(*host_batch(blueprint)))
    expected = plain_steps.weights()
    for name, found in scaled.weights().items():
        np.testing.assert_allclose(found, expected[name], atol=2e-3, err_msg=name)
    assert scaled.settings.flags["loss_scale"] == 128.0


def test_a_dynamic_loss_scale_skips_the_step_that_overflows():
    session = open_session(plain(), precision="fp16")
    assert session.settings.flags["loss_scale"] == "dynamic"
    weights = session.weights()
    session.load(weights | {"logits/kernel": weights["logits/kernel"] * 1000})
    before, batch = session.weights(), session.place(*host_batch(plain()))
    session.train_step(batch)
    assert same(session.weights(), before)
    assert float(session._state.scale.value) == optimiser.SCALE_AT_FIRST / 2
    for _ in range(16):
        session.train_step(batch)
    assert not same(session.weights(), before)
    assert all(np.isfinite(w).all() for w in session.weights().values())


def test_a_dynamic_loss_scale_grows_after_enough_good_steps():
    scale = optimiser.at_first()
    for _ in range(optimiser.SCALE_PATIENCE - 1):
        scale = optimiser.LossScale(scale.value, scale.good + 1)
    assert optimiser.rescale(scale, jnp.bool_(True)) == (2 * optimiser.SCALE_AT_FIRST, 0)
    assert optimiser.rescale(scale, jnp.bool_(False)) == (optimiser.SCALE_AT_FIRST / 2, 0)


def test_the_rate_can_be_changed():
    session = open_session(plain())
    batch = session.place(*host_batch(plain()))
    session.set_rate(0.0)
    before = session.weights()
    session.train_step(batch)
    assert same(session.weights(), before)
    session.set_rate(0.1)
    session.train_step(batch)
    assert not same(session.weights(), before)


def test_there_is_no_loss_before_the_first_step():
    assert math.isnan(open_session(plain()).loss())


def test_dropout_drops_in_training_only_and_is_seeded():
    losses = []
    for seed in (5, 5, 6):
        session = open_session(dropping(), seed=seed)
        batch = session.place(*host_batch(dropping()))
        session.set_rate(0.0)
        for _ in range(2):
            session.train_step(batch)
            losses.append(session.loss())
    assert losses[:2] == losses[2:4]
    assert losses[0] != losses[1]
    assert losses[4] != losses[0]
    np.testing.assert_array_equal(session.logits(batch), session.logits(batch))


def test_dropout_zeroes_its_share_and_scales_the_rest_up():
    rate, ones = 0.3, jnp.ones((100, 1000))
    blueprint = Draft("share", (1, 1, 1000)).image.flatten().dropout(rate).done()
    session = open_session(blueprint, {})
    network = lower.lower(blueprint, session._policy, training=True)
    (found,), _ = network({}, ones.reshape(100, 1, 1, 1000), jax.random.key(0))
    values, counts = np.unique(np.asarray(found), return_counts=True)
    np.testing.assert_allclose(values, [0, 1 / (1 - rate)], rtol=1e-6)
    assert counts[0] / found.size == pytest.approx(rate, abs=0.005)


def test_auxiliary_heads_are_not_run_in_use():
    session = open_session(auxiliary(), mode="infer")
    assert not any(name.startswith("side") for name in session._answer.weights)
    session.infer_step(session.place(*host_batch(auxiliary())))
    assert session._ready[0].keys() == session._answer.weights.keys()


def test_settings_are_told():
    settings = open_session(plain(), precision="bf16", mode="infer").settings
    assert (settings.device, settings.layout, settings.compiled) == ("cpu", "nhwc", True)
    assert settings.device_name
    assert settings.threads >= 1
    assert settings.flags["half"] == "bfloat16"
    (warning,) = settings.warnings
    assert "converts bf16 convolutions to float32" in warning


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"precision": "tf32"}, "tf32 .* runs on cpu: use fp32, bf16 or fp16"),
        ({"layout": "nchw"}, "in NHWC.* use --layout auto or nhwc"),
        ({"compile": "off"}, "op by op.* use --compile auto or on"),
        ({"device": "cuda:7"}, "no device 'cuda:7' here; it has .*cpu"),
        ({"device": "abacus"}, "no device 'abacus' here; it has .*cpu"),
        ({"threads": 512}, "cannot change to 512: start a new process"),
    ],
)
def test_what_is_not_possible_here_is_refused(values, sentence):
    open_session(plain(), mode="infer")
    with pytest.raises(Refused, match=sentence):
        open_session(plain(), **values)


@pytest.mark.skipif(sys.platform != "linux", reason="threads are counted in /proc")
@pytest.mark.parametrize("threads", [1, 3])
def test_threads_are_those_of_the_trial(threads):
    script = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from jax_sessions import open_session\n"
        "from miniatures import plain\n"
        f"print(open_session(plain(), mode='infer', threads={threads}).settings)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert f"threads={threads}" in done.stdout, done.stderr
    assert ("3 threads share" in done.stdout) == (threads > physical_cores())


def test_weights_of_another_network_are_refused():
    weights = lively_weights(plain())
    with pytest.raises(Refused, match="there is no 'conv1/kernel'"):
        open_session(plain(), {n: w for n, w in weights.items() if n != "conv1/kernel"})
    weights["logits/bias"] = np.zeros(9, np.float32)
    with pytest.raises(Refused, match=r"'logits/bias' has the shape \(9,\), not \(5,\)"):
        open_session(plain(), weights)


def test_running_out_of_memory_is_recognised():
    engine = registry.load("jax")
    with pytest.raises(jax.errors.JaxRuntimeError) as caught:
        jax.jit(lambda: jnp.zeros(1 << 46))().block_until_ready()
    assert engine.out_of_memory(caught.value)
    assert engine.out_of_memory(MemoryError())
    assert not engine.out_of_memory(RuntimeError("shapes do not match"))
    assert engine.versions().keys() == {"jax", "jaxlib"}


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_probes_are_pure_work(precision):
    session = open_session(plain(), precision=precision, mode="infer")
    check_probes(session)
    assert session.memory_bytes() is None

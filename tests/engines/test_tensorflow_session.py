"""What a session of TensorFlow's owes beside the right numbers."""

import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from miniatures import dropping, host_batch, lively_weights, plain, residual
from miniatures import with_auxiliary as auxiliary
from peaks import check_probes
from sameness import assert_close, same
from tensorflow_sessions import open_session

from convdyno.engines import registry
from convdyno.engines.contract import Optimiser, normalise
from convdyno.errors import Refused


def test_weights_are_copies():
    session = open_session(plain())
    held = session.weights()
    again = {name: array.copy() for name, array in held.items()}
    session.train_step(session.place(*host_batch(plain())))
    assert same(held, again)


def test_a_batch_is_normalised_and_owns_its_memory():
    images, labels = host_batch(residual())
    batch = open_session(residual()).place(images, labels)
    expected = normalise(images)
    images[:], labels[:] = 0, 0
    np.testing.assert_array_equal(batch.images.numpy(), expected)
    assert batch.labels.numpy().any()


@pytest.mark.parametrize("build", [residual, dropping, auxiliary])
def test_looking_does_not_disturb_training(build):
    blueprint = build()
    looked, trained = open_session(blueprint, seed=3), open_session(blueprint, seed=3)
    batch = looked.place(*host_batch(blueprint))
    for _ in range(3):
        looked.train_step(batch)
        looked.gradients(batch)
        looked.infer_step(batch)
        trained.train_step(batch)
    assert same(looked.weights(), trained.weights())


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize("kind", ["sgd", "adam"])
def test_the_loss_falls_on_a_fixed_batch(precision, kind):
    rate = 0.02 if kind == "sgd" else 0.005
    session = open_session(
        residual(), precision=precision, optimiser=Optimiser(kind=kind, rate=rate)
    )
    batch = session.place(*host_batch(residual()))
    losses = []
    for _ in range(12):
        session.train_step(batch)
        losses.append(session.loss())
    assert all(map(math.isfinite, losses))
    assert losses[-1] < 0.7 * losses[0]


@pytest.mark.parametrize("scale", [1.0, 128.0])
def test_a_static_loss_scale_does_not_change_the_update(scale):
    blueprint = plain()
    exact = open_session(blueprint)
    scaled = open_session(blueprint, precision="fp16", loss_scale=scale)
    for session in (exact, scaled):
        session.train_step(session.place(*host_batch(blueprint)))
    expected = exact.weights()
    for name, found in scaled.weights().items():
        assert_close(found, expected[name], 2e-3, name)


def test_a_dynamic_loss_scale_skips_what_overflows_and_halves():
    session = open_session(plain(), precision="fp16")
    batch = session.place(*host_batch(plain()))
    session._scale._scale.assign(2.0**40)
    before = session.weights()
    session.train_step(batch)
    assert same(session.weights(), before)
    assert session._scale.value() == 2.0**39
    assert math.isfinite(session.loss())
    session._scale._scale.assign(2.0**10)
    session._scale._good_steps.assign(1999)
    session.train_step(batch)
    assert not same(session.weights(), before)
    assert session._scale.value() == 2.0**11
    assert all(np.isfinite(w).all() for w in session.weights().values())


def test_gradients_of_a_loss_scale_that_is_too_high_are_finite():
    session = open_session(plain(), precision="fp16")
    session._scale._scale.assign(2.0**40)
    found = session.gradients(session.place(*host_batch(plain())))
    assert all(np.isfinite(g).all() for g in found.values())


def test_dropout_drops_in_training_only_and_is_seeded():
    losses = []
    for _ in range(2):
        session = open_session(dropping(), seed=5)
        batch = session.place(*host_batch(dropping()))
        session.set_rate(0.0)
        for _ in range(2):
            session.train_step(batch)
            losses.append(session.loss())
    assert losses[:2] == losses[2:]
    assert losses[0] != losses[1]
    np.testing.assert_array_equal(session.logits(batch), session.logits(batch))


def test_auxiliary_heads_are_not_run_in_use():
    session = open_session(auxiliary())
    batch = session.place(*host_batch(auxiliary()))

    def reads_the_side(function, *given):
        handles = {id(v.handle) for n, v in session._variables.items() if n.startswith("side")}
        captured = function.get_concrete_function(*given).captured_inputs
        return bool(handles & {id(handle) for handle in captured})

    assert reads_the_side(session._train, batch.images, batch.labels)
    assert not reads_the_side(session._infer, batch.images)


def test_the_loss_before_the_first_step_is_nan():
    assert math.isnan(open_session(plain()).loss())


def test_settings_are_told():
    settings = open_session(plain(), precision="bf16").settings
    assert (settings.device, settings.layout) == ("cpu", "nhwc")
    assert (settings.threads, settings.compiled) == (1, False)
    assert settings.device_name
    assert settings.flags["half"] == "bfloat16"
    assert settings.flags["onednn"] in (True, False)


def test_float32_is_not_tf32():
    import tensorflow as tf

    open_session(plain())
    assert not tf.config.experimental.tensor_float_32_execution_enabled()


def test_emulated_half_precision_is_a_warning(monkeypatch):
    from convdyno.engines import cpu
    from convdyno.engines.frameworks.tensorflow import device

    monkeypatch.setattr(cpu, "features", lambda: {"avx2", "avx512_bf16"})
    monkeypatch.setattr(device, "onednn", lambda: True)
    assert open_session(plain(), precision="bf16").settings.warnings == ()
    (warning,) = open_session(plain(), precision="fp16").settings.warnings
    assert "fp16 is emulated: this CPU has neither amx_fp16 nor avx512_fp16" in warning


@pytest.mark.parametrize(
    ("given", "advice"), [("0", "unset it"), (None, "TF_ENABLE_ONEDNN_OPTS=1 switches it on")]
)
def test_doing_without_onednn_is_a_warning_with_a_remedy(monkeypatch, given, advice):
    from convdyno.engines.frameworks.tensorflow import device

    monkeypatch.setattr(device, "onednn", lambda: False)
    monkeypatch.delenv("TF_ENABLE_ONEDNN_OPTS", raising=False)
    if given:
        monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", given)
    (warning,) = open_session(plain()).settings.warnings
    assert advice in warning


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"precision": "tf32"}, "tf32 .* runs on cpu: use fp32, bf16 or fp16"),
        ({"layout": "nchw"}, "nchw on GPUs only, .* runs on cpu: use --layout nhwc"),
        ({"device": "cuda:7"}, "no device 'cuda:7' here; it has .*cpu"),
        ({"device": "abacus"}, "no device 'abacus' here; it has .*cpu"),
        ({"threads": 3}, "already runs in this process with other threads"),
    ],
)
def test_what_is_not_possible_here_is_refused(values, sentence):
    open_session(plain())
    with pytest.raises(Refused, match=sentence):
        open_session(plain(), **values)


def test_weights_of_another_network_are_refused():
    weights = lively_weights(plain())
    with pytest.raises(Refused, match="there is no 'conv1/kernel'"):
        open_session(plain(), {n: w for n, w in weights.items() if n != "conv1/kernel"})
    weights["logits/bias"] = np.zeros(9, np.float32)
    with pytest.raises(Refused, match=r"'logits/bias' has the shape \(9,\), not \(5,\)"):
        open_session(plain(), weights)


def test_running_out_of_memory_is_recognised():
    import tensorflow as tf

    engine = registry.load("tensorflow")
    message = "Operation received an exception:Status: 1, message: could not create a primitive"
    assert engine.out_of_memory(MemoryError())
    assert engine.out_of_memory(tf.errors.ResourceExhaustedError(None, None, "OOM"))
    assert engine.out_of_memory(tf.errors.AbortedError(None, None, message))
    assert not engine.out_of_memory(tf.errors.AbortedError(None, None, "cancelled"))
    assert not engine.out_of_memory(RuntimeError("shapes do not match"))


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_probes_are_pure_work(precision):
    session = open_session(plain(), precision=precision)
    check_probes(session)
    assert session.memory_bytes() is None


def test_without_a_number_there_is_a_thread_for_each_core():
    code = (
        "from miniatures import *; from tensorflow_sessions import *; import os;"
        "settings = open_session(plain(), threads=None).settings; import tensorflow as tf;"
        "assert settings.threads == tf.config.threading.get_intra_op_parallelism_threads();"
        "assert 1 <= settings.threads <= len(os.sched_getaffinity(0))"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=600, cwd=Path(__file__).parent)

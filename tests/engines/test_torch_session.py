"""What a session of torch's owes beside the right numbers."""

import math

import numpy as np
import pytest
import torch
from miniatures import MINIATURES, dropping, grouped, host_batch, lively_weights, plain, residual
from miniatures import with_auxiliary as auxiliary
from peaks import check_probes
from torch_sessions import open_session

from convdyno.engines import registry
from convdyno.engines.contract import Optimiser, normalise
from convdyno.errors import Refused


def same(a, b):
    return a.keys() == b.keys() and all(a[n].tobytes() == b[n].tobytes() for n in a)


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize("name", MINIATURES)
def test_weights_come_back_bit_for_bit(name, layout):
    blueprint = MINIATURES[name]()
    weights, others = lively_weights(blueprint), lively_weights(blueprint, seed=9)
    session = open_session(blueprint, weights, layout=layout)
    assert same(session.weights(), weights)
    batch = session.place(*host_batch(blueprint))
    session.train_step(batch)
    before = session.logits(batch)
    session.load(others)
    assert same(session.weights(), others)
    assert not np.allclose(session.logits(batch), before)


def test_weights_are_copies():
    session = open_session(plain())
    held = session.weights()
    again = {name: array.copy() for name, array in held.items()}
    session.train_step(session.place(*host_batch(plain())))
    assert same(held, again)


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
def test_a_batch_is_normalised_and_owns_its_memory(layout):
    images, labels = host_batch(residual())
    session = open_session(residual(), layout=layout)
    batch = session.place(images, labels)
    expected = normalise(images)
    images[:], labels[:] = 0, 0
    np.testing.assert_array_equal(batch.images.permute(0, 2, 3, 1).numpy(), expected)
    assert batch.labels.any()


def test_a_batch_that_may_not_be_written_to_is_fine(recwarn):
    images, labels = host_batch(plain())
    images.flags.writeable = labels.flags.writeable = False
    open_session(plain()).place(images, labels)
    assert not recwarn.list


@pytest.mark.parametrize("build", [residual, dropping, auxiliary])
def test_gradients_change_nothing(build):
    blueprint = build()
    one, two = open_session(blueprint), open_session(blueprint)
    batch = one.place(*host_batch(blueprint))
    torch.manual_seed(0)
    one.train_step(batch)
    before = one.weights()
    one.gradients(batch)
    assert same(one.weights(), before)
    one.train_step(batch)
    torch.manual_seed(0)
    two.train_step(batch)
    two.train_step(batch)
    assert same(one.weights(), two.weights())


def test_inference_between_steps_leaves_training_alone():
    one, two = open_session(residual()), open_session(residual())
    batch = one.place(*host_batch(residual()))
    for _ in range(3):
        one.train_step(batch)
        one.infer_step(batch)
        two.train_step(batch)
    assert same(one.weights(), two.weights())


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
    assert all(np.isfinite(w).all() for w in session.weights().values())


@pytest.mark.parametrize("scale", [1.0, 128.0])
def test_a_static_loss_scale_does_not_change_the_update(scale):
    blueprint = plain()
    plain_steps = open_session(blueprint)
    scaled = open_session(blueprint, precision="fp16", loss_scale=scale)
    host = host_batch(blueprint)
    for session in (plain_steps, scaled):
        session.train_step(session.place(*host))
    expected = plain_steps.weights()
    for name, found in scaled.weights().items():
        np.testing.assert_allclose(found, expected[name], atol=2e-3, err_msg=name)
    assert scaled.settings.flags["loss_scale"] == scale


def test_a_dynamic_loss_scale_skips_the_step_that_overflows():
    session = open_session(plain(), precision="fp16")
    weights = session.weights()
    session.load(weights | {"logits/kernel": weights["logits/kernel"] * 1000})
    before, batch = session.weights(), session.place(*host_batch(plain()))
    session.train_step(batch)
    assert same(session.weights(), before)
    for _ in range(16):
        session.train_step(batch)
    assert not same(session.weights(), before)
    assert all(np.isfinite(w).all() for w in session.weights().values())


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
    sessions = [open_session(dropping(), seed=5) for _ in range(2)]
    batch = sessions[0].place(*host_batch(dropping()))
    losses = []
    for session in sessions:
        torch.manual_seed(5)
        session.set_rate(0.0)
        for _ in range(2):
            session.train_step(batch)
            losses.append(session.loss())
    assert losses[:2] == losses[2:]
    assert losses[0] != losses[1]
    np.testing.assert_array_equal(sessions[0].logits(batch), sessions[0].logits(batch))


def test_auxiliary_heads_are_not_run_in_use():
    session = open_session(auxiliary())
    calls = []
    for name, module in session._train.named_children():
        if "side" in name:
            module.register_forward_hook(lambda *_: calls.append("side"))
    batch = session.place(*host_batch(auxiliary()))
    session.infer_step(batch)
    assert not calls
    session.train_step(batch)
    assert calls == ["side"]


def test_memory_is_laid_out_as_the_settings_say():
    for layout, memory in (("nchw", torch.contiguous_format), ("nhwc", torch.channels_last)):
        session = open_session(residual(), layout=layout)
        assert session.settings.layout == layout
        assert session.place(*host_batch(residual())).images.is_contiguous(memory_format=memory)
    assert open_session(residual()).settings.layout == "nhwc"


def test_settings_are_told():
    settings = open_session(plain(), precision="bf16").settings
    assert (settings.device, settings.threads, settings.compiled) == ("cpu", 1, False)
    assert settings.device_name
    assert settings.flags["half"] == "bfloat16"
    assert settings.flags["fused_optimiser"] is True
    assert torch.get_num_threads() == 1
    assert open_session(plain(), threads=None).settings.threads == torch.get_num_threads()


def test_emulated_half_precision_is_a_warning(monkeypatch):
    from convdyno.engines import cpu

    monkeypatch.setattr(cpu, "features", lambda: {"avx2", "avx512_bf16"})
    assert open_session(plain(), precision="bf16").settings.warnings == ()
    (warning,) = open_session(plain(), precision="fp16").settings.warnings
    assert "fp16 is emulated: this CPU has neither amx_fp16 nor avx512_fp16" in warning


def test_too_many_threads_are_a_warning():
    (warning,) = open_session(plain(), threads=512).settings.warnings
    open_session(plain())
    assert "512 threads share" in warning


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"precision": "tf32"}, "tf32 .* runs on cpu: use fp32, bf16 or fp16"),
        ({"device": "cuda:7"}, "no device 'cuda:7' here; it has .*cpu"),
        ({"device": "abacus"}, "no device 'abacus' here; it has .*cpu"),
    ],
)
def test_what_is_not_possible_here_is_refused(values, sentence):
    with pytest.raises(Refused, match=sentence):
        open_session(plain(), **values)


def test_batch_norm_over_one_value_is_refused_in_training_only():
    with pytest.raises(Refused, match="one value of each channel"):
        open_session(grouped(), batch=1)
    session = open_session(grouped(), batch=1, mode="infer")
    batch = session.place(*host_batch(grouped(), 1))
    assert np.isfinite(session.logits(batch)).all()
    with pytest.raises(Refused):
        session.train_step(batch)


def test_weights_of_another_network_are_refused():
    weights = lively_weights(plain())
    with pytest.raises(Refused, match="there is no 'conv1/kernel'"):
        open_session(plain(), {n: w for n, w in weights.items() if n != "conv1/kernel"})
    weights["logits/bias"] = np.zeros(9, np.float32)
    with pytest.raises(Refused, match=r"'logits/bias' has the shape \(9,\), not \(5,\)"):
        open_session(plain(), weights)


def test_running_out_of_memory_is_recognised():
    engine = registry.load("torch")
    with pytest.raises(RuntimeError) as caught:
        torch.empty(1 << 50)
    assert engine.out_of_memory(caught.value)
    assert engine.out_of_memory(MemoryError())
    assert not engine.out_of_memory(RuntimeError("shapes do not match"))


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_probes_are_pure_work(precision):
    session = open_session(plain(), precision=precision)
    check_probes(session)
    assert session.memory_bytes() is None
    assert session.compilations() == 0


@pytest.mark.slow
def test_compiled_steps_are_the_same_steps():
    blueprint = residual()
    eager, compiled = open_session(blueprint), open_session(blueprint, compile="on")
    batch = eager.place(*host_batch(blueprint))
    for session in (eager, compiled):
        for _ in range(2):
            session.train_step(batch)
    assert compiled.compilations() >= 1
    count = compiled.compilations()
    compiled.train_step(batch)
    assert compiled.compilations() == count
    eager.train_step(batch)
    np.testing.assert_allclose(compiled.logits(batch), eager.logits(batch), rtol=1e-4, atol=1e-5)

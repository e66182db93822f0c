"""Keras computes what the reference computes, on each backend in a process of its own.

Every test here is called in the process of its engine: see `keras_process.py`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from typing import Any

import keras_process
import numpy as np
import pytest
import sameness
from keras_process import KerasProcess
from miniatures import MINIATURES, dropping, grouped, host_batch, lively_weights, plain, small
from miniatures import with_auxiliary as auxiliary
from peaks import check_probes
from sameness import assert_close, same

from convdyno.blueprint.graph import Blueprint
from convdyno.blueprint.weights import Weights
from convdyno.engines import registry
from convdyno.engines.contract import Optimiser, Session, Trial, normalise
from convdyno.errors import Refused

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("process")]

ENGINE = keras_process.engine()
BACKEND = ENGINE.removeprefix("keras/")
FEW = ("residual", "grouped", "inception", "flattened_every_way", "layer_normed", "shuffled")
"""The miniatures for what takes time to compile."""
BUILD = MINIATURES | {"small": small, "dropping": dropping}


@pytest.fixture(scope="module")
def processes() -> Iterator[dict[str, KerasProcess]]:
    started: dict[str, KerasProcess] = {}
    yield started
    for process in started.values():
        process.end()


@pytest.fixture(params=keras_process.ENGINES)
def process(request: pytest.FixtureRequest, processes: dict[str, KerasProcess]) -> KerasProcess:
    if request.param not in processes:
        processes[request.param] = KerasProcess(request.param)
    return processes[request.param]


def only(*backends: str) -> pytest.MarkDecorator:
    """For what other backends refuse, or compile for minutes."""
    engines = [f"keras/{backend}" for backend in backends]
    return pytest.mark.parametrize("process", engines, indirect=True)


def open_session(blueprint: Blueprint, weights: Weights | None = None, **values: Any) -> Session:
    given = {"batch": 4, "device": "cpu", "threads": 1, "optimiser": Optimiser(rate=0.05), **values}
    trial = Trial(network=blueprint.name, engine=ENGINE, **given)
    return registry.load(ENGINE).open(blueprint, trial, weights or lively_weights(blueprint))


@cache
def opened(name: str) -> tuple[Session, Blueprint]:
    blueprint = MINIATURES[name]()
    return open_session(blueprint), blueprint


each_miniature = pytest.mark.parametrize("name", MINIATURES)
a_few = pytest.mark.parametrize(
    "name", [n if n in FEW else pytest.param(n, marks=pytest.mark.long) for n in MINIATURES]
)
"""For what compiles a whole step: seconds for each miniature on each backend."""


def test_the_backend_is_the_one_of_the_name():
    assert registry.load(ENGINE).versions().keys() >= {"keras", BACKEND}
    import keras

    assert keras.backend.backend() == BACKEND


@each_miniature
def test_weights_come_back_bit_for_bit(name):
    sameness.check_weights_come_back(*opened(name))


@each_miniature
def test_forward(name):
    sameness.check_forward(*opened(name))


@each_miniature
def test_gradients(name):
    sameness.check_gradients(*opened(name))


@a_few
def test_loss(name):
    sameness.check_loss(*opened(name))


@a_few
def test_nothing_is_compiled_twice(name):
    session, blueprint = opened(name)
    batch = session.place(*host_batch(blueprint))
    counts = []
    for rate in (0.1, 0.2, 0.3):
        session.set_rate(rate)
        session.train_step(batch)
        session.infer_step(batch)
        counts.append(session.compilations())
    assert counts[1] == counts[2]


@pytest.mark.parametrize(
    ("process", "name"),
    [*(("keras/torch", name) for name in MINIATURES), *(("keras/jax", name) for name in FEW)],
    indirect=["process"],
)
def test_channels_first_is_the_same_function(name):
    blueprint = MINIATURES[name]()
    session = open_session(blueprint, layout="nchw")
    assert session.settings.layout == "nchw"
    assert session.place(*host_batch(blueprint)).images.shape[1] == blueprint.image[2]
    sameness.check_forward(session, blueprint)
    sameness.check_gradients(session, blueprint)


@pytest.mark.parametrize("spec", sameness.SPECS)
def test_updates_follow_the_rule(spec):
    spec = sameness.SPECS[spec]
    session = open_session(small(), optimiser=spec)
    sameness.check_updates(session, small(), spec, rates=(1, 1, 0.5, 2))


@pytest.mark.parametrize("way", sameness.GOING_ON)
def test_interrupted_training_is_the_same_training(way):
    build, values = sameness.GOING_ON[way]
    sameness.check_resume(open_session, build(), **values)


def test_a_skipped_update_leaves_only_another_loss_scale():
    sameness.check_skipped_update(open_session, small())


@pytest.mark.parametrize("spec", ["all together", "all with adam"])
def test_training_can_be_taken_over(spec):
    sameness.check_takes_over(open_session, small(), sameness.SPECS[spec])


def test_a_state_that_does_not_fit_is_refused():
    spec = sameness.SPECS["average"]
    sameness.check_foreign_states(open_session(small(), optimiser=spec), small(), spec)


def test_an_average_within_fit_is_refused():
    with pytest.raises(Refused, match="use --feed batch"):
        open_session(small(), feed="fit", optimiser=sameness.SPECS["average"])


def test_labels_can_be_smooth():
    sameness.check_smoothing(open_session, auxiliary())


def test_a_session_has_memory_of_its_own():
    session = open_session(small(), optimiser=sameness.SPECS["average"])
    sameness.check_memory_of_its_own(session, small())


def test_a_last_batch_may_have_fewer_images():
    sameness.check_other_batches(open_session(small()), small())


def test_a_rate_of_zero_keeps_the_velocity():
    session = open_session(plain())
    sameness.check_updates(session, plain(), Optimiser(rate=0.05), rates=(1, 0, 1))


def test_running_variance_is_the_populations_also_when_the_batch_changes():
    sameness.check_statistics(open_session(grouped()), grouped())


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
@pytest.mark.parametrize("name", FEW)
def test_half_precision_is_near(name, precision):
    blueprint = MINIATURES[name]()
    session = open_session(blueprint, precision=precision)
    sameness.check_forward(session, blueprint, 0.05 if precision == "bf16" else 0.01)
    sameness.check_loss(session, blueprint, 0.05)


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_gradients_in_half_precision_are_near(precision):
    sameness.check_half_gradients(open_session, plain(), precision)


@pytest.mark.parametrize("name", ["small", "with_auxiliary"])
def test_fit_makes_the_same_steps(name):
    blueprint = BUILD[name]()
    fitted, stepped = open_session(blueprint, feed="fit"), open_session(blueprint)
    batch = fitted.place(*host_batch(blueprint))
    fitted.train_step(batch)
    fitted.fit(batch, 3)
    for _ in range(4):
        stepped.train_step(batch)
    expected = stepped.weights()
    for name, found in fitted.weights().items():
        assert_close(found, expected[name], 1e-6, name)
    assert fitted.loss() == pytest.approx(stepped.loss(), rel=1e-6)


@pytest.mark.parametrize("mode", ["train", "infer"])
def test_fit_compiles_once(mode):
    session = open_session(plain(), feed="fit", mode=mode)
    batch = session.place(*host_batch(plain()))
    before, counts = session.weights(), []
    for steps in (1, 2, 3, 4):
        session.fit(batch, steps)
        counts.append(session.compilations())
    assert counts[2] == counts[3]
    assert same(session.weights(), before) == (mode == "infer")


def test_weights_are_copies():
    session = open_session(plain())
    held = session.weights()
    again = {name: array.copy() for name, array in held.items()}
    session.train_step(session.place(*host_batch(plain())))
    assert same(held, again)


def test_a_batch_is_normalised_and_owns_its_memory():
    from keras.ops import convert_to_numpy

    images, labels = host_batch(small())
    batch = open_session(small()).place(images, labels)
    expected = normalise(images)
    images[:], labels[:] = 0, 0
    np.testing.assert_allclose(convert_to_numpy(batch.images), expected, rtol=0, atol=2e-7)
    assert convert_to_numpy(batch.labels).any()


@pytest.mark.parametrize("name", ["small", "dropping", "with_auxiliary"])
def test_looking_does_not_disturb_training(name):
    blueprint = BUILD[name]()
    looked, trained = open_session(blueprint, seed=3), open_session(blueprint, seed=3)
    batch = looked.place(*host_batch(blueprint))
    for _ in range(3):
        looked.train_step(batch)
        looked.gradients(batch)
        looked.infer_step(batch)
        trained.train_step(batch)
    assert same(looked.weights(), trained.weights())


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_the_loss_falls_on_a_fixed_batch(precision):
    session = open_session(small(), precision=precision, optimiser=Optimiser(rate=0.02))
    batch = session.place(*host_batch(small()))
    losses = []
    for _ in range(12):
        session.train_step(batch)
        losses.append(session.loss())
    assert all(map(math.isfinite, losses))
    assert losses[-1] < 0.7 * losses[0]


def test_a_static_loss_scale_does_not_change_the_update():
    blueprint = plain()
    exact = open_session(blueprint)
    scaled = open_session(blueprint, precision="fp16", loss_scale=128.0)
    assert scaled._model.optimizer.loss_scale_factor == 128
    for session in (exact, scaled):
        session.train_step(session.place(*host_batch(blueprint)))
    expected = exact.weights()
    for name, found in scaled.weights().items():
        assert_close(found, expected[name], 2e-3, name)


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


def test_the_loss_before_the_first_step_is_nan():
    assert math.isnan(open_session(plain()).loss())


def test_settings_are_told():
    settings = open_session(plain(), precision="bf16").settings
    assert (settings.device, settings.layout, settings.threads) == ("cpu", "nhwc", 1)
    assert settings.compiled == settings.flags["jit_compile"] == (BACKEND == "jax")
    assert settings.flags["dtype_policy"] == "mixed_bfloat16"
    assert settings.flags["backend"] == BACKEND
    assert settings.device_name


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


@only("tensorflow")
def test_channels_first_is_refused_by_tensorflow_on_a_cpu():
    with pytest.raises(Refused, match=r"nchw on GPUs only, .* use --layout nhwc"):
        open_session(plain(), layout="nchw")


@only("jax", "tensorflow")
def test_threads_cannot_change_within_a_process():
    open_session(plain())
    with pytest.raises(Refused, match=r"already runs .* process"):
        open_session(plain(), threads=3)


def test_another_backend_in_the_same_process_is_refused():
    other = "keras/torch" if BACKEND == "jax" else "keras/jax"
    with pytest.raises(Refused, match=f"Keras already runs on {BACKEND} in this process"):
        registry.load(other)


def test_weights_of_another_network_are_refused():
    weights = lively_weights(plain())
    with pytest.raises(Refused, match="there is no 'conv1/kernel'"):
        open_session(plain(), {n: w for n, w in weights.items() if n != "conv1/kernel"})


def test_running_out_of_memory_is_recognised():
    engine = registry.load(ENGINE)
    assert engine.out_of_memory(MemoryError())
    assert not engine.out_of_memory(RuntimeError("shapes do not match"))


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_probes_are_pure_work(precision):
    session = open_session(plain(), precision=precision)
    check_probes(session)
    assert session.memory_bytes() is None


@only("tensorflow")
def test_compiled_steps_are_the_same_steps():
    spec = Optimiser(rate=0.05)
    session = open_session(small(), compile="on")
    assert session.settings.compiled
    sameness.check_forward(session, small())
    sameness.check_updates(session, small(), spec)

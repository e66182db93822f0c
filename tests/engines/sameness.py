"""What it means that an engine computes what the reference computes; each check is of one fact."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from miniatures import dropping, host_batch, lively_weights, small
from numpy.typing import NDArray

from convdyno.blueprint.graph import Blueprint, is_state
from convdyno.engines import reference
from convdyno.engines.contract import (
    OPTIONAL,
    Optimiser,
    Session,
    State,
    Trial,
    normalise,
    state_shapes,
)
from convdyno.engines.reference_update import fresh_memory, update
from convdyno.errors import Refused

SPECS = {
    "nesterov": Optimiser(rate=0.05, weight_decay=0.01),
    "heavy ball": Optimiser(rate=0.05, nesterov=False, weight_decay=0.01),
    "no momentum": Optimiser(rate=0.05, momentum=0.0),
    "kernels": Optimiser(rate=0.05, weight_decay=0.1, decay_on="kernels"),
    "adam": Optimiser(kind="adam", rate=0.01, weight_decay=0.01),
    "adam kernels": Optimiser(kind="adam", rate=0.01, weight_decay=0.1, decay_on="kernels"),
    "larc clip": Optimiser(rate=0.05, weight_decay=0.01, larc_eta=0.02),
    "larc scale": Optimiser(rate=0.05, weight_decay=0.01, larc_eta=0.3, larc_mode="scale"),
    "clip norm": Optimiser(rate=0.05, weight_decay=0.1, decay_on="kernels", clip_norm=0.5),
    "average": Optimiser(rate=0.05, ema=0.7),
    "all together": Optimiser(
        rate=0.05, clip_norm=0.5, larc_eta=0.05, label_smoothing=0.2, ema=0.7, weight_decay=0.01
    ),
    "all with adam": Optimiser(
        kind="adam", rate=0.01, clip_norm=0.5, larc_eta=0.004, label_smoothing=0.2, ema=0.7
    ),
}

GOING_ON: dict[str, tuple[Callable[[], Blueprint], dict[str, Any]]] = {
    "nesterov": (small, {}),
    "all together": (small, {"optimiser": SPECS["all together"]}),
    "adam": (small, {"optimiser": SPECS["all with adam"], "precision": "bf16"}),
    "dynamic": (small, {"optimiser": SPECS["all together"], "precision": "fp16"}),
    "static": (small, {"precision": "fp16", "loss_scale": 128.0}),
    "dropout": (dropping, {}),
}
"""Ways to train, all of which can be interrupted."""


def assert_close(found: Any, expected: Any, tolerance: float, what: str = "") -> None:
    scale = max(np.abs(expected).max(), 1e-6)
    assert np.abs(found - expected).max() <= tolerance * scale, what


def same(a: State, b: State) -> bool:
    return a.keys() == b.keys() and all(a[n].tobytes() == b[n].tobytes() for n in a)


def check_weights_come_back(session: Session, blueprint: Blueprint) -> None:
    for seed in (1, 9):
        weights = lively_weights(blueprint, seed)
        session.load(weights)
        assert same(session.weights(), weights)


def check_forward(session: Session, blueprint: Blueprint, tolerance: float = 1e-5) -> None:
    weights, host = lively_weights(blueprint), host_batch(blueprint)
    session.load(weights)
    found = session.logits(session.place(*host))
    assert found.dtype == np.float32
    assert_close(found, reference.logits(blueprint, weights, normalise(host[0])), tolerance)


def check_loss(
    session: Session, blueprint: Blueprint, tolerance: float = 1e-5, smoothing: float = 0.0
) -> None:
    weights, host = lively_weights(blueprint), host_batch(blueprint)
    session.load(weights)
    session.train_step(session.place(*host))
    expected = reference.loss(blueprint, weights, normalise(host[0]), host[1], smoothing)
    assert session.loss() == pytest.approx(expected, rel=tolerance)


def check_gradients(session: Session, blueprint: Blueprint, smoothing: float = 0.0) -> None:
    """They are the reference's finite differences, and looking at them changes nothing."""
    weights, (images, labels) = lively_weights(blueprint), host_batch(blueprint)
    session.load(weights)
    gradients = session.gradients(session.place(images, labels))
    assert same(session.weights(), weights)
    assert {n: g.shape for n, g in gradients.items()} == blueprint.trainable
    largest = max(float(np.abs(g).max()) for g in gradients.values())
    random = np.random.default_rng(3)
    for name, gradient in gradients.items():
        for _ in range(2):
            index = tuple(int(random.integers(n)) for n in gradient.shape)
            expected = reference.finite_difference(
                blueprint, weights, normalise(images), labels, name, index, smoothing=smoothing
            )
            assert gradient[index] == pytest.approx(expected, rel=1e-3, abs=1e-5 * largest), name


def check_updates(
    session: Session,
    blueprint: Blueprint,
    spec: Optimiser,
    rates: tuple[float, ...] = (1.0, 1.0, 1.0),
) -> None:
    """Steps follow the rule, from fresh optimiser state; `rates` are multiples of the spec's.

    What the session says that it remembers is what the rule remembers.
    """
    weights, host = lively_weights(blueprint), host_batch(blueprint)
    batch = session.place(*host)
    expected = {n: w.astype(np.float64) for n, w in weights.items()}
    memory = fresh_memory(spec, blueprint.trainable)
    if spec.ema is not None:
        memory |= {f"average/{name}": w for name, w in expected.items()}
    for multiple in rates:
        rate = spec.rate * multiple
        session.set_rate(rate)
        gradients = {n: g.astype(np.float64) for n, g in session.gradients(batch).items()}
        expected |= reference.running_statistics(blueprint, expected, normalise(host[0]))
        now = spec.model_copy(update={"rate": rate})
        expected, memory = update(now, expected, gradients, memory)
        session.train_step(batch)
    for name, found in session.weights().items():
        assert_close(found, expected[name], 1e-5, name)
        assert np.abs(found - weights[name]).max() > 1e-4
    state = session.state()
    assert memory.keys() == {name for name in state if not name.startswith(OPTIONAL)}
    for name, array in memory.items():
        # In float32 1 - 0.999 is 1.3e-5 off.
        assert_close(state[name], array, 3e-5 if name.startswith("second/") else 1e-5, name)


def check_smoothing(open_session: Callable[..., Session], blueprint: Blueprint) -> None:
    """Loss and gradients with smooth labels, of every head."""
    session = open_session(blueprint, optimiser=Optimiser(label_smoothing=0.3))
    check_gradients(session, blueprint, 0.3)
    check_loss(session, blueprint, smoothing=0.3)


def check_resume(open_session: Callable[..., Session], blueprint: Blueprint, **values: Any) -> None:
    """Training that is interrupted is training that is not, bit for bit."""
    rates = (0.05, 0.05, 0.02, 0.02, 0.03)
    whole = open_session(blueprint, lively_weights(blueprint, 1), seed=7, **values)
    batches = [whole.place(*host_batch(blueprint, seed=seed)) for seed in range(len(rates))]

    def train(session: Session, steps: slice) -> None:
        for rate, batch in zip(rates[steps], batches[steps], strict=True):
            session.set_rate(rate)
            session.train_step(batch)

    train(whole, slice(0, 3))
    weights, state = whole.weights(), through_a_file(whole.state())
    train(whole, slice(3, 5))
    expected, remembered = whole.weights(), whole.state()
    assert not same(expected, weights)
    assert same(through_a_file(remembered), remembered)
    other = open_session(blueprint, lively_weights(blueprint, 9), seed=8, **values)
    for session in (other, whole):
        session.load(weights)
        session.restore(state)
        assert same(session.weights(), weights)
        assert same(session.state(), state)
        train(session, slice(3, 5))
        assert same(session.weights(), expected)
        assert same(session.state(), remembered)


def check_skipped_update(open_session: Callable[..., Session], blueprint: Blueprint) -> None:
    """A loss scale that is too high is halved, and nothing else is remembered of that step."""
    spec = SPECS["all together"]
    session = open_session(blueprint, precision="fp16", optimiser=spec)
    batch = session.place(*host_batch(blueprint))
    session.train_step(batch)
    before = session.state()
    good = {name: before[name] for name in before if not name.startswith(OPTIONAL)}
    session.restore(before | {"scale/value": np.float32(2.0**40), "scale/good_steps": np.int64(9)})
    session.train_step(batch)
    after = session.state()
    assert same({name: after[name] for name in good}, good)
    assert (float(after["scale/value"]), int(after["scale/good_steps"])) == (2.0**39, 0)
    session.restore(before | {"scale/value": np.float32(64), "scale/good_steps": np.int64(1999)})
    session.train_step(batch)
    after = session.state()
    assert int(after["updates"]) == int(before["updates"]) + 1
    assert (float(after["scale/value"]), int(after["scale/good_steps"])) == (128, 0)


def check_takes_over(
    open_session: Callable[..., Session], blueprint: Blueprint, spec: Optimiser
) -> None:
    """Training that the reference began goes on as the reference goes on."""
    trial = Trial(network=blueprint.name, engine="reference", batch=4, optimiser=spec)
    began = reference.engine().open(blueprint, trial, lively_weights(blueprint))
    session = open_session(blueprint, lively_weights(blueprint, 9), optimiser=spec)
    host = host_batch(blueprint)
    batch, same_batch = began.place(*host), session.place(*host)
    for _ in range(3):
        began.train_step(batch)
    session.load(began.weights())
    session.restore(began.state())
    found = session.state()
    for name in state_shapes(blueprint, spec):
        assert_close(found[name], began.state()[name], 1e-6, name)
    for _ in range(2):
        began.train_step(batch)
        session.train_step(same_batch)
    expected, found = ({**one.weights(), **one.state()} for one in (began, session))
    for name in (*blueprint.weights, *state_shapes(blueprint, spec)):
        assert_close(found[name], expected[name], 1e-4, name)


def check_foreign_states(session: Session, blueprint: Blueprint, spec: Optimiser) -> None:
    """What does not fit is refused with a sentence; what is another engine's does not matter."""
    state = session.state()
    foreign = {"random/abacus": np.zeros(3), "own/abacus/beads": np.zeros(2)}
    kept = {n: a for n, a in state.items() if not n.startswith(OPTIONAL)}
    session.restore(kept | foreign)
    named = next(name for name in state if "/" in name and not name.startswith(OPTIONAL))
    for given, sentence in (
        ({n: a for n, a in state.items() if n != named}, f"there is no '{named}'"),
        (state | {named: np.zeros((2, 9), np.float32)}, rf"'{named}' has the shape \(2, 9\), not"),
        (state | {"third/x": np.zeros(1)}, "nothing takes up 'third/x'"),
        (state | {"scale/value": np.float32(2)}, "there is no 'scale/good_steps'"),
    ):
        with pytest.raises(Refused, match=sentence):
            session.restore(given)


def check_memory_of_its_own(session: Session, blueprint: Blueprint) -> None:
    """What was placed, loaded or restored may be written over by the caller at once.

    Frameworks take memory as it is if its address suits them.
    """
    weights = lively_weights(blueprint)
    for seed in range(20):
        images, labels = (aligned(array) for array in host_batch(blueprint, seed=seed))
        given = {name: aligned(array) for name, array in weights.items()}
        session.load(given)
        expected = session.logits(session.place(images.copy(), labels.copy()))
        state = session.state()
        restored = {name: aligned(array) for name, array in state.items()}
        session.restore(restored)
        batch = session.place(images, labels)
        loss = reference.loss(blueprint, weights, normalise(images), labels)
        for array in (images, labels, *given.values(), *restored.values()):
            array[...] = 0
        np.testing.assert_array_equal(session.logits(batch), expected)
        assert same(session.weights(), weights)
        assert same(session.state(), state)
        session.train_step(batch)
        assert session.loss() == pytest.approx(loss, rel=1e-5)
        assert not any(array.any() for array in (*given.values(), *restored.values()))


def aligned(array: NDArray[Any]) -> NDArray[Any]:
    """A copy at an address that is a multiple of 64."""
    raw = np.zeros(array.nbytes + 64, np.uint8)
    start = -raw.ctypes.data % 64
    copy = raw[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def check_other_batches(session: Session, blueprint: Blueprint) -> None:
    """A last batch with fewer images is answered alike, and compiled for no more than once."""
    weights = lively_weights(blueprint)
    session.load(weights)
    images, labels = host_batch(blueprint, 4)
    whole = session.logits(session.place(images, labels))
    counts = []
    for count in (3, 4, 3, 4, 3):
        part = session.logits(session.place(images[:count], labels[:count]))
        assert part.shape == (count, blueprint.classes)
        assert_close(part, whole[:count], 1e-5)
        counts.append(session.compilations())
    assert len(set(counts)) == 1


def through_a_file(state: State) -> State:
    """What a checkpoint gives back."""
    file = io.BytesIO()
    np.savez(file, **state)
    file.seek(0)
    return dict(np.load(file))


def check_statistics(session: Session, blueprint: Blueprint) -> None:
    """The running variance is the population's, also when the size of the batch changes."""
    weights = lively_weights(blueprint)
    session.load(weights)
    session.set_rate(1e-12)
    for seed, images in enumerate((2, 2, 5, 3, 2)):
        host = host_batch(blueprint, images, seed)
        session.train_step(session.place(*host))
        weights |= reference.running_statistics(blueprint, weights, normalise(host[0]))
    found = session.weights()
    for name in filter(is_state, weights):
        assert_close(found[name], weights[name], 1e-6, name)
    batch = session.place(*host)
    assert_close(
        session.logits(batch), reference.logits(blueprint, found, normalise(host[0])), 1e-5
    )


def check_half_gradients(
    open_session: Callable[..., Session], blueprint: Blueprint, precision: str
) -> None:
    """Gradients in half precision are near those in float32."""
    weights, host = lively_weights(blueprint), host_batch(blueprint)
    exact = open_session(blueprint, weights)
    half = open_session(blueprint, weights, precision=precision)
    expected = exact.gradients(exact.place(*host))
    for name, gradient in half.gradients(half.place(*host)).items():
        assert_close(gradient, expected[name], 0.05, name)

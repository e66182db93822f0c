"""Training goes on where it stopped: in the same engine to the bit, in another within rounding."""

import jax_sessions
import pytest
import sameness
import tensorflow_sessions
import torch_sessions
from miniatures import small
from miniatures import with_auxiliary as auxiliary

SESSIONS = {
    "torch": torch_sessions.open_session,
    "jax": jax_sessions.open_session,
    "tensorflow": tensorflow_sessions.open_session,
}

QUICK = ("all together", "dynamic", "dropout")


@pytest.fixture(params=SESSIONS)
def open_session(request):
    return SESSIONS[request.param]


@pytest.mark.parametrize("way", QUICK)
def test_interrupted_training_is_the_same_training(open_session, way):
    build, values = sameness.GOING_ON[way]
    sameness.check_resume(open_session, build(), **values)


@pytest.mark.slow
@pytest.mark.parametrize("way", sorted(sameness.GOING_ON.keys() - set(QUICK)))
def test_interrupted_training_is_the_same_training_in_every_way(open_session, way):
    test_interrupted_training_is_the_same_training(open_session, way)


def test_interrupted_training_is_the_same_training_in_the_other_layout():
    values = {"optimiser": sameness.SPECS["all together"], "layout": "nchw"}
    sameness.check_resume(torch_sessions.open_session, small(), **values)


def test_interrupted_training_is_the_same_training_with_tuned_kernels():
    values = {"optimiser": sameness.SPECS["all together"], "kernels": "tuned"}
    sameness.check_resume(jax_sessions.open_session, small(), **values)


def test_a_skipped_update_leaves_only_another_loss_scale(open_session):
    sameness.check_skipped_update(open_session, small())


@pytest.mark.parametrize("spec", ["all together", "all with adam"])
def test_training_can_be_taken_over(open_session, spec):
    sameness.check_takes_over(open_session, small(), sameness.SPECS[spec])


def test_a_state_that_does_not_fit_is_refused(open_session):
    spec = sameness.SPECS["average"]
    sameness.check_foreign_states(open_session(small(), optimiser=spec), small(), spec)


def test_labels_can_be_smooth(open_session):
    sameness.check_smoothing(open_session, auxiliary())


def test_a_last_batch_may_have_fewer_images(open_session):
    sameness.check_other_batches(open_session(small(), mode="infer"), small())


def test_a_session_has_memory_of_its_own(open_session):
    session = open_session(small(), optimiser=sameness.SPECS["average"])
    sameness.check_memory_of_its_own(session, small())

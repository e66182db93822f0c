"""A trial is immutable, validated, and known by its digest."""

import pytest
from pydantic import ValidationError

from convdyno.errors import UsageError
from convdyno.trial.spec import Trial, make_trial
from convdyno.trial.sweep import expand

PLAIN = {"network": "resnet50", "engine": "torch", "batch": 16}


def test_the_digest_is_stable_and_tells_trials_apart() -> None:
    assert make_trial(**PLAIN).digest == make_trial(**PLAIN).digest
    assert make_trial(**PLAIN).digest != make_trial(**PLAIN, precision="bf16").digest


def test_a_default_spelled_out_is_the_same_trial() -> None:
    assert make_trial(**PLAIN).digest == make_trial(**PLAIN, precision="fp32", width=1.0).digest


def test_a_trial_cannot_be_changed() -> None:
    with pytest.raises(ValidationError):
        make_trial(**PLAIN).batch = 2  # type: ignore[misc]


def test_a_trial_survives_json() -> None:
    trial = make_trial(**PLAIN, image_size=(32, 48), optimiser={"kind": "adam", "rate": 1e-4})
    assert Trial.model_validate_json(trial.model_dump_json()) == trial


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"batch": 0}, "batch"),
        ({"precision": "fp99"}, "precision"),
        ({"width": 0}, "width"),
        ({"classes": 1}, "classes"),
        ({"colour": "red"}, "colour"),
        ({"loss_scale": 128.0}, "fp16"),
        ({"auxiliary": True, "mode": "infer"}, "auxiliary"),
    ],
)
def test_what_does_not_fit_is_a_sentence(values: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        make_trial(**(PLAIN | values))


def test_axes_make_their_cross_product_in_order() -> None:
    trials = expand(
        {"network": ["a"], "engine": ["e"], "batch": [1, 2], "precision": ["fp32", "bf16"]}
    )
    cells = [(t.batch, t.precision) for t in trials]
    assert cells == [(1, "fp32"), (1, "bf16"), (2, "fp32"), (2, "bf16")]


def test_two_trials_name_the_fields_they_differ_in() -> None:
    a, b = make_trial(**PLAIN), make_trial(**(PLAIN | {"batch": 8, "mode": "infer"}))
    assert a.differs_in(b) == ["mode", "batch"]

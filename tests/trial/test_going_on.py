"""What may change while training is interrupted, and what may not."""

import pytest

from convdyno.trial.spec import make_trial
from convdyno.trial.training import Training


def training(**changes: object) -> Training:
    values = {"network": "lenet", "engine": "torch", "batch": 8, "devices": 2, "cores": 1} | changes
    return Training(trial=make_trial(**values), epochs=3)


@pytest.mark.parametrize(
    "changes",
    [
        {"devices": 1, "batch": 16, "cores": None},
        {"devices": 4, "batch": 4, "hosts": 2},
        {"devices": 1, "batch": 16, "accumulate": 2},
        {"exchange": "horovod", "bucket_mb": 4.0, "threads": 3, "engine": "jax"},
    ],
)
def test_the_same_images_a_step_may_be_shared_out_anew(changes: dict[str, object]) -> None:
    assert training().differs_in(training(**changes)) == []


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"devices": 1}, ["batch"]),
        ({"batch": 16}, ["batch"]),
        ({"devices": 4, "batch": 5, "seed": 1}, ["seed", "batch"]),
        ({"compress": "bf16"}, ["compress"]),
    ],
)
def test_another_global_batch_or_arithmetic_is_another_run(
    changes: dict[str, object], names: list[str]
) -> None:
    assert training().differs_in(training(**changes)) == names

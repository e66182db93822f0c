"""Learning rates against numbers that were worked out by hand."""

import pytest
from pydantic import ValidationError

from convdyno.trial.schedule import Schedule


def test_a_square_decay_is_nvcnns() -> None:
    """rate * (1 - step / steps) ** 2"""
    schedule = Schedule(kind="poly", power=2.0)
    assert [schedule.multiple(e, 90) for e in (0, 45, 89, 90)] == pytest.approx(
        [1, 0.25, (1 / 90) ** 2, 0]
    )


def test_steps_come_at_their_epochs_and_not_before() -> None:
    schedule = Schedule(kind="steps", at=((30, 0.1), (60, 0.01), (80, 0.001)))
    found = [schedule.multiple(e, 90) for e in (0, 29.999, 30, 59, 60, 80, 89)]
    assert found == pytest.approx([1, 1, 0.1, 0.1, 0.01, 0.001, 0.001])


def test_a_warm_up_rises_linearly_and_then_the_course_begins() -> None:
    schedule = Schedule(kind="poly", power=1.0, warmup=5, warmup_from=0.2)
    found = [schedule.multiple(e, 25) for e in (0, 2.5, 5, 15, 25)]
    assert found == pytest.approx([0.2, 0.6, 1, 0.5, 0])


def test_a_cosine_is_half_way_down_in_the_middle() -> None:
    schedule = Schedule(kind="cosine")
    assert [schedule.multiple(e, 10) for e in (0, 5, 10)] == pytest.approx([1, 0.5, 0])


def test_constant_is_constant_and_a_warm_up_as_long_as_training_is_possible() -> None:
    assert Schedule().multiple(3, 5) == 1
    assert Schedule(kind="poly", warmup=5).multiple(4, 5) == pytest.approx(0.8)


@pytest.mark.parametrize("at", [(), ((30, 0.1), (20, 0.01))])
def test_steps_need_epochs_that_rise(at) -> None:
    with pytest.raises(ValidationError, match="epochs that rise"):
        Schedule(kind="steps", at=at)

"""Records are chosen by fields and labels, and slips of the pen are answered with the nearest."""

from typing import Any

import pytest

from convdyno.errors import UnknownName, UsageError
from convdyno.store.record import Record, new_record
from convdyno.store.where import select
from convdyno.trial.spec import make_trial


def a_record(gpu: str | None = None, **trial: Any) -> Record:
    values = {"network": "resnet50", "engine": "torch", "batch": 16} | trial
    labels = {} if gpu is None else {"gpu": gpu}
    return new_record(make_trial(**values), labels=labels, machine={"host": "a"})


K80 = a_record("k80")
P100 = a_record("p100", engine="jax", batch=32, image_size=(64, 64))
BARE = a_record(network="vgg16", width=0.5, auxiliary=True).but(status="oom")
ALL = [K80, P100, BARE]


@pytest.mark.parametrize(
    ("conditions", "chosen"),
    [
        ([], ALL),
        (["network=resnet50"], [K80, P100]),
        (["engine!=jax"], [K80, BARE]),
        (["network=resnet50", "engine!=jax"], [K80]),
        (["label.gpu=k80"], [K80]),
        (["label.gpu!=k80"], [P100, BARE]),
        (["label.gpu=k80,p100"], [K80, P100]),
        (["batch=32.0"], [P100]),
        (["image-size=64"], [P100]),
        (["image_size=64x64"], [P100]),
        (["image-size=auto"], [K80, BARE]),
        (["width=.5"], [BARE]),
        (["auxiliary=yes"], [BARE]),
        (["status=oom"], [BARE]),
        (["status=nan"], []),
        (["precision=bf16"], []),
        (["host=a"], ALL),
        (["rate=1e-3"], ALL),
    ],
)
def test_the_records_for_which_all_conditions_hold(
    conditions: list[str], chosen: list[Record]
) -> None:
    assert select(ALL, conditions) == chosen


@pytest.mark.parametrize(
    ("condition", "answer"),
    [
        ("netwrk=resnet50", "Did you mean 'network'"),
        ("network=resnt50", "no network is called 'resnt50'. Did you mean 'resnet50'"),
        ("label.gqu=k80", "Did you mean 'label.gpu'"),
        ("label.gpu=k81", "Did you mean 'k80'"),
        ("batch=7", "There is: 16, 32"),
        ("status=faild", "no status is called 'faild'"),
    ],
)
def test_what_no_record_has_is_answered_with_the_nearest(condition: str, answer: str) -> None:
    with pytest.raises(UnknownName, match=answer.replace("(", r"\(")):
        select(ALL, [condition])


@pytest.mark.parametrize("text", ["network", "=resnet50", "network=", "network=a,,b", ""])
def test_what_is_no_condition_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="a condition is FIELD=VALUE"):
        select(ALL, [text])


def test_nothing_is_chosen_from_nothing_without_complaint() -> None:
    assert select([], ["network=resnet50"]) == []

"""Exact checks: what one look at each side is enough for."""

from typing import Any

import pytest

from convdyno.stats.gate_checks import CHECKS, ExactCheck, exact_checks
from convdyno.store.record import Block, NetworkFacts, Process, Record, new_record
from convdyno.trial.spec import make_trial

FACTS = NetworkFacts(
    digest="0" * 64, parameters=1234, macs=5678, image=(28, 28, 1), classes=10, nodes=5
)


def record(
    losses: tuple[tuple[float, ...], ...] = ((2.5, 2.25),), recompilations: int = 0, **more: Any
) -> Record:
    facts = {name: more.pop(name) for name in ("network", "versions", "settings") if name in more}
    trial = make_trial(**{"network": "lenet", "engine": "torch", "batch": 8} | more)
    processes = tuple(
        Process(
            round=number,
            blocks=(Block(seconds=1.0, steps=5),),
            first_loss=each[0] if each else None,
            losses=each if len(each) > 1 else (),
            recompilations=recompilations,
        )
        for number, each in enumerate(losses)
    )
    made = new_record(trial, processes=processes, network=facts.pop("network", FACTS))
    return made.but(status="ok", **{"versions": {"torch": "2"}, "settings": {}} | facts)


def check(name: str, base: Record, candidate: Record, **more: Any) -> ExactCheck:
    return next(one for one in exact_checks(base, candidate, **more) if one.name == name)


def test_the_same_record_passes_every_check() -> None:
    found = exact_checks(record(), record())
    assert [one.name for one in found] == list(CHECKS)
    assert all(one.passed for one in found)


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("network", {"digest": "1" * 64}, "111111111111 instead of 000000000000"),
        ("parameters", {"parameters": 1_235_000}, "1,235,000 instead of 1,234"),
        ("macs", {"macs": 5679}, "5,679 instead of 5,678"),
    ],
)
def test_another_network_is_seen(name: str, change: dict[str, Any], said: str) -> None:
    other = record(network=FACTS.model_copy(update=change))
    found = check(name, record(), other)
    assert found.passed is False
    assert found.sentence == said
    failed = [one.name for one in exact_checks(record(), other) if not one.passed]
    assert failed == [name]


def test_the_last_bit_of_a_loss_counts_where_nothing_else_differs() -> None:
    other = record(((2.5, 2.25 + 4e-16),))
    found = check("loss", record(), other)
    assert found.passed is False
    assert "to be the same to the bit" in found.sentence
    assert check("loss", record(), other, loss_within=1e-6).passed


@pytest.mark.parametrize(
    "other",
    [{"versions": {"torch": "3"}}, {"settings": {"layout": "nchw"}}, {"threads": 1}],
    ids=str,
)
def test_other_versions_or_settings_may_round_otherwise(other: dict[str, Any]) -> None:
    assert check("loss", record(), record(((2.5, 2.25 * (1 + 5e-5)),), **other)).passed
    assert check("loss", record(), record(((2.5, 2.26),), **other)).passed is False
    assert not check("loss", record(), record(((2.5, 2.2501),), **other), loss_within=0).passed


def test_a_side_that_does_not_repeat_itself_is_not_held_to_the_bit() -> None:
    restless = record(((2.5, 2.25), (2.5, 2.2500001)))
    found = check("loss", restless, record(((2.5, 2.2500002),)))
    assert found.passed
    assert "the base's own processes differ" in found.sentence


def test_half_precision_has_a_wider_tolerance() -> None:
    other = record(((2.5, 2.27),), precision="bf16", threads=1)
    assert check("loss", record(precision="bf16"), other).passed
    assert check("loss", record(), record(((2.5, 2.27),), threads=1)).passed is False


def test_as_many_steps_are_compared_as_both_have() -> None:
    assert "after 1 step," in check("loss", record(((2.5,),)), record()).sentence
    assert "after 2 steps," in check("loss", record(), record()).sentence


def test_losses_of_other_images_are_not_compared() -> None:
    found = check("loss", record(), record(batch=16))
    assert found.passed is None
    assert "batch differs" in found.sentence


def test_inference_has_no_loss() -> None:
    sides = [record(((),), mode="infer") for _ in range(2)]
    assert check("loss", *sides).passed is None


def test_a_loss_that_is_no_number_never_agrees() -> None:
    assert check("loss", record(), record(((2.5, float("nan")),)), loss_within=0.5).passed is False


def test_more_recompilations_than_the_base_are_seen_and_fewer_are_welcome() -> None:
    assert check("recompilations", record(), record(recompilations=2)).passed is False
    assert check("recompilations", record(recompilations=2), record()).passed


def test_a_check_can_be_left_out() -> None:
    assert "loss" not in [c.name for c in exact_checks(record(), record(), left_out=("loss",))]


def test_a_side_that_never_opened_has_nothing_to_check() -> None:
    assert exact_checks(record(), record().but(network=None)) == []

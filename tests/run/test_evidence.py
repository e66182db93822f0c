"""What is asked shows every op and every part of a rule; limits are those of rounding."""

from typing import Any

import numpy as np
import pytest

from convdyno.engines import registry
from convdyno.run import evidence
from convdyno.run.limits import COARSE_FACTOR, FACTOR, FLOOR, limits, norm
from convdyno.stage.differences import differences, findings, unseen
from convdyno.trial.manner import Manner, UpdateRule
from convdyno.zoo.registry import small_form

MANNERS = [
    Manner(),
    Manner(precision="bf16"),
    Manner(precision="fp16"),
    Manner(layout="nchw"),
    Manner(layout="nhwc"),
    Manner(accumulate=2),
    Manner(rule=UpdateRule(kind="adam")),
    Manner(rule=UpdateRule(kind="adam", weight_decay=False)),
    Manner(rule=UpdateRule(nesterov=False, decay_on="kernels")),
    Manner(rule=UpdateRule(momentum=False)),
    Manner(rule=UpdateRule(clip_norm=True, ema=True)),
    Manner(rule=UpdateRule(larc="clip")),
    Manner(rule=UpdateRule(larc="scale", label_smoothing=True)),
]


def examined(network: str, manner: Manner, seed: int = 0, **form: Any) -> Any:
    oracle, torch = registry.load("reference"), registry.load("torch")
    blueprint = small_form(network, **form).without_dropout()
    question = evidence.pose(oracle, blueprint, manner, seed)
    right = evidence.expect(oracle, question, manner)
    return differences(evidence.answer(torch, "torch", question, manner), right), right


@pytest.mark.slow
@pytest.mark.parametrize("manner", MANNERS, ids=lambda manner: manner.words)
def test_torch_is_the_same_in_every_manner(manner: Manner) -> None:
    rows, right = examined("resnet20", manner)
    assert [row for row in rows if not row.passed] == []
    assert {row.kind for row in rows} >= {"forward", "loss", "gradient", "update", "statistics"}
    if manner.precision == "fp32":
        assert unseen(right) == []


@pytest.mark.slow
def test_auxiliary_heads_are_asked_about() -> None:
    rows, _ = examined("googlenet", Manner(auxiliary=True), auxiliary=True)
    assert [row for row in rows if not row.passed] == []
    assert any(row.tensor.startswith("aux") for row in rows if row.kind == "gradient")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("network", ["deepmnist", "resnet20"])
def test_no_seed_raises_a_false_alarm(network: str, seed: int) -> None:
    rows, _ = examined(network, Manner(), seed)
    assert max(finding.ratio for finding in findings(rows)) < 1


@pytest.mark.parametrize("network", ["deepmnist", "alexnet-lrn", "resnet20", "resnet50-v2"])
def test_every_op_matters_to_the_answer(network: str) -> None:
    oracle = registry.load("reference")
    question = evidence.pose(oracle, small_form(network).without_dropout(), Manner())
    right = evidence.expect(oracle, question, Manner())
    effects = evidence.coverage(oracle, question, right)
    assert len({effect.node for effect in effects}) > len(question.blueprint.nodes) / 2
    assert [e for e in effects if e.share == 1 and e.moved < 10] == []


def test_a_limit_is_a_factor_times_what_rounding_does_and_never_below_the_floor() -> None:
    truth = {f"gradient/{n}": np.full(4, 1.0) for n in "abc"}
    sample = {
        "gradient/a": np.full(4, 1 + 1e-5),
        "gradient/b": np.full(4, 1 + 1e-6),
        "gradient/c": np.full(4, 1.0),
    }
    found = limits(truth, [sample], [truth], truth, "fp32")
    shares = {name: limit / norm(truth[name]) for name, limit in found.items()}
    assert shares["gradient/a"] == pytest.approx(FACTOR["fp32"] * 1e-5, rel=1e-6)
    # By luck it was right to the last digit: it gets what most get.
    assert shares["gradient/c"] == pytest.approx(FACTOR["fp32"] * 1e-6, rel=1e-6)
    coarse = limits(truth, [truth], [sample], truth, "fp32")
    assert coarse["gradient/a"] == pytest.approx(COARSE_FACTOR * norm(np.full(4, 1e-5)), rel=1e-6)
    still = limits(truth, [truth], [truth], truth, "fp32")
    assert still["gradient/a"] == pytest.approx(FLOOR * norm(truth["gradient/a"]))


def test_weights_stay_where_they_are_until_the_last_step() -> None:
    oracle = registry.load("reference")
    question = evidence.pose(oracle, small_form("deepmnist").without_dropout(), Manner())
    found = evidence.answer(oracle, "reference", question, Manner())
    for name, weight in question.weights.items():
        assert norm(found[f"update/{name}"]) > 1e-2 * norm(weight)

"""Dropout is held to what it lets pass, how often, and that it draws anew."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from convdyno.blueprint.graph import Blueprint, Node
from convdyno.blueprint.ops import Dropout, Scale
from convdyno.engines import registry
from convdyno.run import dropout_evidence
from convdyno.run.dropout_evidence import MEASURES, deviations
from convdyno.trial.manner import Manner
from convdyno.zoo.registry import small_form

RATE, SHAPE = 0.4, (32, 1024)


def draw(seed: int, rate: float = RATE) -> Any:
    """What a right dropout lets pass of ones."""
    kept = np.random.default_rng(seed).random(SHAPE) >= rate
    return kept / (1 - rate)


def wrong(first: Any, second: Any) -> set[str]:
    found = deviations(first, second, RATE, exact=1e-4)
    return {measure for measure, share in found.items() if not share <= 1}


@pytest.mark.parametrize("seed", range(20))
def test_a_right_dropout_passes(seed: int) -> None:
    assert wrong(draw(2 * seed), draw(2 * seed + 1)) == set()


def test_values_that_are_not_scaled_up_are_seen() -> None:
    assert wrong(draw(0) * (1 - RATE), draw(1) * (1 - RATE)) == {"scaling"}


def test_another_rate_is_seen_even_if_it_is_scaled_for_the_right_one() -> None:
    first, second = (draw(n, 0.42) * 0.58 / (1 - RATE) for n in (0, 1))
    assert "share" in wrong(first, second)
    assert "scaling" not in wrong(first, second)


def test_one_mask_for_all_images_is_seen() -> None:
    first, second = (np.tile(draw(n)[:1], (SHAPE[0], 1)) for n in (0, 1))
    assert "positions" in wrong(first, second)


def test_one_mask_for_all_positions_is_seen() -> None:
    first, second = (np.tile(draw(n)[:, :1], (1, SHAPE[1])) for n in (0, 1))
    assert "images" in wrong(first, second)


def test_the_same_draw_in_every_step_is_seen() -> None:
    assert wrong(draw(0), draw(0)) == {"steps"}


class Misreading:
    """torch with dropouts that are read otherwise."""

    def __init__(self, misread: Any) -> None:
        self._torch, self._misread = registry.load("torch"), misread

    def open(self, blueprint: Blueprint, trial: Any, weights: Any) -> Any:
        nodes = tuple(new for node in blueprint.nodes for new in self._misread(node))
        return self._torch.open(replace(blueprint, nodes=nodes), trial, weights)


def seen(misread: Any, rate: float = 0.5) -> set[str]:
    found = dropout_evidence.found(
        Misreading(misread),
        "torch",
        small_form("deepmnist"),
        Manner(),  # type: ignore[arg-type]
    )
    return {name.rpartition("/")[2] for name, share in found.items() if not share[0] <= 1}


@pytest.mark.slow
def test_torch_s_own_passes() -> None:
    assert seen(lambda node: [node]) == set()


def unscaled(node: Node) -> list[Node]:
    if not isinstance(node.op, Dropout):
        return [node]
    return [replace(node, name="raw"), Node(node.name, Scale(0.5), ("raw",))]


@pytest.mark.slow
def test_an_engine_that_does_not_scale_is_caught() -> None:
    assert seen(unscaled) == {"scaling", "use"}


@pytest.mark.slow
@pytest.mark.parametrize("rate", [0.0, 0.45])
def test_an_engine_that_drops_another_share_is_caught(rate: float) -> None:
    def other(node: Node) -> list[Node]:
        return [replace(node, op=Dropout(rate)) if isinstance(node.op, Dropout) else node]

    assert "share" in seen(other)


def test_every_measure_of_every_rate_is_expected() -> None:
    right = dropout_evidence.right(small_form("googlenet", auxiliary=True))
    expected = {f"dropout/{r}/{m}" for r in (0.4, 0.7) for m in MEASURES}
    assert {name for name in right if not name.startswith("limit/")} == expected

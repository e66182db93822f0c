"""Several ranks of torch take the steps that one takes with all their images."""

import sys
from pathlib import Path
from typing import Any

import pytest
import spread_suite as suite
import torch
from spread_suite import Case

from convdyno.engines.torch.data_parallel import join
from convdyno.errors import Refused

pytestmark = pytest.mark.slow

CASES = suite.CASES | {
    "buckets": Case("residual", {"bucket_mb": 0.0001, "layout": "nchw"}),
    "plain parts": Case("plain", {"accumulate": 2}),
    "norm parts": Case("residual", {"accumulate": 2}),
}


@pytest.fixture(scope="module")
def found(tmp_path_factory: Any) -> Any:
    return suite.run("torch", tmp_path_factory.mktemp("torch"), CASES)


def test_ranks_are_one_session_with_all_their_images(found: Any, tmp_path: Path) -> None:
    suite.check_like_one(found["plain"], suite.run_alone("torch", tmp_path))


@pytest.mark.parametrize("name", ["plain", "norms", "everything", "adam", "buckets"])
def test_ranks_average_gradients_and_keep_their_statistics(found: Any, name: str) -> None:
    suite.check_ranks(CASES[name], found[name])


def test_a_batch_in_parts_is_the_batch_without_batch_norm(found: Any) -> None:
    suite.check_ranks(CASES["plain parts"], found["plain parts"])


def test_a_batch_in_parts_is_the_mean_of_its_parts(found: Any) -> None:
    suite.check_ranks(CASES["norm parts"], found["norm parts"], parts=2)


@pytest.mark.parametrize("name", ["half", "dropping"])
def test_ranks_agree(found: Any, name: str) -> None:
    suite.check_agreement(CASES[name], found[name])


def test_ranks_drop_different_values(found: Any) -> None:
    suite.check_dropping(found["dropping"])


def test_gradients_in_bf16_on_the_wire_are_near(found: Any) -> None:
    suite.check_half_wire(CASES["wire"], found["wire"])


@pytest.mark.parametrize("name", ["plain", "norms"])
def test_one_rank_alone_can_look(found: Any, name: str) -> None:
    suite.check_looking(CASES[name], found[name])


@pytest.mark.parametrize("rank", [0, 1])
def test_a_missing_horovod_is_a_sentence_on_every_rank(
    rank: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "horovod", None)
    trial = Case("plain", {"exchange": "horovod"}).trial("torch", devices=2)
    with pytest.raises(Refused, match=r"docs/scaling\.md"):
        join(suite.worlds(2)[rank], trial, torch.device("cpu"))

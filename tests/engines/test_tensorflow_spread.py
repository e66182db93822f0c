"""Several ranks of TensorFlow take the steps that one takes with all their images."""

from pathlib import Path
from typing import Any

import pytest
import spread_suite as suite
from miniatures import plain
from spread_suite import Case
from tensorflow_sessions import open_session

from convdyno.engines.contract import Optimiser
from convdyno.errors import Refused

pytestmark = pytest.mark.slow

EVERYTHING = Optimiser(
    rate=0.05, clip_norm=0.5, larc_eta=0.05, label_smoothing=0.2, weight_decay=0.01, ema=0.7
)
CASES = {
    "plain": Case("plain"),
    "norms": Case("residual"),
    "everything": Case("small", {"optimiser": EVERYTHING.model_dump()}),
    "adam": Case("small", {"optimiser": {"kind": "adam", "rate": 0.01}}),
    "packs": Case("residual", {"bucket_mb": 0.0001}),
    "compiled": Case("residual", {"compile": "on"}),
    "dropping": Case("dropping", alike=True),
    "half": Case("small", {"precision": "fp16"}),
    "wire": Case("small", {"compress": "bf16"}),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: Any) -> Any:
    return tmp_path_factory.mktemp("tensorflow")


@pytest.fixture(scope="module")
def found(folder: Path) -> Any:
    return suite.run("tensorflow", folder, CASES)


def test_ranks_are_one_session_with_all_their_images(found: Any, tmp_path: Path) -> None:
    whole = {"plain": Case("plain", batch=8)}
    (alone,) = suite.run("tensorflow", tmp_path, whole, processes=1)["plain"]
    suite.check_like_one(found["plain"], alone)


@pytest.mark.parametrize("name", ["plain", "norms", "everything", "adam", "packs", "compiled"])
def test_ranks_average_gradients_and_keep_their_statistics(found: Any, name: str) -> None:
    suite.check_ranks(CASES[name], found[name])


@pytest.mark.parametrize("name", ["half", "dropping"])
def test_ranks_agree(found: Any, name: str) -> None:
    suite.check_agreement(CASES[name], found[name])


def test_ranks_drop_different_values(found: Any) -> None:
    suite.check_dropping(found["dropping"])


def test_gradients_in_bf16_on_the_wire_are_near(found: Any) -> None:
    suite.check_half_wire(CASES["wire"], found["wire"])
    assert found["wire"][0].flags["gradients"] == "bfloat16"


@pytest.mark.usefixtures("found")
def test_gradients_are_exchanged_together(folder: Path) -> None:
    assert "Efficient batch_reduce is not supported" not in (folder / "0.log").read_text()


@pytest.mark.parametrize("name", ["plain", "norms"])
def test_one_rank_alone_can_look(found: Any, name: str) -> None:
    suite.check_looking(CASES[name], found[name])


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"processes": "host", "devices": 2}, "leave --processes at device"),
        ({"accumulate": 2}, "leave --accumulate at 1"),
        ({"exchange": "horovod", "devices": 2}, "--engine torch, or --exchange default"),
    ],
)
def test_what_tensorflow_has_no_way_for_is_refused(values: Any, sentence: str) -> None:
    with pytest.raises(Refused, match=sentence):
        open_session(plain(), **values)

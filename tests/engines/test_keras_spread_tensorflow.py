"""Several ranks of Keras on TensorFlow take the steps that one takes with all their images."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import spread_suite as suite
from spread_suite import Case

from convdyno.engines.contract import Optimiser

pytestmark = pytest.mark.slow

ENGINE = "keras/tensorflow"
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
    return tmp_path_factory.mktemp("keras")


@pytest.fixture(scope="module")
def found(folder: Path) -> Any:
    return suite.run(ENGINE, folder, CASES)


def test_ranks_are_one_session_with_all_their_images(found: Any, tmp_path: Path) -> None:
    whole = {"plain": Case("plain", batch=8)}
    (alone,) = suite.run(ENGINE, tmp_path, whole, processes=1)["plain"]
    suite.check_like_one(found["plain"], alone)
    assert found["plain"][0].flags["loop"] == "custom"
    assert "loop" not in alone.flags


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


@pytest.mark.usefixtures("found")
def test_gradients_are_exchanged_together(folder: Path) -> None:
    assert "Efficient batch_reduce is not supported" not in (folder / "0.log").read_text()


@pytest.mark.parametrize("name", ["plain", "norms"])
def test_one_rank_alone_can_look(found: Any, name: str) -> None:
    suite.check_looking(CASES[name], found[name])


REFUSED = [
    ({"processes": "host"}, "leave --processes at device"),
    ({"accumulate": 2}, "leave --accumulate at 1"),
    ({"exchange": "horovod"}, "--engine torch, or --exchange default"),
    ({"feed": "fit"}, "ValueError about PerReplica values; use --feed batch"),
]
ASK = """
import sys, json
from convdyno.engines import registry
from convdyno.engines.contract import Trial, World
from convdyno.errors import Refused
engine = registry.load(sys.argv[1])
for values in json.loads(sys.argv[2]):
    trial = Trial(network="plain", engine=sys.argv[1], batch=4, device="cpu", devices=2, **values)
    try:
        engine.join(World(size=2, peers=("127.0.0.1:1", "127.0.0.1:2")), trial)
    except Refused as sentence:
        print(sentence)
"""


def test_what_it_has_no_way_for_is_refused() -> None:
    asked = json.dumps([values for values, _ in REFUSED])
    command = [sys.executable, "-c", ASK, ENGINE, asked]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    said = done.stdout.splitlines()
    assert len(said) == len(REFUSED), done.stderr
    for sentence, (_, end) in zip(said, REFUSED, strict=True):
        assert end in sentence

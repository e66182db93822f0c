"""Ranks of Keras on torch and on JAX take the steps that one takes with all their images."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import spread_suite as suite
from spread_suite import Case

pytestmark = pytest.mark.slow

CASES = {
    "keras/torch": suite.CASES | {"fit": Case("residual", {"feed": "fit"})},
    "keras/jax": suite.CASES,
}
REFUSED = {
    "keras/torch": [
        ({"processes": "host"}, "leave --processes at device"),
        ({"accumulate": 2}, "leave --accumulate at 1"),
        ({"exchange": "horovod"}, "--engine torch, or --exchange default"),
        ({"compile": "on"}, "leave --compile at auto"),
    ],
    "keras/jax": [
        ({"feed": "fit"}, "use --feed batch"),
        ({"processes": "host"}, "or use --engine jax"),
        ({"accumulate": 2}, "leave --accumulate at 1"),
        ({"bucket_mb": 25.0}, "XLA decides"),
        ({"exchange": "horovod"}, "use --exchange default"),
        ({"compile": "off"}, "use --compile auto"),
    ],
}
ASK = """
import json, sys
from convdyno.engines import registry
from convdyno.engines.contract import Trial, World
from convdyno.errors import Refused
name, asked = sys.argv[1:]
engine, world = registry.load(name), World(size=2, peers=("127.0.0.1:1", "127.0.0.1:2"))
for values in json.loads(asked):
    trial = Trial(network="plain", engine=name, batch=4, device="cpu", devices=2, **values)
    try:
        engine.join(world, trial)
    except Refused as sentence:
        print(sentence)
"""


@pytest.fixture(scope="module", params=CASES)
def engine(request: Any) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def found(engine: str, tmp_path_factory: Any) -> Any:
    return suite.run(engine, tmp_path_factory.mktemp("ranks"), CASES[engine])


def test_ranks_are_one_session_with_all_their_images(
    engine: str, found: Any, tmp_path: Path
) -> None:
    suite.check_like_one(found["plain"], suite.run_alone(engine, tmp_path))


@pytest.mark.parametrize("name", ["plain", "norms", "everything", "adam"])
def test_ranks_average_gradients_and_keep_their_statistics(found: Any, name: str) -> None:
    suite.check_ranks(suite.CASES[name], found[name])


@pytest.mark.parametrize("engine", ["keras/torch"], indirect=True)
def test_fit_takes_the_same_steps(engine: str, found: Any) -> None:
    suite.check_ranks(CASES[engine]["fit"], found["fit"])


@pytest.mark.parametrize("name", ["half", "dropping"])
def test_ranks_agree(found: Any, name: str) -> None:
    suite.check_agreement(suite.CASES[name], found[name])


def test_ranks_drop_different_values(found: Any) -> None:
    suite.check_dropping(found["dropping"])


def test_gradients_in_bf16_on_the_wire_are_near(found: Any) -> None:
    suite.check_half_wire(suite.CASES["wire"], found["wire"])
    assert found["wire"][0].flags["gradients"] == "bfloat16"


@pytest.mark.parametrize("name", ["plain", "norms"])
def test_one_rank_alone_can_look(found: Any, name: str) -> None:
    suite.check_looking(suite.CASES[name], found[name])


def test_what_it_has_no_way_for_is_refused(engine: str) -> None:
    asked = json.dumps([values for values, _ in REFUSED[engine]])
    command = [sys.executable, "-c", ASK, engine, asked]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    said = done.stdout.splitlines()
    assert len(said) == len(REFUSED[engine]), done.stderr
    for sentence, (_, end) in zip(said, REFUSED[engine], strict=True):
        assert end in sentence

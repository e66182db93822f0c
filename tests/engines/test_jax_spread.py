"""Several devices of JAX take the steps that one takes with all their images."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import spread_suite as suite
from jax_sessions import open_session
from miniatures import plain
from spread_suite import Case

from convdyno.errors import Refused

pytestmark = pytest.mark.slow

CASES = suite.CASES | {
    "tuned": Case("residual", {"kernels": "tuned"}),
    "parts": Case("residual", {"accumulate": 2}),
}


@pytest.fixture(scope="module")
def found(tmp_path_factory: Any) -> Any:
    return suite.run("jax", tmp_path_factory.mktemp("jax"), CASES)


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: Any) -> Any:
    """Two processes with two devices each."""
    some = {name: CASES[name] for name in ("norms", "everything", "dropping")}
    return suite.run("jax", tmp_path_factory.mktemp("hosts"), some, each=2)


def test_ranks_are_one_session_with_all_their_images(found: Any, tmp_path: Path) -> None:
    suite.check_like_one(found["plain"], suite.run_alone("jax", tmp_path))


@pytest.mark.parametrize("name", ["plain", "norms", "everything", "adam", "tuned"])
def test_ranks_average_gradients_and_keep_their_statistics(found: Any, name: str) -> None:
    suite.check_ranks(CASES[name], found[name])


def test_a_batch_in_parts_is_the_mean_of_its_parts(found: Any) -> None:
    suite.check_ranks(CASES["parts"], found["parts"], parts=2)


@pytest.mark.parametrize("name", ["half", "dropping"])
def test_ranks_agree(found: Any, name: str) -> None:
    suite.check_agreement(CASES[name], found[name])


def test_ranks_drop_different_values(found: Any) -> None:
    suite.check_dropping(found["dropping"])


def test_gradients_in_bf16_on_the_wire_are_near(found: Any) -> None:
    suite.check_half_wire(CASES["wire"], found["wire"])
    assert found["wire"][0].flags["gradients"] == "bfloat16"


@pytest.mark.parametrize("name", ["plain", "norms"])
def test_one_rank_alone_can_look(found: Any, name: str) -> None:
    suite.check_looking(CASES[name], found[name])


@pytest.mark.parametrize("name", ["norms", "everything"])
def test_processes_with_several_devices_are_as_many_ranks(hosts: Any, name: str) -> None:
    suite.check_ranks(CASES[name], hosts[name], each=2)
    assert hosts[name][0].flags["devices"] == 4


def test_processes_with_several_devices_look_at_all_their_images(hosts: Any) -> None:
    suite.check_looking(CASES["norms"], hosts["norms"], each=2)


def test_one_process_can_have_all_devices(tmp_path: Path) -> None:
    some = {"norms": CASES["norms"]}
    found = suite.run("jax", tmp_path, some, processes=1, each=2)
    suite.check_ranks(CASES["norms"], found["norms"], each=2)


ANSWER = """
from jax_sessions import open_session
from miniatures import host_batch, lively_weights, residual
from sameness import assert_close
from convdyno.engines import reference
from convdyno.engines.contract import normalise
blueprint = residual()
session = open_session(blueprint, mode="infer", processes="host", devices=2, threads=2)
for count in (6, 3, 6):
    images, labels = host_batch(blueprint, count)
    batch = session.place(images, labels)
    session.infer_step(batch)
    session.wait()
    right = reference.logits(blueprint, lively_weights(blueprint), normalise(images))
    assert_close(session.logits(batch), right, 1e-5)
    print(len(session._latest))
"""


def test_devices_of_one_process_share_images_in_use_if_they_can() -> None:
    command = [sys.executable, "-c", ANSWER]
    done = subprocess.run(
        command, cwd=Path(__file__).parent, capture_output=True, text=True, timeout=120
    )
    assert done.stdout.split() == ["2", "1", "2"], done.stderr


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"bucket_mb": 25.0}, "XLA decides"),
        ({"exchange": "horovod", "devices": 2}, "use --exchange default"),
        (
            {"processes": "host", "devices": 2, "exchange": "independent"},
            "leave --processes at device",
        ),
    ],
)
def test_what_jax_has_no_way_for_is_refused(values: Any, sentence: str) -> None:
    with pytest.raises(Refused, match=sentence):
        open_session(plain(), **values)

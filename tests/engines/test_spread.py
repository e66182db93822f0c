"""Several ranks of every engine take the steps that one takes with all their images.

One group of ranks an engine does all of its cases, one after the other.
"""

import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import jax_sessions
import pytest
import spread_suite as suite
import tensorflow_sessions
import torch
from miniatures import plain
from spread_suite import Case

from convdyno.engines.torch.data_parallel import join
from convdyno.errors import Refused

pytestmark = pytest.mark.slow

PACKED = {
    "packs": Case("residual", {"bucket_mb": 0.0001}),
    "compiled": Case("residual", {"compile": "on"}),
}
CASES = {
    "torch": suite.CASES
    | {
        "buckets": Case("residual", {"bucket_mb": 0.0001, "layout": "nchw"}),
        "plain parts": Case("plain", {"accumulate": 2}),
        "norm parts": Case("residual", {"accumulate": 2}),
    },
    "jax": suite.CASES
    | {
        "tuned": Case("residual", {"kernels": "tuned"}),
        "norm parts": Case("residual", {"accumulate": 2}),
    },
    "tensorflow": suite.CASES | PACKED,
    "keras/torch": suite.CASES | {"fit": Case("residual", {"feed": "fit"})},
    "keras/jax": suite.CASES,
    "keras/tensorflow": suite.CASES | PACKED,
}
AVERAGED = ("plain", "norms", "everything", "adam")
MORE_AVERAGED = ("buckets", "plain parts", "tuned", "packs", "compiled", "fit")
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
    "keras/tensorflow": [
        ({"processes": "host"}, "leave --processes at device"),
        ({"accumulate": 2}, "leave --accumulate at 1"),
        ({"exchange": "horovod"}, "--engine torch, or --exchange default"),
        ({"feed": "fit"}, "ValueError about PerReplica values; use --feed batch"),
    ],
}
HOROVOD = {
    name: Case(case.build, case.values | {"exchange": "horovod"}, case.batch, case.alike)
    for name, case in {
        **{name: case for name, case in suite.CASES.items() if name != "wire"},
        "nchw": Case("residual", {"layout": "nchw", "bucket_mb": 0.01}),
        "parts": Case("plain", {"accumulate": 2}),
    }.items()
}


@pytest.fixture(params=CASES)
def engine(request: Any) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: Any) -> Any:
    """Where the ranks of an engine leave what they have found."""
    return cache(lambda engine: tmp_path_factory.mktemp(engine.replace("/", "-")))


@pytest.fixture(scope="module")
def groups(folders: Any) -> Any:
    """What the ranks of an engine have found: whoever asks first waits for them."""

    def run(engine: str) -> Any:
        refused = [values for values, _ in REFUSED.get(engine, [])]
        return suite.run(engine, folders(engine), CASES[engine], refused=refused)

    return cache(run)


@pytest.fixture
def found(engine: str, groups: Any) -> Any:
    return groups(engine)


@pytest.fixture
def folder(engine: str, folders: Any) -> Any:
    return folders(engine)


def only(*engines: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("engine", engines, indirect=True)


def test_ranks_are_one_session_with_all_their_images(found: Any) -> None:
    whole = suite.expected(suite.WHOLE, 1)
    suite.check_like_one(found["plain"], whole.weights[0], whole.losses[0])


@pytest.mark.long
def test_ranks_are_one_session_of_their_engine(engine: str, found: Any, tmp_path: Path) -> None:
    alone = suite.run_alone(engine, tmp_path)
    suite.check_like_one(found["plain"], alone.weights, alone.losses)
    assert "loop" not in alone.flags


@pytest.mark.parametrize("name", AVERAGED)
def test_ranks_average_gradients_and_keep_their_statistics(found: Any, name: str) -> None:
    suite.check_ranks(suite.CASES[name], found[name])


@pytest.mark.parametrize(
    ("engine", "name"),
    [(engine, name) for engine in CASES for name in MORE_AVERAGED if name in CASES[engine]],
    indirect=["engine"],
)
def test_ranks_average_in_every_way(engine: str, found: Any, name: str) -> None:
    suite.check_ranks(CASES[engine][name], found[name])


@only("torch", "jax")
def test_a_batch_in_parts_is_the_mean_of_its_parts(engine: str, found: Any) -> None:
    suite.check_ranks(CASES[engine]["norm parts"], found["norm parts"], parts=2)


@pytest.mark.parametrize("name", ["half", "dropping"])
def test_ranks_agree(found: Any, name: str) -> None:
    suite.check_agreement(suite.CASES[name], found[name])


def test_ranks_drop_different_values(found: Any) -> None:
    suite.check_dropping(found["dropping"])


def test_gradients_in_bf16_on_the_wire_are_near(engine: str, found: Any) -> None:
    suite.check_half_wire(suite.CASES["wire"], found["wire"])
    if engine not in ("torch", "keras/tensorflow"):
        assert found["wire"][0].flags["gradients"] == "bfloat16"


@pytest.mark.parametrize("name", ["plain", "norms"])
def test_one_rank_alone_can_look(found: Any, name: str) -> None:
    suite.check_looking(suite.CASES[name], found[name])


@only("tensorflow", "keras/tensorflow")
@pytest.mark.usefixtures("found")
def test_gradients_are_exchanged_together(folder: Path) -> None:
    assert "Efficient batch_reduce is not supported" not in (folder / "0.log").read_text()


@only("keras/tensorflow")
def test_ranks_have_a_loop_of_their_own(found: Any) -> None:
    assert found["plain"][0].flags["loop"] == "custom"


@only(*REFUSED)
@pytest.mark.usefixtures("found")
def test_what_keras_has_no_way_for_is_refused(engine: str, folder: Path) -> None:
    said = json.loads((folder / "refused.json").read_text())
    for sentence, (_, end) in zip(said, REFUSED[engine], strict=True):
        assert end in sentence


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: Any) -> Any:
    """Two processes with two devices of JAX each."""
    some = {name: suite.CASES[name] for name in ("norms", "everything", "dropping")}
    return suite.run("jax", tmp_path_factory.mktemp("hosts"), some, each=2)


@pytest.mark.parametrize("name", ["norms", "everything"])
def test_processes_with_several_devices_are_as_many_ranks(hosts: Any, name: str) -> None:
    suite.check_ranks(suite.CASES[name], hosts[name], each=2)
    assert hosts[name][0].flags["devices"] == 4


def test_processes_with_several_devices_look_at_all_their_images(hosts: Any) -> None:
    suite.check_looking(suite.CASES["norms"], hosts["norms"], each=2)


def test_one_process_can_have_all_devices(tmp_path: Path) -> None:
    some = {"norms": suite.CASES["norms"]}
    found = suite.run("jax", tmp_path, some, processes=1, each=2)
    suite.check_ranks(suite.CASES["norms"], found["norms"], each=2)


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
        command, cwd=Path(__file__).parent, capture_output=True, text=True, timeout=600
    )
    assert done.stdout.split() == ["2", "1", "2"], done.stderr


@pytest.mark.parametrize(
    ("open_session", "values", "sentence"),
    [
        (jax_sessions.open_session, {"bucket_mb": 25.0}, "XLA decides"),
        (
            jax_sessions.open_session,
            {"exchange": "horovod", "devices": 2},
            "use --exchange default",
        ),
        (
            jax_sessions.open_session,
            {"processes": "host", "devices": 2, "exchange": "independent"},
            "leave --processes at device",
        ),
        (
            tensorflow_sessions.open_session,
            {"processes": "host", "devices": 2},
            "leave --processes at device",
        ),
        (tensorflow_sessions.open_session, {"accumulate": 2}, "leave --accumulate at 1"),
        (
            tensorflow_sessions.open_session,
            {"exchange": "horovod", "devices": 2},
            "--engine torch, or --exchange default",
        ),
    ],
)
def test_what_jax_and_tensorflow_have_no_way_for_is_refused(
    open_session: Any, values: Any, sentence: str
) -> None:
    with pytest.raises(Refused, match=sentence):
        open_session(plain(), **values)


@pytest.mark.parametrize("rank", [0, 1])
def test_a_missing_horovod_is_a_sentence_on_every_rank(
    rank: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "horovod", None)
    trial = Case("plain", {"exchange": "horovod"}).trial("torch", devices=2)
    with pytest.raises(Refused, match=r"docs/scaling\.md"):
        join(suite.worlds(2)[rank], trial, torch.device("cpu"))


@pytest.fixture(scope="module")
def over_horovod(tmp_path_factory: Any) -> Any:
    pytest.importorskip(
        "horovod.torch", reason="Horovod is not installed: docs/scaling.md says how"
    )
    return suite.run("torch", tmp_path_factory.mktemp("horovod"), HOROVOD)


@pytest.mark.parametrize("name", HOROVOD)
def test_ranks_average_over_horovod(over_horovod: Any, name: str) -> None:
    if name in ("half", "dropping"):
        suite.check_agreement(HOROVOD[name], over_horovod[name])
    else:
        suite.check_ranks(HOROVOD[name], over_horovod[name])

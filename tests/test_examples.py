"""Every example file of a sweep has the plan it claims, and is run in small."""

import shlex
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from runs import bars

from convdyno.app.sweep_plan import vocabulary
from convdyno.store.folder import Store
from convdyno.trial.sweep_file import read_sweep

pytestmark = pytest.mark.usefixtures("briefly")

EXAMPLES = Path(__file__).parents[1] / "examples"
QUICK = "--set engine=clockwork --set budget=60s --set within=20% --set rounds=2"
SMALL = {
    "deepmnist-gpus.toml": (
        "--set slurm= --set data=bars --set stage-from=scratch=a,local=b --set batch=2 "
        "--set devices=1,2 --set case=p100 --set device=auto",
        # One device exchanges nothing, so both ways to do it are one cell.
        {"staged": {"scratch=a": 3, "local=b": 3}, "devices": {1: 2, 2: 4}},
    ),
    "deepmnist-cores.toml": (
        "--set slurm= --set device=auto --set threads=1,32",
        {"threads": {1: 1, 32: 1}},
    ),
    "scaling-models.toml": (
        "--set nodes= --set per-node= --set max-devices= --set devices=1,2 --set image-size=75 "
        "--set case=inceptionv3",
        {"network": {"inception3": 2}, "devices": {1: 1, 2: 1}},
    ),
    "keras-modes.toml": (
        "--set device=auto --set devices=1 --set network=resnet20 --set mode=train,infer "
        "--set case=cpu_config,gpu_config",
        {"batch": {128: 2}, "mode": {"train": 1, "infer": 1}},
    ),
    "shmoo.toml": (
        "--set network=trivial --set devices=1 --set batch=2,4 --set precision=fp32,bf16",
        {"precision": {"fp32": 2, "bf16": 2}, "batch": {2: 2, 4: 2}},
    ),
}
WHOLE = {
    "deepmnist-gpus.toml": 2 * 12 * 2 * (3 + 2),
    "deepmnist-cores.toml": 8 + 9 + 5,
    "scaling-models.toml": 3,
    "keras-modes.toml": 3 * (2 * 3 + 2 * 3 + 3 + 3),
    "shmoo.toml": 5 * 4 * 4 * 2 - 2 * 4,
}


def test_every_example_is_tested() -> None:
    assert {path.name for path in EXAMPLES.glob("*.toml")} == SMALL.keys() == WHOLE.keys()


@pytest.mark.parametrize("name", WHOLE)
def test_an_example_has_as_many_combinations_as_its_matrix(name: str) -> None:
    sweep = read_sweep(EXAMPLES / name, vocabulary())
    assert len(sweep.combinations()) == WHOLE[name]
    assert sweep.unused == []


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_an_example_runs_in_small(convdyno: Any, tmp_path: Path, name: str) -> None:
    words, expected = SMALL[name]
    bars(tmp_path / "bars")
    for storage in ("a", "b"):
        (tmp_path / storage).mkdir()
    outcome = convdyno(
        "sweep", str(EXAMPLES / name), *shlex.split(f"{QUICK} {words}"), "--label", "size=small"
    )
    assert outcome.code == 0, outcome.err
    records = list(Store(tmp_path / "results").records())
    assert {record.status for record in records} == {"ok"}
    assert {record.labels["size"] for record in records} == {"small"}
    for field, counts in expected.items():
        assert Counter(getattr(record.trial, field) for record in records) == counts
    assert list((tmp_path / "a").iterdir()) == [], "copies of the data are taken away"

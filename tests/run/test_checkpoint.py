"""Checkpoints: whole or not there, of this network or refused, and never lost to a full disk."""

import json
import os
import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import runs

from convdyno.blueprint.weight_file import read_header
from convdyno.blueprint.weights import initial_weights
from convdyno.errors import BadWeights
from convdyno.run import checkpoint
from convdyno.run.checkpoint import TrainingStanding
from convdyno.trial.spec import Trial
from convdyno.trial.training import Training
from convdyno.zoo.registry import build

BLUEPRINT = build("lenet", (28, 28), 10, 0.125)
TRAINING = Training(
    trial=Trial(network="lenet", engine="torch", batch=8, classes=10, width=0.125, data="bars"),
    epochs=3,
)
STATE = {"updates": np.array(7), "velocity/x": np.ones((2, 3), np.float32)}


def written(folder: Path, step: int = 7, **more: Any) -> Path:
    path = folder / checkpoint.name(step)
    standing = TrainingStanding(TRAINING, step, 1, 2, ("a", "b"), 3.5, **more)
    checkpoint.save(path, BLUEPRINT, initial_weights(BLUEPRINT), STATE, standing)
    return path


def test_what_is_loaded_is_what_was_saved(tmp_path: Path) -> None:
    path = written(tmp_path, best=0.5, best_step=3, evaluated=6)
    weights, state, standing = checkpoint.load(path, BLUEPRINT)
    assert standing == TrainingStanding(TRAINING, 7, 1, 2, ("a", "b"), 3.5, 0.5, 3, 6)
    assert state["updates"].shape == () and int(state["updates"]) == 7
    assert state["velocity/x"].tobytes() == STATE["velocity/x"].tobytes()
    for name, array in initial_weights(BLUEPRINT).items():
        assert weights[name].tobytes() == array.tobytes()


def test_others_may_read_it_as_any_new_file(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    assert written(tmp_path).stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_the_newest_stay_and_the_best(tmp_path: Path) -> None:
    for step in (5, 10, 99, 100, 1_000_000_000):
        path = written(tmp_path, step)
        if step == 10:
            checkpoint.mark_best(path)
    (tmp_path / ".checkpoint-000000003.safetensors.0123.part").write_text("half")
    checkpoint.drop_old(tmp_path, 2)
    names = sorted(file.name for file in tmp_path.iterdir())
    assert names == [
        "best.safetensors",
        "checkpoint-000000100.safetensors",
        "checkpoint-1000000000.safetensors",
    ]
    assert checkpoint.latest(tmp_path) == tmp_path / "checkpoint-1000000000.safetensors"
    best = tmp_path / checkpoint.BEST
    assert checkpoint.standing_of(read_header(best)).step == 10


def test_another_network_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadWeights, match="the networks differ"):
        checkpoint.load(written(tmp_path), build("lenet", (28, 28), 10, 0.25))


@pytest.mark.parametrize("keep", [0, 5, 100, 0.5, -1])
def test_a_cut_off_file_is_refused(tmp_path: Path, keep: float) -> None:
    path = written(tmp_path)
    content = path.read_bytes()
    path.write_bytes(content[: int(keep * len(content)) if isinstance(keep, float) else keep])
    with pytest.raises(BadWeights, match="safetensors"):
        checkpoint.load(path, BLUEPRINT)


def changed(path: Path, **words: str | None) -> Path:
    """The file with other words in its header."""
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    for name, word in words.items():
        header["__metadata__"].pop(name)
        if word is not None:
            header["__metadata__"][name] = word
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + content[8 + length :])
    return path


HOSTILE = {
    "no standing": {"standing": None},
    "no training": {"training": None},
    "a list": {"standing": "[1, 2]"},
    "half JSON": {"standing": '{"step": 1'},
    "deep JSON": {"class_names": "[" * 100_000},
    "numbers as names": {"class_names": "[1, 2]"},
    "before the beginning": {
        "standing": '{"step": -1, "epoch": 0, "batch": 0, "seconds": 0, "best": null, '
        '"best_step": -1, "evaluated": -1}'
    },
    "endless": {
        "standing": '{"step": 1e999, "epoch": 0, "batch": 0, "seconds": 0, "best": null, '
        '"best_step": -1, "evaluated": -1}'
    },
    "another training": {"training": '{"trial": {"network": "x"}}'},
    "unknown settings": {"training": TRAINING.model_dump_json()[:-1] + ', "surprise": 1}'},
}


@pytest.mark.parametrize("words", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_header_is_refused(tmp_path: Path, words: dict[str, str | None]) -> None:
    with pytest.raises(BadWeights, match="is no checkpoint"):
        checkpoint.load(changed(written(tmp_path), **words), BLUEPRINT)


QUICK = ("--engine", "reference", *runs.SIZE, "--epochs", "4")


def test_commands_refuse_what_they_cannot_read(tmp_path: Path, convdyno: Any) -> None:
    runs.prepare(tmp_path)
    runs.finish(tmp_path, runs.PLAIN, "run", *QUICK)
    last = runs.checkpoints(tmp_path / "run")[-1]
    whole = last.read_bytes()
    train = runs.command(runs.PLAIN, "run", *QUICK)[3:]
    show = ("eval", "run", "--network", runs.PLAIN)

    for other in (("--momentum", "0.5"), ("--weight-decay", "0.5"), ("--seed", "1")):
        refused = convdyno(*train, *other)
        assert refused.code == 2
        assert f"another {other[0][2:].replace('-', ' ')}" in refused.err

    other = convdyno("train", runs.RICH, *train[2:])
    assert other.code == 2 and "the networks differ" in other.err

    last.write_bytes(whole[:-100])
    for command in (train, show):
        outcome = convdyno(*command)
        assert outcome.code == 2 and "it was cut off" in outcome.err, outcome.err
        assert outcome.out == ""
    assert "Traceback" not in outcome.err

    last.write_bytes(whole)
    changed(last, standing="[]")
    assert "is no checkpoint" in convdyno(*show).err

    last.write_bytes(whole)
    unnamed = convdyno("eval", "run")
    assert unnamed.code == 2 and "repeat that name with --network" in unnamed.err
    assert "is a checkpoint of mine:plain" in convdyno("eval", "run", "--network", "lenet").err
    assert convdyno(*show).code == 0


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)]
    if os.geteuid() or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("only root can make a small file system")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_costs_checkpoints_which_is_said_in_the_end(
    tmp_path: Path, small_disk: Path
) -> None:
    runs.prepare(tmp_path)
    more = (*QUICK[:-1], "30", "--display-every", "1", "--keep", "1")
    runs.finish(tmp_path, runs.PLAIN, "elsewhere", *more)
    process = runs.start(tmp_path, runs.PLAIN, str(small_disk), *more)
    runs.wait_for_row(process, step=20)
    with (small_disk / "filler").open("wb", buffering=0) as filler:
        while process.poll() is None:  # A checkpoint that replaces another makes room again.
            with suppress(OSError):
                while True:
                    filler.write(bytes(4096))
            time.sleep(0.001)
    _, said = process.communicate()
    assert process.returncode == 5, said
    assert said.splitlines()[-1].startswith("convdyno: step 150 is not saved: ")
    assert said.count("the history was not written") <= 1
    assert "mind: no checkpoint was saved at step" in said
    assert "No space left on device" in said
    assert "trained at step 150 of 150" in said
    (old,) = runs.checkpoints(small_disk)
    assert 15 <= runs.standing(old)["standing"]["step"] < 150
    (small_disk / "filler").unlink()
    runs.finish(tmp_path, runs.PLAIN, str(small_disk), *more)
    runs.assert_same(small_disk, tmp_path / "elsewhere")

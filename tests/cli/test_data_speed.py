"""`convdyno data speed`, as a user runs it."""

import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from schemas import keeps_to

from convdyno.data.speed import blocks


@pytest.fixture
def folder(tmp_path: Path) -> str:
    random = np.random.default_rng(0)
    for split in ("train", "validation"):
        for label in ("cat", "dog"):
            place = tmp_path / "set" / split / label
            place.mkdir(parents=True)
            for n in range(4):
                Image.fromarray(random.integers(0, 256, (50, 60, 3), np.uint8)).save(
                    place / f"{n}.jpg"
                )
    return "set"


def test_the_parts_and_the_rate_are_told(convdyno, folder):
    done = convdyno(
        "data", "speed", folder, "--batch", "4", "--threads", "1", "--seconds", "0.3", "--colour",
        "folded", "--image-size", "32", "--json",
    )  # fmt: skip
    assert done.code == 0, done.err
    found = keeps_to("data", done.json)
    assert found["low"] <= found["images_per_second"] <= found["high"]
    assert found["settings"]["colour"] == "folded"
    assert found["settings"]["crop"] == "nvcnn"
    assert found["image"] == [32, 32, 3]
    assert {"read_seconds", "decode_seconds", "transform_seconds"} <= set(found)
    assert found["megabytes_per_second"] > 0


class Lucky:
    """A pipeline that has its first batches ready by chance."""

    wait_seconds = 0.0

    def __init__(self) -> None:
        self.taken = 0

    def facts(self) -> dict[str, int]:
        return {"prefetch": 2}

    def __next__(self) -> None:
        self.taken += 1
        assert self.taken < 2000, "blocks without an end"
        time.sleep(0.002 if self.taken > 6 else 0.0)


def test_a_batch_that_was_ready_by_chance_makes_no_endless_block():
    assert len(blocks(Lucky(), seconds=0.1)) >= 2


def test_people_get_a_bar(convdyno, folder):
    done = convdyno(
        "data", "speed", folder, "--split", "validation", "--seconds", "0.3", "--decoder",
        "simplejpeg", "--view", "centre", "--resize", "antialiased",
    )  # fmt: skip
    assert done.code == 0, done.err
    assert "decoder simplejpeg (fast), crop centre, antialiased resize, mirror off" in done.out
    assert "decode" in done.out
    assert "#" in done.out


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["--colour", "foldet"], "Did you mean 'folded'?"),
        (["--decoder", "simplejpg"], "Did you mean 'simplejpeg'?"),
        (["--batch", "0"], "--batch must be a whole number"),
    ],
)
def test_what_does_not_fit_is_one_sentence(convdyno, folder, given, told):
    done = convdyno("data", "speed", folder, *given)
    assert done.code == 2
    assert told in done.err
    assert "Traceback" not in done.err

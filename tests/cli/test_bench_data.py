"""`bench` on real images: rungs, loaders, storage, and what limits it."""

import json
from pathlib import Path
from typing import Any

import cv2
import jsonschema
import numpy as np
import pytest

SCHEMA = Path(__file__).parents[2] / "docs" / "schemas" / "bench.json"
QUICK = ("--budget", "60s", "--rounds", "1", "--within", "50%", "--json")


def photographs(folder: Path, size: tuple[int, int], images: int = 24) -> Path:
    """A folder of JPEGs in two classes, both splits."""
    random = np.random.default_rng(0)
    for split in ("train", "validation"):
        for name in ("cat", "dog"):
            place = folder / split / name
            place.mkdir(parents=True)
            for number in range(images // 2):
                coarse = random.integers(0, 256, (30, 40, 3), np.uint8)
                pixels = cv2.resize(coarse, size, interpolation=cv2.INTER_CUBIC)
                assert cv2.imwrite(str(place / f"{number}.jpg"), pixels)
    return folder


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    return photographs(tmp_path / "pictures", (80, 60))


@pytest.mark.slow
def test_a_loader_that_is_too_slow_is_found_and_named(convdyno: Any, tmp_path: Path) -> None:
    """Pictures of three megapixels for a network that does next to nothing."""
    large = photographs(tmp_path / "large", (2000, 1500), images=8)
    outcome = convdyno(
        "bench", "trivial", "--engine", "torch", "--data", str(large), "--ladder", "--batch", "8",
        "--budget", "6m", "--within", "50%", "--json",
    )  # fmt: skip
    document = outcome.json
    jsonschema.validate(document, json.loads(SCHEMA.read_text()))
    (ladder,) = document["ladders"]
    assert ladder["limit"] == "input", ladder
    assert ladder["sentence"].startswith("input-bound: ")
    parts = {name: part["share"] for name, part in ladder["parts"].items()}
    assert list(parts) == ["transfer", "augmentation", "decoding", "reading"]
    assert max(parts, key=parts.__getitem__) == "decoding", parts
    top = document["cells"][ladder["cells"][-1]]
    assert top["wait_share"] > 0.5
    assert top["loader_images_per_second"] > 0


@pytest.mark.slow
def test_storage_is_an_axis_and_the_copies_are_gone_afterwards(
    convdyno: Any, tmp_path: Path, pictures: Path
) -> None:
    fast, slow = tmp_path / "fast", tmp_path / "slow"
    fast.mkdir()
    slow.mkdir()
    outcome = convdyno(
        "bench", "trivial", "--engine", "torch", "--data", str(pictures), "--batch", "4",
        "--stage-from", f"scratch={slow},local={fast}", *QUICK,
    )  # fmt: skip
    cells = outcome.json["cells"]
    assert [cell["status"] for cell in cells] == ["ok", "ok"]
    assert [cell["trial"]["staged"].partition("=")[0] for cell in cells] == ["scratch", "local"]
    record = json.loads((tmp_path / cells[0]["record"]).read_text())
    assert record["input"]["path"].startswith(str(slow))
    assert not list(fast.iterdir()) and not list(slow.iterdir())


@pytest.mark.slow
def test_frameworks_own_loaders_run_where_there_are_any(convdyno: Any, pictures: Path) -> None:
    outcome = convdyno(
        "bench", "trivial", "--engine", "torch,tensorflow,jax", "--data", str(pictures),
        "--batch", "4", "--loader", "own,native", *QUICK,
    )  # fmt: skip
    found = {(c["trial"]["engine"], c["trial"]["loader"]): c for c in outcome.json["cells"]}
    refused = found.pop(("jax", "native"))
    assert refused["status"] == "refused"
    assert "no way of its own to read images" in refused["reason"]
    assert {key: cell["status"] for key, cell in found.items()} == dict.fromkeys(found, "ok")


@pytest.mark.slow
def test_inference_reads_the_other_split_again_and_again(convdyno: Any, pictures: Path) -> None:
    outcome = convdyno(
        "bench", "trivial", "--engine", "torch", "--data", str(pictures), "--batch", "5",
        "--mode", "infer", *QUICK,
    )  # fmt: skip
    (cell,) = outcome.json["cells"]
    assert cell["status"] == "ok"
    assert cell["trial"]["classes"] == 2


def test_a_damaged_image_is_named(convdyno: Any, pictures: Path) -> None:
    broken = pictures / "train" / "cat" / "0.jpg"
    broken.write_bytes(broken.read_bytes()[:200])
    arguments = ("bench", "trivial", "--engine", "torch", "--data", str(pictures), "--batch", "24")
    outcome = convdyno(*arguments, *QUICK)
    assert outcome.code == 2
    (cell,) = outcome.json["cells"]
    assert str(broken) in cell["reason"]


def test_fewer_classes_than_the_data_have_are_refused(convdyno: Any, tmp_path: Path) -> None:
    pictures = photographs(tmp_path / "three", (20, 20), images=4)
    (pictures / "train" / "owl").mkdir()
    (pictures / "train" / "owl" / "0.png").write_bytes(
        cv2.imencode(".png", np.zeros((8, 8, 3), np.uint8))[1].tobytes()
    )
    outcome = convdyno("bench", "trivial", "--data", str(pictures), "--classes", "2")
    assert outcome.code == 2
    assert "has 3 classes, more than the 2 of --classes" in outcome.err

"""`bench` on real images: rungs, loaders, storage, and what limits it."""

import json
from pathlib import Path
from typing import Any

import cv2
import jsonschema
import numpy as np
import pytest

pytestmark = pytest.mark.usefixtures("briefly")

SCHEMA = Path(__file__).parents[2] / "docs" / "schemas" / "bench.json"
QUICK = ("--budget", "40s", "--rounds", "1", "--within", "any", "--json")


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
@pytest.mark.parametrize("engine", ["reference", pytest.param("torch", marks=pytest.mark.long)])
def test_a_ladder_has_a_cell_for_each_rung(engine: str, convdyno: Any, pictures: Path) -> None:
    outcome = convdyno(
        "bench", "trivial", "--engine", engine, "--data", str(pictures), "--ladder",
        "--batch", "8", "--budget", "90s", "--rounds", "1", "--within", "any", "--json",
    )  # fmt: skip
    document = outcome.json
    jsonschema.validate(document, json.loads(SCHEMA.read_text()))
    cells = {cell["trial"]["rung"]: cell for cell in document["cells"]}
    assert list(cells) == ["device", "host", "decoded", "bytes", "source"]
    assert cells["source"]["wait_share"] is not None
    assert cells["device"]["wait_share"] is None
    assert document["comparisons"] == []


@pytest.mark.slow
def test_storage_is_an_axis_and_the_copies_are_gone_afterwards(
    convdyno: Any, tmp_path: Path, pictures: Path
) -> None:
    fast, slow = tmp_path / "fast", tmp_path / "slow"
    fast.mkdir()
    slow.mkdir()
    outcome = convdyno(
        "bench", "trivial", "--engine", "reference", "--data", str(pictures), "--batch", "4",
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
        "--batch", "4", "--loader", "native", *QUICK,
    )  # fmt: skip
    found = {cell["trial"]["engine"]: cell for cell in outcome.json["cells"]}
    refused = found.pop("jax")
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

"""Real images: networks learn, and every engine agrees on what a trained one gets right.

One thread each: two that wait for each other are slow on a machine that others use too.
"""

import gzip
from pathlib import Path
from typing import Any

import pytest
from real_sets import unpacked

pytestmark = pytest.mark.slow


def trained(convdyno: Any, *words: str) -> dict[str, Any]:
    done = convdyno("train", *words, "--threads", "1", "--json", timeout=900)
    assert done.code == 0, done.err
    found: dict[str, Any] = done.json["runs"][0]["evaluation"]
    return found


def digits(folder: Path, to: Path, train: int, test: int) -> None:
    """The first images of MNIST."""
    to.mkdir()
    for split, count in (("train", train), ("t10k", test)):
        for part, head, each in (("images-idx3", 16, 784), ("labels-idx1", 8, 1)):
            (path,) = folder.rglob(f"{split}-{part}-ubyte*")
            content = gzip.decompress(path.read_bytes()) if path.suffix else path.read_bytes()
            body = content[head : head + count * each]
            counted = content[:4] + count.to_bytes(4, "big") + content[8:head]
            (to / f"{split}-{part}-ubyte").write_bytes(counted + body)


@pytest.mark.parametrize(
    ("train", "test", "least"),
    [(6_000, 1_000, 0.8), pytest.param(60_000, 10_000, 0.955, marks=pytest.mark.long)],
    ids=["a tenth", "all"],
)
def test_one_epoch_of_mnist_is_counted_alike_by_all_engines(
    tmp_path: Path, convdyno: Any, train: int, test: int, least: float
) -> None:
    digits(unpacked("mnist", tmp_path / "whole"), tmp_path / "digits", train, test)
    found = trained(
        convdyno, "deepmnist", "--data", "digits", "--engine", "torch", "--epochs", "1",
        "--log-dir", "run",
    )  # fmt: skip
    assert found["images"] == test
    assert found["top1"] > least
    for engine in ("jax", "tensorflow", "keras/torch"):
        told = convdyno("eval", "run", "--engine", engine, "--json").json
        assert told["images"] == test
        assert abs(told["top1_images"] - found["top1_images"]) <= 2, engine
        assert told["loss"] == pytest.approx(found["loss"], rel=1e-3)


def test_digits_are_learnt_from_jpegs_too(tmp_path: Path, convdyno: Any) -> None:
    digits(unpacked("mnist", tmp_path / "whole"), tmp_path / "digits", 6_000, 1_000)
    made = convdyno("data", "convert", "digits", "jpegs", "--to", "tfrecord", "--encoding", "jpeg")
    assert made.code == 0, made.err
    found = trained(
        convdyno, "deepmnist", "--data", "jpegs", "--engine", "torch", "--epochs", "1",
        "--crop", "whole", "--log-dir", "run",
    )  # fmt: skip
    assert found["images"] == 1_000
    assert found["top1"] > 0.6  # Guessing has 0.1; random crops, which are usual, 0.73.


def subset(folder: Path, to: Path, train: int, test: int) -> None:
    """The first images of CIFAR-10's binary form."""
    to.mkdir()
    for name, count in (("data_batch_1.bin", train), ("test_batch.bin", test)):
        (path,) = folder.rglob(name)
        (to / name).write_bytes(path.read_bytes()[: count * 3073])


@pytest.mark.long  # Minutes of one core, four times over the images in both forms.
def test_a_resnet_learns_cifar_10_from_arrays_and_from_jpegs(tmp_path: Path, convdyno: Any) -> None:
    subset(unpacked("cifar10", tmp_path / "whole"), tmp_path / "cifar", 4000, 1000)
    made = convdyno("data", "convert", "cifar", "jpegs", "--to", "tfrecord", "--encoding", "jpeg")
    assert made.code == 0, made.err
    for data in ("cifar", "jpegs"):
        found = trained(
            convdyno, "resnet20", "--data", data, "--recipe", "cifar-fast", "--engine", "torch",
            "--epochs", "4", "--warmup", "1", "--log-dir", f"run-{data}",
        )  # fmt: skip
        assert found["images"] == 1000
        assert found["top1"] > 0.25, data

"""Small sets of arrays: every form they come in gives the same images."""

import pickle
from pathlib import Path

import numpy as np
import pytest
from small_sets import cifar, cifar_arrays, idx, mnist, packed, planes, python2_pickle

from convdyno.data.detect import open_source, recognise, splits
from convdyno.data.safe_pickle import read_pickled
from convdyno.data.source import DecodedImages
from convdyno.errors import BadData


def opened(path: Path, split: str = "train") -> DecodedImages:
    source = open_source(str(path), split)  # type: ignore[arg-type]
    assert isinstance(source, DecodedImages)
    return source


@pytest.mark.parametrize("zipped", [False, True])
def test_idx_files_raw_or_zipped(tmp_path: Path, zipped: bool) -> None:
    images, labels = mnist(tmp_path / "set", zipped)
    train, held = opened(tmp_path / "set"), opened(tmp_path / "set", "validation")
    assert train.facts.kind == "idx" and train.facts.image == (28, 28, 1)
    assert np.array_equal(train.images[..., 0], images) and np.array_equal(train.labels, labels)
    assert np.array_equal(held.images[..., 0], images[::-1])


def test_idx_files_are_told_by_content_and_raw_ones_are_mapped(tmp_path: Path) -> None:
    mnist(tmp_path)
    for path in list(tmp_path.iterdir()):
        path.rename(tmp_path / f"{path.name}.jpg")
    mnist(tmp_path, zipped=True)
    assert isinstance(opened(tmp_path).images.base, np.memmap)


def test_names_of_fashion_mnist(tmp_path: Path) -> None:
    mnist(tmp_path / "fashion-mnist")
    assert opened(tmp_path / "fashion-mnist").facts.classes[9] == "Ankle boot"


def test_colour_idx_and_one_image(tmp_path: Path) -> None:
    (tmp_path / "train-images").write_bytes(idx(np.zeros((1, 5, 4, 3))))
    (tmp_path / "train-labels").write_bytes(idx(np.array([11])))
    found = opened(tmp_path)
    assert found.facts.image == (5, 4, 3) and len(found.facts.classes) == 12
    with pytest.raises(BadData, match="has no validation images; it has train"):
        open_source(str(tmp_path), "validation")


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("train-images-idx3-ubyte", idx(np.zeros((7, 28, 28)))[:-1], "has less"),
        ("train-images-idx3-ubyte", idx(np.zeros((7, 28, 28))) + b"x", "has more"),
        ("train-images-idx3-ubyte", b"\0\0\x08\x03" + b"\xff" * 12, "has less"),
        ("train-images-idx3-ubyte", b"\0\0\x08\x03\0\0\0\0\0\0", "ends within its header"),
        ("train-images-idx3-ubyte", idx(np.zeros((0, 28, 28))), "7 labels"),
        ("train-labels-idx1-ubyte", idx(np.zeros(6)), "7 images but"),
    ],
)
def test_a_damaged_idx_file_is_named(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    mnist(tmp_path)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(BadData, match=said):
        open_source(str(tmp_path), "train")


@pytest.mark.parametrize("form", ["python", "binary", "png"])
@pytest.mark.parametrize("archived", [False, True])
def test_every_form_of_cifar_has_the_same_images(tmp_path: Path, form: str, archived: bool) -> None:
    images, labels = cifar(tmp_path / "cifar-10-batches", form)
    path = tmp_path
    if archived:
        files = {f"cifar/{p.name}": p.read_bytes() for p in sorted(tmp_path.glob("*/*"))}
        path = tmp_path / "cifar.tar.gz"
        path.write_bytes(packed(files, zipped=True))
    assert splits(str(path)) == ("train", "validation")
    for split in ("train", "validation"):
        found = opened(path, split)
        assert found.facts.kind == f"cifar10-{form}"
        assert np.array_equal(found.images, images) and np.array_equal(found.labels, labels)
        assert found.facts.classes[3] == "cat"


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("key", [str, str.encode])
def test_batches_pickled_anew_by_python_3_are_read(protocol: int, key: object) -> None:
    images, labels = cifar_arrays()
    batch = {key("data"): planes(images), key("labels"): labels.tolist()}  # type: ignore[operator]
    found = read_pickled(pickle.dumps(batch, protocol), "here")
    assert np.array_equal(found["data"], planes(images)) and found["labels"] == labels.tolist()


class Harmful:
    """What an evil file would run."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        import os

        return os.system, ("touch /tmp/convdyno-was-run",)


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("value", [Harmful(), print, complex(1, 2), {1, 2}, 1.5, np.float64(1)])
def test_nothing_but_plain_values_comes_out_of_a_pickle(protocol: int, value: object) -> None:
    with pytest.raises(BadData, match="is no CIFAR-10 python file"):
        read_pickled(pickle.dumps({"data": value}, protocol), "here")
    assert not Path("/tmp/convdyno-was-run").exists()


@pytest.mark.parametrize("form", ["python", "binary", "png"])
def test_a_label_out_of_range_is_named(tmp_path: Path, form: str) -> None:
    cifar(tmp_path, form)
    images, _ = cifar_arrays()
    if form == "python":
        (tmp_path / "data_batch_1").write_bytes(python2_pickle(images[:2], [3, 10]))
    elif form == "binary":
        path = tmp_path / "data_batch_1.bin"
        path.write_bytes(path.read_bytes() * 2)
        content = bytearray(path.read_bytes())
        content[5 * 3073] = 10
        path.write_bytes(content)
    else:
        (tmp_path / "train_lables.json").write_text("[3, 10, 0, 0, 0, 0]")
    with pytest.raises(BadData, match=r"image [15] .* has label 10"):
        open_source(str(tmp_path), "train")


@pytest.mark.parametrize("form", ["python", "binary", "png"])
@pytest.mark.parametrize("content", [b"", b"words", b"\xff" * 5000])
def test_a_batch_damaged_beyond_recognition_is_not_passed_over(
    tmp_path: Path, form: str, content: bytes
) -> None:
    cifar(tmp_path, form)
    next(tmp_path.glob("data_batch_2*")).write_bytes(content)
    with pytest.raises(BadData, match=r"data_batch_2|6 labels"):
        opened(tmp_path)
    assert len(opened(tmp_path, "validation")) == 6


def test_a_path_that_is_no_data_set_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "text").write_text("words")
    for name in ("empty", "text"):
        with pytest.raises(BadData, match="is no data set"):
            recognise(str(tmp_path / name))
    with pytest.raises(BadData, match="there is no file or folder"):
        recognise(str(tmp_path / "missing"))
    with pytest.raises(BadData, match="Did you mean 'mnist'"):
        recognise("mnits")


def test_a_name_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONVDYNO_DATA", str(tmp_path))
    with pytest.raises(BadData, match="`convdyno data get mnist` brings it"):
        recognise("mnist")
    mnist(tmp_path / "mnist")
    assert recognise("mnist").path == tmp_path / "mnist"

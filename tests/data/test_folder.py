"""Images in one folder a class."""

import os
from pathlib import Path

import pytest
from small_sets import encoded, photos, picture

from convdyno.data.detect import open_source, recognise
from convdyno.data.folder import Pictures
from convdyno.errors import BadData


def opened(path: Path, split: str = "train") -> Pictures:
    source = open_source(str(path), split)  # type: ignore[arg-type]
    assert isinstance(source, Pictures)
    return source


def test_splits_classes_and_labels(tmp_path: Path) -> None:
    photos(tmp_path)
    train, held = opened(tmp_path), opened(tmp_path, "validation")
    assert train.facts.classes == held.facts.classes == ("c0", "c1", "c2")
    assert (len(train), len(held)) == (12, 6)
    assert [train.read(row).label for row in range(12)] == [0] * 4 + [1] * 4 + [2] * 4
    assert train.facts.bytes == sum(path.stat().st_size for path in tmp_path.glob("train/*/*"))


@pytest.mark.parametrize("name", ["val", "valid", "test", "validation"])
def test_the_second_split_has_many_names(tmp_path: Path, name: str) -> None:
    photos(tmp_path)
    (tmp_path / "validation").rename(tmp_path / name)
    assert len(opened(tmp_path, "validation")) == 6


def test_a_set_without_splits_is_for_training(tmp_path: Path) -> None:
    photos(tmp_path)
    assert recognise(str(tmp_path / "train")).splits == ("train",)
    with pytest.raises(BadData, match="has no validation images"):
        opened(tmp_path / "train", "validation")


def test_one_image_is_a_set(tmp_path: Path) -> None:
    (tmp_path / "only").mkdir()
    (tmp_path / "only" / "one.jpg").write_bytes(encoded(picture()))
    assert len(opened(tmp_path)) == 1


def test_files_are_told_by_content(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "picture.dat").write_bytes(encoded(picture(), "PNG"))
    (tmp_path / "a" / "notes.txt").write_text("words")
    (tmp_path / "a" / ".hidden.jpg").write_text("words")
    (tmp_path / "a" / "below").mkdir()
    (tmp_path / "a" / "below" / "two.webp").write_bytes(encoded(picture(), "WEBP"))
    assert opened(tmp_path).names == ["below/two.webp", "picture.dat"]


def test_a_pipe_is_no_image(tmp_path: Path) -> None:
    photos(tmp_path)
    os.mkfifo(tmp_path / "train" / "c0" / "pipe.jpg")
    os.mkfifo(tmp_path / "pipe")
    assert len(opened(tmp_path)) == 12
    with pytest.raises(BadData, match="there is no file or folder"):
        opened(tmp_path / "pipe")


def test_a_class_called_train_is_no_split(tmp_path: Path) -> None:
    for name in ("bus", "train"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "one.jpg").write_bytes(encoded(picture()))
    assert opened(tmp_path).facts.classes == ("bus", "train")


def test_an_empty_class_folder_is_named(tmp_path: Path) -> None:
    photos(tmp_path)
    (tmp_path / "train" / "c9").mkdir()
    with pytest.raises(BadData, match="c9 is a class folder without images"):
        opened(tmp_path)


def test_a_class_that_training_lacks_is_named(tmp_path: Path) -> None:
    photos(tmp_path)
    (tmp_path / "validation" / "c2").rename(tmp_path / "validation" / "other")
    with pytest.raises(BadData, match=r"other is a class that .* does not have for training"):
        opened(tmp_path, "validation")


@pytest.mark.parametrize(("content", "said"), [(b"", "is empty"), (b"words", "is no image")])
def test_a_file_that_is_no_image_is_named_when_it_is_read(
    tmp_path: Path, content: bytes, said: str
) -> None:
    photos(tmp_path)
    (tmp_path / "train" / "c0" / "0_1.jpg").write_bytes(content)
    source = opened(tmp_path)
    source.read(0)
    with pytest.raises(BadData, match=rf"0_1\.jpg {said}"):
        source.read(1)


def test_a_file_that_vanished_is_named(tmp_path: Path) -> None:
    photos(tmp_path)
    source = opened(tmp_path)
    (tmp_path / "train" / "c0" / "0_0.jpg").unlink()
    with pytest.raises(BadData, match=r"0_0\.jpg cannot be read: No such file"):
        source.read(0)


def test_a_link_to_nowhere_is_named(tmp_path: Path) -> None:
    photos(tmp_path)
    (tmp_path / "train" / "c0" / "gone.jpg").symlink_to(tmp_path / "nowhere")
    with pytest.raises(BadData, match=r"gone\.jpg cannot be read"):
        opened(tmp_path)

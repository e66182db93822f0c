"""ImageNet in miniature, in exactly the layout that it is distributed in."""

import io
import tarfile
from pathlib import Path

import pytest
from PIL import Image
from small_sets import DEVKIT_NUMBERS, SYNSETS, encoded, imagenet, imagenet_files, packed, picture

from convdyno.data.convert import Options, convert
from convdyno.data.detect import open_source, recognise
from convdyno.data.folder import Pictures
from convdyno.errors import BadData


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def opened(path: Path, split: str) -> Pictures:
    source = open_source(str(path), split)  # type: ignore[arg-type]
    assert isinstance(source, Pictures)
    return source


def check(path: Path) -> None:
    """Every image is there with its label, whatever the parts are packed in."""
    train, validation, truth = imagenet_files()
    found = opened(path, "train")
    assert found.facts.kind == "imagenet" and found.facts.classes == SYNSETS
    labelled = {found.name(row): found.read(row) for row in range(len(found))}
    for label, synset in enumerate(SYNSETS):
        for name, content in train[synset].items():
            assert labelled.pop(name)[:2] == (content, label)
    assert not labelled
    held = opened(path, "validation")
    assert held.facts.classes == SYNSETS
    for row, (name, content) in enumerate(sorted(validation.items())):
        assert held.name(row) == name
        assert held.read(row)[:2] == (content, SYNSETS.index(truth[row]))


def test_archives_as_they_are_distributed(tmp_path: Path) -> None:
    imagenet(tmp_path / "imagenet")
    check(tmp_path / "imagenet")


def unpack(archive: Path, folder: Path) -> None:
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")


def test_the_parts_may_be_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "imagenet"
    imagenet(path)
    unpack(path / "ILSVRC2012_img_train.tar", path / "train")
    (path / "ILSVRC2012_img_train.tar").unlink()
    check(path)
    unpack(path / "ILSVRC2012_img_val.tar", path / "val")
    (path / "ILSVRC2012_img_val.tar").unlink()
    check(path)
    unpack(path / "ILSVRC2012_devkit_t12.tar.gz", path)
    (path / "ILSVRC2012_devkit_t12.tar.gz").unlink()
    for inner in list((path / "train").iterdir()):
        unpack(inner, path / "train" / inner.stem)
        inner.unlink()
    check(path)


def test_labels_may_be_synsets_or_numbers_with_a_map(tmp_path: Path) -> None:
    path = tmp_path / "imagenet"
    truth = imagenet(path)
    (path / "ILSVRC2012_devkit_t12.tar.gz").unlink()
    with pytest.raises(BadData, match="7 validation images but no file with as many labels"):
        opened(path, "validation")
    (path / "validation_synsets.txt").write_text("\n".join(truth))
    check(path)
    (path / "validation_synsets.txt").unlink()
    numbers = "\n".join(str(DEVKIT_NUMBERS[synset]) for synset in truth)
    (path / "ILSVRC2012_validation_ground_truth.txt").write_text(numbers)
    with pytest.raises(BadData, match=r"but not its meta\.mat"):
        opened(path, "validation")
    rows = "".join(f"{synset} {number} words\n" for synset, number in DEVKIT_NUMBERS.items())
    (path / "map_clsloc.txt").write_text(rows)
    check(path)
    (path / "ILSVRC2012_validation_ground_truth.txt").write_text(numbers[:-1] + "9")
    with pytest.raises(BadData, match=r"line 7 of .* has label 9, which no synset has"):
        opened(path, "validation")


def test_the_training_archive_alone(tmp_path: Path) -> None:
    imagenet(tmp_path / "imagenet")
    found = recognise(str(tmp_path / "imagenet" / "ILSVRC2012_img_train.tar"))
    assert found.splits == ("train",) and len(found.open("train")) == 14


@pytest.mark.parametrize("to", ["tfrecord", "folder"])
def test_known_damage_is_repaired_on_the_way(tmp_path: Path, to: str) -> None:
    imagenet(tmp_path / "imagenet")
    done = convert(
        recognise(str(tmp_path / "imagenet")),
        tmp_path / "out",
        Options(to=to, shards=2 if to == "tfrecord" else None),  # type: ignore[arg-type]
        "imagenet",
    )
    assert done.counts == {"train": 14, "validation": 7}
    assert done.repaired == 2
    train, validation, truth = imagenet_files()
    originals = {name: data for files in train.values() for name, data in files.items()}
    source = open_source(str(tmp_path / "out"), "train")
    changed = set()
    for row in range(len(source)):
        example = source.read(row)  # type: ignore[union-attr]
        name = source.name(row)  # type: ignore[union-attr]
        image = Image.open(io.BytesIO(example.data))
        assert (image.format, image.mode) == ("JPEG", "RGB")
        assert SYNSETS[example.label] == name.split("_")[0]
        if example.data != originals[name]:
            changed.add(name)
    assert changed == {"n02105855_2933.JPEG", "n01440764_1309.JPEG"}
    held = open_source(str(tmp_path / "out"), "validation")
    by_name = {held.name(row): held.read(row) for row in range(len(held))}  # type: ignore[union-attr]
    for synset, name in zip(truth, sorted(validation), strict=True):
        assert by_name[name][:2] == (validation[name], SYNSETS.index(synset))


def test_a_damaged_inner_archive_is_named_with_its_offset(tmp_path: Path) -> None:
    good = packed({"n1_1.JPEG": encoded(picture())})
    outer = packed({"n00000001.tar": good, "n00000002.tar": b"\xff" * 2048})
    (tmp_path / "train.tar").write_bytes(outer)
    with pytest.raises(BadData, match=r"at byte \d+: n00000002.tar is a damaged archive"):
        open_source(str(tmp_path / "train.tar"), "train")
    (tmp_path / "train.tar").write_bytes(packed({"n1.tar": good, "n2.tar": packed({})}))
    with pytest.raises(BadData, match=r"n2.tar has no images"):
        open_source(str(tmp_path / "train.tar"), "train")


def test_an_archive_cut_off_is_named(tmp_path: Path) -> None:
    imagenet(tmp_path / "imagenet")
    path = tmp_path / "imagenet" / "ILSVRC2012_img_train.tar"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(BadData, match=r"ILSVRC2012_img_train\.tar"):
        source = open_source(str(tmp_path / "imagenet"), "train")
        for row in range(len(source)):
            source.read(row)  # type: ignore[union-attr]

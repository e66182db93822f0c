"""Conversion: nothing lost, nothing half-written, killed runs go on where they stopped."""

import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from small_sets import cifar, encoded, mnist, photos, picture

from convdyno.data.convert import JOURNAL, Options, Written, convert
from convdyno.data.detect import open_source, recognise
from convdyno.data.tf_example import Picture, build_example
from convdyno.data.tfrecord import RecordWriter
from convdyno.errors import BadData, UsageError


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def converted(source: Path, target: Path, threads: int = 1, **options: Any) -> Written:
    return convert(recognise(str(source)), target, Options(**options), "here", threads)


def content(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def pairs(path: Path, split: str) -> list[tuple[int, bytes]]:
    source = open_source(str(path), split)  # type: ignore[arg-type]
    rows = [source.read(row) for row in range(len(source))]  # type: ignore[union-attr]
    return sorted((row.label, bytes(row.data)) for row in rows)


def test_there_and_back_again(tmp_path: Path) -> None:
    photos(tmp_path / "photos")
    done = converted(tmp_path / "photos", tmp_path / "records", shards=3)
    assert done.counts == {"train": 12, "validation": 6} and not done.resumed
    converted(tmp_path / "records", tmp_path / "back", to="folder")
    for split in ("train", "validation"):
        first = pairs(tmp_path / "photos", split)
        assert first == pairs(tmp_path / "records", split) == pairs(tmp_path / "back", split)
    back, photo = content(tmp_path / "back"), content(tmp_path / "photos")
    assert {name: back[name] for name in photo} == photo


def test_records_of_one_name_become_files_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "records").mkdir()
    with (tmp_path / "records" / "train-0").open("wb") as file:
        writer = RecordWriter(file)
        for row, name in enumerate(("a.jpg", "../a", "a.jpg", "", ".jpg", "b/c.jpg")):
            writer.write(build_example(Picture(encoded(picture(row)), 1, "only", name)))
    converted(tmp_path / "records", tmp_path / "out", to="folder")
    assert sorted(path.name for path in tmp_path.glob("out/train/only/*")) == [
        "-a.jpg", "00000000-a.jpg", "00000002-a.jpg", "00000003.jpg", "b-c.jpg", "jpg.jpg",
    ]  # fmt: skip


def test_training_order_follows_the_seed_and_not_the_threads(tmp_path: Path) -> None:
    photos(tmp_path / "photos")
    one = converted(tmp_path / "photos", tmp_path / "one", shards=2, seed=1)
    two = converted(tmp_path / "photos", tmp_path / "two", threads=3, shards=2, seed=1)
    converted(tmp_path / "photos", tmp_path / "three", shards=2, seed=2)
    assert one.counts == two.counts and content(tmp_path / "one") == content(tmp_path / "two")
    name = "train-00000-of-00002"
    assert (tmp_path / "one" / name).read_bytes() != (tmp_path / "three" / name).read_bytes()


@pytest.mark.parametrize(("to", "encoding"), [("folder", "png"), ("tfrecord", "png")])
def test_arrays_become_files_and_png_loses_nothing(tmp_path: Path, to: str, encoding: str) -> None:
    images, labels = cifar(tmp_path / "cifar", "binary")
    converted(tmp_path / "cifar", tmp_path / "out", to=to, encoding=encoding)
    source = open_source(str(tmp_path / "out"), "validation")
    assert source.facts.classes[2] == "bird"
    found = {}
    for row in range(len(source)):
        example = source.read(row)  # type: ignore[union-attr]
        found[int(source.name(row)[:8])] = example  # type: ignore[union-attr]
    import io

    for row in range(len(images)):
        assert np.array_equal(np.asarray(Image.open(io.BytesIO(found[row].data))), images[row])
        assert found[row].label == labels[row]


def test_grey_arrays_become_grey_jpegs_and_unsorted_names_keep_their_labels(
    tmp_path: Path,
) -> None:
    _, labels = mnist(tmp_path / "fashion-mnist", count=20)
    converted(tmp_path / "fashion-mnist", tmp_path / "out", to="folder")
    assert (tmp_path / "out" / "train" / "T-shirt-top").is_dir()
    source = open_source(str(tmp_path / "out"), "train")
    assert source.facts.classes[0] == "T-shirt/top"
    for row in range(len(source)):
        number = int(source.name(row)[:8])  # type: ignore[union-attr]
        example = source.read(row)  # type: ignore[union-attr]
        assert example.label == labels[number]
        assert Image.open(example.where).mode == "L"


def test_short_side_shrinks_the_large_and_leaves_the_small(tmp_path: Path) -> None:
    folder = tmp_path / "photos" / "only"
    folder.mkdir(parents=True)
    (folder / "large.jpg").write_bytes(encoded(picture(1, (80, 40))))
    (folder / "small.jpg").write_bytes(encoded(picture(2, (30, 20))))
    converted(tmp_path / "photos", tmp_path / "out", to="folder", short_side=20, quality=90)
    out = tmp_path / "out" / "train" / "only"
    assert Image.open(out / "large.jpg").size == (40, 20)
    assert (out / "small.jpg").read_bytes() == (folder / "small.jpg").read_bytes()


def test_odd_images_are_made_readable(tmp_path: Path) -> None:
    folder = tmp_path / "photos" / "only"
    folder.mkdir(parents=True)
    deep = Image.fromarray(np.full((9, 9), 0x8000, np.uint16))
    for name, data in {
        "cmyk.jpg": encoded(picture(1, mode="CMYK")),
        "grey.jpg": encoded(picture(2, mode="L")),
        "clear.png": encoded(picture(3, mode="RGBA"), "PNG"),
        "plain.png": encoded(picture(4), "PNG"),
        "moving.gif": encoded(picture(5), "GIF"),
        "deep.png": encoded(deep, "PNG"),
        "wrong.jpeg": encoded(picture(6), "PNG"),
    }.items():
        (folder / name).write_bytes(data)
    done = converted(tmp_path / "photos", tmp_path / "out", to="folder")
    assert done.repaired == 5
    out = tmp_path / "out" / "train" / "only"
    found = {path.name: Image.open(path) for path in out.iterdir()}
    kinds = {name: (image.format, image.mode) for name, image in found.items()}
    assert kinds == {
        "cmyk.jpg": ("JPEG", "RGB"),
        "grey.jpg": ("JPEG", "L"),
        "clear.png.jpg": ("JPEG", "RGB"),
        "plain.png": ("PNG", "RGB"),
        "moving.gif.jpg": ("JPEG", "RGB"),
        "deep.png.jpg": ("JPEG", "L"),
        "wrong.jpeg": ("JPEG", "RGB"),
    }
    assert found["deep.png.jpg"].getpixel((4, 4)) == 128
    cmyk = np.asarray(picture(1, mode="CMYK").convert("RGB"), int)
    assert abs(np.asarray(found["cmyk.jpg"], int) - cmyk).mean() < 12


def test_exif_orientation_is_ignored(tmp_path: Path) -> None:
    folder = tmp_path / "photos" / "only"
    folder.mkdir(parents=True)
    turned = Image.Exif()
    turned[0x0112] = 6
    picture(1, (40, 30)).save(folder / "turned.jpg", exif=turned)
    converted(tmp_path / "photos", tmp_path / "out", to="folder", short_side=15)
    assert Image.open(tmp_path / "out/train/only/turned.jpg").size == (20, 15)


def damaged(folder: Path) -> None:
    photos(folder, classes=2, each=150)
    whole = (folder / "train/c0/0_7.jpg").read_bytes()
    (folder / "train/c0/0_7.jpg").write_bytes(whole[: len(whole) // 2])


def test_a_damaged_image_is_an_error_or_is_left_out(tmp_path: Path) -> None:
    damaged(tmp_path / "photos")
    with pytest.raises(BadData, match=r"0_7\.jpg is a damaged image"):
        converted(tmp_path / "photos", tmp_path / "out", shards=2)
    # The same folder goes on with another answer to damage.
    done = converted(tmp_path / "photos", tmp_path / "out", shards=2, on_bad="skip")
    assert done.counts["train"] == 299 and done.skipped == 1
    assert "0_7.jpg" in done.first_skipped[0]


def test_too_much_damage_is_an_error_even_then(tmp_path: Path) -> None:
    photos(tmp_path / "photos")
    (tmp_path / "photos/train/c0/0_1.jpg").write_bytes(b"\xff\xd8\xff nothing")
    with pytest.raises(BadData, match="1 of 12 examples are damaged, more than"):
        converted(tmp_path / "photos", tmp_path / "out", on_bad="skip")


def test_other_options_or_other_files_are_not_mixed(tmp_path: Path) -> None:
    damaged(tmp_path / "photos")
    with pytest.raises(BadData):
        converted(tmp_path / "photos", tmp_path / "out", shards=2)
    with pytest.raises(UsageError, match="was begun with shards 2, not 3"):
        converted(tmp_path / "photos", tmp_path / "out", shards=3)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("mine")
    with pytest.raises(UsageError, match="is not empty"):
        converted(tmp_path / "photos", tmp_path / "other")
    assert content(tmp_path / "other") == {"file": b"mine"}


def test_a_finished_conversion_is_left_as_it_is(tmp_path: Path) -> None:
    photos(tmp_path / "photos")
    first = converted(tmp_path / "photos", tmp_path / "out", shards=2)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir()}
    again = converted(tmp_path / "photos", tmp_path / "out", shards=2)
    assert again.counts == first.counts and again.resumed
    assert before == {path: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir()}


@pytest.mark.parametrize("to", ["tfrecord", "folder"])
def test_killed_in_the_middle_it_goes_on_to_the_same_bytes(tmp_path: Path, to: str) -> None:
    cifar(tmp_path / "cifar", "binary", count=3000)
    shards = 12 if to == "tfrecord" else None
    whole = tmp_path / "whole"
    converted(tmp_path / "cifar", whole, to=to, shards=shards)
    code = (
        "import sys; from pathlib import Path\n"
        "from convdyno.data.convert import Options, convert\n"
        "from convdyno.data.detect import recognise\n"
        f"options = Options(to={to!r}, shards={shards})\n"
        "convert(recognise(sys.argv[1]), Path(sys.argv[2]), options, 'here')"
    )
    out = tmp_path / "out"
    worker = subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "cifar"), str(out)])
    some = "train-*" if to == "tfrecord" else "train/*/*"
    deadline = time.monotonic() + 240
    while len(list(out.glob(some))) < 4 and time.monotonic() < deadline:
        time.sleep(0.005)
    os.kill(worker.pid, signal.SIGKILL)
    worker.wait()
    assert (out / JOURNAL).exists() and not (out / "dataset.json").exists()
    done = converted(tmp_path / "cifar", out, to=to, shards=shards)
    assert done.counts == {"train": 3000, "validation": 3000}
    assert content(out) == content(whole)


def test_a_file_too_large_leaves_nothing_half_written(tmp_path: Path) -> None:
    photos(tmp_path / "photos", classes=2, each=40)
    found = recognise(str(tmp_path / "photos"))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8000, hard))
    try:
        with pytest.raises(BadData, match="there is no room left to write to"):
            convert(found, tmp_path / "out", Options(shards=1), "here")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [path.name for path in (tmp_path / "out").iterdir()] == [JOURNAL]
    assert convert(found, tmp_path / "out", Options(shards=1), "here").counts["train"] == 80


def test_a_full_disk_leaves_nothing_half_written(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=200k", "none", str(disk)]
    if os.getuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a small disk cannot be mounted here")
    try:
        cifar(tmp_path / "cifar", "binary", count=300)
        with pytest.raises(BadData, match=r"there is no room left .*No space left on device"):
            converted(tmp_path / "cifar", disk / "out", shards=8)
        names = {path.name for path in (disk / "out").iterdir()}
        assert JOURNAL in names and not any(name.endswith(".part") for name in names)
        for path in (disk / "out").glob("train-*"):
            source = open_source(str(path), "train")
            assert all(source.read(row) for row in range(len(source)))  # type: ignore[union-attr]
            source.close()  # type: ignore[union-attr]
    finally:
        subprocess.run(["umount", str(disk)], check=True)

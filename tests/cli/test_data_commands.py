"""`convdyno data`: what it prints, and one sentence for what cannot be done."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from schemas import keeps_to


@pytest.fixture
def data(convdyno: Any, tmp_path: Path) -> Any:
    """Run `convdyno data` with a cache of its own."""

    def run(*arguments: str) -> Any:
        environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / ".cache")}
        environment.pop("CONVDYNO_DATA", None)
        return convdyno("data", *arguments, env=environment)

    return run


def test_make_info_convert(data: Any, tmp_path: Path) -> None:
    made = data("make", "photos", "--images", "12", "--classes", "3", "--size", "90x60")
    assert made.code == 0, made.err
    assert "photos: folder, 9 train images, 3 validation images" in made.out
    told = keeps_to("data", data("info", "photos", "--check", "--json").json)
    assert told["format"] == "folder" and told["classes"] == ["class0", "class1", "class2"]
    assert told["damaged"] == 0 and told["checked"]
    train = told["splits"]["train"]
    assert (train["count"], train["looked_at"], train["images_per_class"]) == (9, 9, [3, 3])
    assert train["encodings"] == {"JPEG RGB": 9}
    assert train["height"][0] <= train["height"][1] <= train["height"][2]

    done = data("convert", "photos", "records", "--to", "tfrecord", "--shards", "2", "--json").json
    keeps_to("data", done)
    assert done["counts"] == {"train": 9, "validation": 3} and not done["resumed"]
    names = sorted(path.name for path in (tmp_path / "records").iterdir())
    assert names == [
        "dataset.json", "train-00000-of-00002", "train-00001-of-00002", "validation-00000-of-00001",
    ]  # fmt: skip
    text = data("info", "records")
    assert "records: tfrecord" in text.out and "3 classes: class0, class1, class2" in text.out

    path = tmp_path / "records" / "train-00000-of-00002"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    checked = data("info", "records", "--check", "--json")
    assert checked.code == 2
    assert keeps_to("data", checked.json)["damaged"] == 1
    assert "train-00000-of-00002 at byte" in checked.json["damage"][0]
    refused = data("convert", "records", "again", "--to", "folder")
    assert refused.code == 2 and "its checksum differs" in refused.err


def test_a_check_sees_what_is_missing_before_an_end_marker(data: Any, tmp_path: Path) -> None:
    assert data("make", "photos", "--images", "4", "--classes", "2", "--size", "90x60").code == 0
    path = next((tmp_path / "photos").rglob("*.jpg"))
    content = path.read_bytes()
    path.write_bytes(content[: len(content) * 2 // 3] + b"\xff\xd9")
    checked = data("info", "photos", "--check")
    assert checked.code == 2
    assert path.name in checked.err + checked.out


def test_the_same_seed_makes_the_same_pictures(data: Any, tmp_path: Path) -> None:
    for name, seed in (("a", "1"), ("b", "1"), ("c", "2")):
        size = ("--images", "4", "--classes", "2", "--size", "60x40")
        assert data("make", name, *size, "--seed", seed).code == 0
    first = (tmp_path / "a/train/class0/train_00000000.jpg").read_bytes()
    assert first == (tmp_path / "b/train/class0/train_00000000.jpg").read_bytes()
    assert first != (tmp_path / "c/train/class0/train_00000000.jpg").read_bytes()


CASES = [
    (("info", "nowhere"), "there is no file or folder 'nowhere'"),
    (("info", "empty"), "'empty' is no data set"),
    (("info", "mnist"), "`convdyno data get mnist` brings it there"),
    (("info", "notes.txt"), "is no data set"),
    (("convert", "empty", "out", "--to", "tfrecord"), "is no data set"),
    (("convert", "nowhere", "out", "--to", "tfrecords"), "Did you mean 'tfrecord'"),
    (("convert", "x", "out", "--to", "tfrecord", "--shards", "0"), "--shards must be a whole"),
    (("convert", "x", "out", "--to", "tfrecord", "--quality", "101"), "--quality goes from 1"),
    (("convert", "x", "out", "--to", "folder", "--shards", "2"), "--shards is for --to tfrecord"),
    (("convert", "x", "out", "--to", "folder", "--on-bad", "skipp"), "Did you mean 'skip'"),
    (("convert", "x", "out", "--to", "folder", "--encoding", "gif"), "no encoding is called"),
    (("make", "out", "--images", "3", "--classes", "2"), "3 images are too few for 2 classes"),
    (("make", "out", "--size", "9000x10"), "--size goes up to 4096x4096"),
    (("make", "out", "--size", "big"), "an image size is"),
    (("make", "notes.txt", "--images", "4", "--classes", "2"), "cannot be written"),
    (("make", "full", "--images", "4", "--classes", "2"), "is not empty"),
    (("get", "imagenet"), "no data set is called 'imagenet'"),
    (("get", "mnist", "--from", "empty"), "is no data set"),
    (("get", "mnist", "--from", "nowhere"), "there is no file or folder"),
]


@pytest.mark.parametrize(("arguments", "said"), CASES, ids=[" ".join(a) for a, _ in CASES])
def test_one_sentence_and_exit_code_2(
    data: Any, tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("mine")
    (tmp_path / "notes.txt").write_text("words")
    outcome = data(*arguments)
    assert outcome.code == 2, outcome.err
    assert said in outcome.err
    assert outcome.out == ""
    assert len(outcome.err.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_a_missing_extra_is_one_sentence(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "sys.modules['PIL'] = sys.modules['PIL.Image'] = None\n"
        "sys.argv = ['convdyno', 'data', 'make', 'out', '--images', '4', '--classes', '2']\n"
        "from convdyno.cli.main import main\nmain()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr.startswith("convdyno: ") and len(done.stderr.splitlines()) == 1
    assert "pip install 'convdyno[data]'" in done.stderr


def test_help_imports_no_numpy() -> None:
    code = (
        "import sys; sys.argv = ['convdyno', 'data', 'convert', '--help']\n"
        "from convdyno.cli.main import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print({'numpy', 'PIL', 'cv2', 'google'} & set(sys.modules))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "set()"


def test_a_name_is_found_where_get_put_it(data: Any, tmp_path: Path) -> None:
    import struct

    folder = tmp_path / "mine"
    folder.mkdir()
    for name in ("train", "t10k"):
        images = b"\0\0\x08\x03" + struct.pack(">3I", 2, 28, 28) + bytes(2 * 784)
        (folder / f"{name}-images").write_bytes(images)
        (folder / f"{name}-labels").write_bytes(b"\0\0\x08\x01\0\0\0\x02\0\x01")
    got = data("get", "mnist", "--from", "mine", "--json")
    assert got.code == 0
    assert "warning: train-images-idx3-ubyte differs from the published file" in got.err
    assert keeps_to("data", got.json)["counts"] == {"train": 2, "validation": 2}
    assert data("info", "mnist", "--json").json["format"] == "idx"

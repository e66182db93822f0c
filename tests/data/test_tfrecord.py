"""TFRecord: readable by TensorFlow and the reverse, every flipped byte noticed."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from small_sets import encoded, photos, picture

from convdyno.data import tfrecord
from convdyno.data.convert import Options, convert
from convdyno.data.detect import open_source, recognise
from convdyno.data.tf_example import Picture, build_example, find_label, parse_example
from convdyno.data.tfrecord import RecordFile, Records, RecordWriter
from convdyno.errors import BadData

JPEG = encoded(picture())
READ_BY_TENSORFLOW = """
import json, sys
from pathlib import Path
if sys.argv[2] == "before":
    from convdyno.data.detect import open_source
    open_source(sys.argv[1], "train").read(0)
import tensorflow as tf
keys = {
    "image/encoded": tf.io.FixedLenFeature([], tf.string),
    "image/class/label": tf.io.FixedLenFeature([], tf.int64),
    "image/class/text": tf.io.FixedLenFeature([], tf.string),
    "image/height": tf.io.FixedLenFeature([], tf.int64),
    "image/width": tf.io.FixedLenFeature([], tf.int64),
    "image/channels": tf.io.FixedLenFeature([], tf.int64),
    "image/colorspace": tf.io.FixedLenFeature([], tf.string),
    "image/format": tf.io.FixedLenFeature([], tf.string),
    "image/filename": tf.io.FixedLenFeature([], tf.string),
}
rows = []
for path in sorted(Path(sys.argv[1]).glob("train-*")):
    for record in tf.data.TFRecordDataset(str(path)):
        found = tf.io.parse_single_example(record, keys)
        shape = tf.io.decode_jpeg(found["image/encoded"]).shape
        assert shape == [found["image/height"], found["image/width"], found["image/channels"]]
        rows.append([
            int(found["image/class/label"]), found["image/class/text"].numpy().decode(),
            found["image/filename"].numpy().decode(), found["image/format"].numpy().decode(),
        ])
print(json.dumps(rows))
"""
WRITTEN_BY_TENSORFLOW = """
import sys
import tensorflow as tf
jpeg = open(sys.argv[2], "rb").read()
def of(value):
    if isinstance(value, list):
        return tf.train.Feature(float_list=tf.train.FloatList(value=value))
    if isinstance(value, int):
        return tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))
for split, labels in (("train", [2, 1, 3]), ("validation", [2])):
    with tf.io.TFRecordWriter(f"{sys.argv[1]}/{split}-00000-of-00001") as writer:
        for label in labels:
            keys = {
                "image/encoded": of(jpeg), "image/class/label": of(label),
                "image/class/synset": of(b"n0000000%d" % label), "image/height": of(20),
                "image/class/text": of(b"fish, sort %d" % label),
                "image/object/bbox/xmin": of([0.1, 0.2]), "image/object/bbox/label": of(label),
            }
            example = tf.train.Example(features=tf.train.Features(feature=keys))
            writer.write(example.SerializeToString())
from convdyno.data.detect import open_source
print(open_source(sys.argv[1], "train").read(0).label)
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def written(path: Path, *labels: int) -> Path:
    with path.open("wb") as file:
        writer = RecordWriter(file)
        for label in labels:
            writer.write(build_example(Picture(JPEG, label, f"name {label}")))
    return path


def run(code: str, *arguments: str) -> str:
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip().splitlines()[-1]


@pytest.mark.parametrize("ours_is_imported", ["before", "never"])
def test_tensorflow_reads_what_we_write(tmp_path: Path, ours_is_imported: str) -> None:
    photos(tmp_path / "photos")
    records = tmp_path / "records"
    convert(recognise(str(tmp_path / "photos")), records, Options(shards=2), "photos")
    rows = json.loads(run(READ_BY_TENSORFLOW, str(records), ours_is_imported))
    assert sorted(rows) == [
        [label + 1, f"c{label}", f"{label}_{number}.jpg", "JPEG"]
        for label in range(3)
        for number in range(4)
    ]


def test_we_read_what_tensorflow_writes(tmp_path: Path) -> None:
    (tmp_path / "one.jpg").write_bytes(JPEG)
    (tmp_path / "set").mkdir()
    label = run(WRITTEN_BY_TENSORFLOW, str(tmp_path / "set"), str(tmp_path / "one.jpg"))
    assert label == "1"
    train = open_source(str(tmp_path / "set"), "train")
    held = open_source(str(tmp_path / "set"), "validation")
    assert isinstance(train, Records) and isinstance(held, Records)
    assert train.facts.classes == held.facts.classes
    assert held.facts.classes == ("fish, sort 1", "fish, sort 2", "fish, sort 3")
    assert [train.read(row).label for row in range(3)] == [1, 0, 2]
    assert train.read(0).data == JPEG


def test_every_flipped_bit_is_noticed(tmp_path: Path) -> None:
    path = written(tmp_path / "train-0", 1, 2)
    whole = path.read_bytes()
    for position in [*range(40), *range(40, len(whole), 97), *range(len(whole) - 20, len(whole))]:
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 16]) + whole[position + 1 :])
        with pytest.raises(BadData, match=r"train-0.* at byte|at byte \d+"):
            file = RecordFile(path)
            for row in range(2):
                file.read(row)


def test_a_file_cut_off_is_named_with_its_offset(tmp_path: Path) -> None:
    path = written(tmp_path / "train-0", 1, 2)
    size = path.stat().st_size
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(BadData, match=f"cut off.*byte {size // 2}"):
        RecordFile(path)


def test_a_lying_length_is_never_believed(tmp_path: Path) -> None:
    import struct

    import google_crc32c

    length = struct.pack("<Q", 1 << 60)
    crc = struct.pack("<I", tfrecord.masked(google_crc32c.value(length)))
    (tmp_path / "train-0").write_bytes(length + crc + bytes(1000))
    with pytest.raises(BadData, match="more than are left"):
        open_source(str(tmp_path), "train")


def test_the_index_is_kept_and_made_anew_when_the_file_changes(
    tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path / "train-0", 1, 2)
    assert len(RecordFile(path)) == 2
    kept = list(own_cache.glob("convdyno/index/*"))
    assert len(kept) == 1
    with monkeypatch.context() as patched:
        patched.setattr(RecordFile, "_walk", lambda self: pytest.fail("walked again"))
        assert len(RecordFile(path)) == 2
    written(path, 1, 2, 3)
    assert len(RecordFile(path)) == 3
    assert list(own_cache.glob("convdyno/index/*")) == kept
    kept[0].write_bytes(b"nonsense")
    assert len(RecordFile(path)) == 3


def test_a_cache_that_cannot_be_written_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert len(RecordFile(written(tmp_path / "train-0", 1))) == 1


def test_label_0_is_refused_unless_a_sidecar_allows_it(tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    written(tmp_path / "set" / "train-0", 1, 0)
    with pytest.raises(BadData, match=r"label 0, but labels go from 1; a dataset\.json"):
        open_source(str(tmp_path / "set"), "train")
    sidecar = tmp_path / "set" / "dataset.json"
    sidecar.write_text('{"first_label": 0, "classes": ["a", "b"]}')
    assert open_source(str(tmp_path / "set"), "train").read(1).label == 0  # type: ignore[union-attr]
    sidecar.write_text('{"first_label": 1, "classes": ["a"]}')
    with pytest.raises(BadData, match="label 0, but labels go from 1 to 1"):
        open_source(str(tmp_path / "set"), "train").read(1)  # type: ignore[union-attr]
    sidecar.write_text('{"first_label": 2}')
    with pytest.raises(BadData, match=r"dataset\.json"):
        open_source(str(tmp_path / "set"), "train")


def test_a_record_without_image_or_label_is_named(tmp_path: Path) -> None:
    path = tmp_path / "train-0"
    with path.open("wb") as file:
        RecordWriter(file).write(b"")
    with pytest.raises(BadData, match="byte 0 has no image/class/label"):
        open_source(str(tmp_path), "train")
    with pytest.raises(BadData, match="has no image/encoded"):
        parse_example(b"", "here")


def test_the_label_is_found_without_parsing() -> None:
    for label in (0, 1, 127, 128, 1000, -1, 2**40):
        data = build_example(Picture(JPEG, label, "text"))
        assert find_label(data, 0, len(data), "here") == label == parse_example(data, "here").label


def test_a_shard_with_a_damaged_beginning_is_not_passed_over(tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    for shard in range(2):
        written(tmp_path / "set" / f"train-0000{shard}-of-00002", 1)
    path = tmp_path / "set" / "train-00001-of-00002"
    path.write_bytes(b"\0" + path.read_bytes()[1:])
    with pytest.raises(BadData, match="train-00001-of-00002 is damaged or no TFRecord file"):
        open_source(str(tmp_path / "set"), "train")


def test_records_of_many_files_are_found_by_number(tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    for shard, labels in enumerate(((1, 2), (3,), (), (1, 1, 2))):
        written(tmp_path / "set" / f"train-{shard}", *labels)
    # An empty shard cannot be told from any other empty file, and is passed over.
    source = open_source(str(tmp_path / "set"), "train")
    assert [source.read(row).label for row in range(len(source))] == [0, 1, 2, 0, 0, 1]  # type: ignore[union-attr]
    with pytest.raises(IndexError):
        source.read(6)  # type: ignore[union-attr]

"""The frameworks' own ways of reading images, as comparators."""

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tensorflow_here import tensorflow

SIZE = (24, 32)


def picture(seed: int) -> bytes:
    random = np.random.default_rng(seed)
    small = Image.fromarray(random.integers(0, 256, (6, 8, 3), np.uint8))
    out = io.BytesIO()
    small.resize((80, 60), Image.Resampling.BICUBIC).save(out, "JPEG", quality=90)
    return out.getvalue()


@pytest.fixture
def items(tmp_path: Path) -> list[tuple[str, int]]:
    paths = [tmp_path / f"{n}.jpg" for n in range(10)]
    for n, path in enumerate(paths):
        path.write_bytes(picture(n))
    return [(str(path), n % 3) for n, path in enumerate(paths)]


def check(batches, count: int, batch: int) -> None:
    for _ in range(count):
        images, labels = next(batches)
        assert images.shape == (batch, *SIZE, 3)
        assert images.dtype == np.uint8
        assert labels.dtype == np.int64
        assert images.std() > 5
    batches.close()


def evaluated(batches) -> list[int]:
    return sorted(int(n) for _, labels in batches for n in labels)


@pytest.mark.parametrize("jitter", [False, True])
@pytest.mark.parametrize("workers", [0, 1])
def test_torch_reads_files(items, workers, jitter):
    from convdyno.engines.torch import loader

    look = loader.Treatment(SIZE, jitter=jitter)
    check(loader.file_batches(items, look, batch=4, workers=workers), 5, 4)


def test_torch_evaluates_each_image_once(items):
    from convdyno.engines.torch import loader

    look = loader.Treatment(SIZE, train=False)
    assert evaluated(loader.file_batches(items, look, batch=4)) == sorted(n for _, n in items)


def test_torch_reads_arrays():
    from convdyno.engines.torch import loader

    images = np.random.default_rng(0).integers(0, 256, (9, 16, 16, 3), np.uint8)
    check(loader.array_batches(images, np.arange(9), loader.Treatment(SIZE), batch=4), 3, 4)


@pytest.mark.parametrize("jitter", [False, True])
def test_tensorflow_reads_files(items, jitter):
    tensorflow()
    from convdyno.engines.tensorflow import loader

    look = loader.Treatment(SIZE, jitter=jitter)
    check(loader.file_batches(items, look, batch=4, threads=1), 5, 4)


def test_tensorflow_evaluates_each_image_once(items):
    tensorflow()
    from convdyno.engines.tensorflow import loader

    look = loader.Treatment(SIZE, train=False)
    assert evaluated(loader.file_batches(items, look, batch=4)) == sorted(n for _, n in items)


def test_tensorflow_reads_records(items, tmp_path):
    tf = tensorflow()
    from convdyno.engines.tensorflow import loader

    file = tmp_path / "validation-00000-of-00001"
    with tf.io.TFRecordWriter(str(file)) as out:
        for path, label in items:
            data = tf.train.Feature(bytes_list=tf.train.BytesList(value=[Path(path).read_bytes()]))
            number = tf.train.Feature(int64_list=tf.train.Int64List(value=[label + 1]))
            features = {"image/encoded": data, "image/class/label": number}
            example = tf.train.Example(features=tf.train.Features(feature=features))
            out.write(example.SerializeToString())
    check(loader.record_batches([file], loader.Treatment(SIZE), batch=4), 5, 4)
    look = loader.Treatment(SIZE, train=False)
    assert evaluated(loader.record_batches([file], look, batch=4)) == sorted(n for _, n in items)


def test_tensorflow_reads_arrays():
    tensorflow()
    from convdyno.engines.tensorflow import loader

    images = np.random.default_rng(0).integers(0, 256, (9, 16, 16, 3), np.uint8)
    check(loader.array_batches(images, np.arange(9), loader.Treatment(SIZE), batch=4), 3, 4)

"""What TensorFlow's users write to read images: tf.data, the crop fused into the decoding.

A comparator, so that one can see what the usual way costs beside convdyno's own pipeline. The
operations and their settings are those of nvcnn and tf_cnn_benchmarks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from convdyno.engines.contract import Material, Treatment

Batches = Iterator[tuple[NDArray[np.uint8], NDArray[np.int64]]]
CENTRAL = 0.875
SHUFFLED = 10_000
"""Records that are shuffled at a time."""


def record_batches(
    files: Sequence[str | Path], look: Treatment, *, batch: int, first_label: int = 1, **more: Any
) -> Batches:
    """Batches of ImageNet-style TFRecord files; `more` is as for `file_batches`."""
    names = [str(file) for file in files]
    features = {
        "image/encoded": tf.io.FixedLenFeature([], tf.string),
        "image/class/label": tf.io.FixedLenFeature([], tf.int64),
    }

    def parse(record: Any) -> tuple[Any, Any]:
        found = tf.io.parse_single_example(record, features)
        return found["image/encoded"], found["image/class/label"] - first_label

    shards = tf.data.Dataset.from_tensor_slices(names)
    if look.train:
        shards = shards.shuffle(len(names), seed=more.get("seed", 0))
    together = min(len(names), 10)
    records = shards.interleave(tf.data.TFRecordDataset, cycle_length=together)
    return _batches(records, parse, look, batch, **more)


def file_batches(
    items: Sequence[tuple[str | Path, int]], look: Treatment, *, batch: int, **more: Any
) -> Batches:
    """Batches of (path, label) pairs.

    `seed`, `threads` (of a pool of its own; None is TensorFlow's choice), `prefetch` and `shuffled`
    (examples shuffled at a time) may be given.
    """
    paths = [str(path) for path, _ in items]
    labels = np.array([label for _, label in items], np.int64)
    pairs = tf.data.Dataset.from_tensor_slices((paths, labels))
    return _batches(pairs, lambda path, label: (tf.io.read_file(path), label), look, batch, **more)


def array_batches(images: Any, labels: Any, look: Treatment, *, batch: int, **more: Any) -> Batches:
    """Batches of decoded images; padded by four pixels, cropped and mirrored in training."""
    height, width, channels = images.shape[1:]

    def prepare(image: Any, label: Any) -> tuple[Any, Any]:
        if look.train:
            padded = tf.image.resize_with_crop_or_pad(image, height + 8, width + 8)
            image = tf.image.random_crop(padded, [height, width, channels])
            image = tf.image.random_flip_left_right(image)
        if (height, width) != look.size:
            image = tf.cast(tf.image.resize(image, look.size), tf.uint8)
        return image, label

    pairs = tf.data.Dataset.from_tensor_slices((images, np.asarray(labels, np.int64)))
    return _batches(pairs, prepare, look, batch, decoded=True, **more)


def batches(given: Material) -> Batches:
    """Batches of whatever material tf.data's users have: records, files or arrays."""
    look = given.treatment
    more: dict[str, Any] = {
        "batch": given.batch, "seed": given.seed, "threads": given.threads,
        "prefetch": given.prefetch,
    }  # fmt: skip
    if given.records is not None:
        return record_batches(given.records, look, first_label=given.first_label, **more)
    if given.files is not None:
        return file_batches(given.files, look, **more)
    assert given.arrays is not None
    return array_batches(*given.arrays, look, **more)


def _batches(
    examples: Any,
    parse: Any,
    look: Treatment,
    batch: int,
    *,
    seed: int = 0,
    threads: int | None = None,
    prefetch: int = 2,
    shuffled: int = SHUFFLED,
    decoded: bool = False,
) -> Batches:
    def prepare(*example: Any) -> tuple[Any, Any]:
        data, label = parse(*example)
        return (data if decoded else _image(data, look)), label

    if look.train:
        examples = examples.shuffle(shuffled, seed=seed).repeat()
    made = examples.map(prepare, num_parallel_calls=threads or tf.data.AUTOTUNE)
    made = made.batch(batch, drop_remainder=look.train).prefetch(prefetch)
    options = tf.data.Options()
    if threads:
        options.threading.private_threadpool_size = threads
        options.threading.max_intra_op_parallelism = 1
        options.autotune.enabled = False
    yield from made.with_options(options).as_numpy_iterator()


def _image(data: Any, look: Treatment) -> Any:
    if not look.train:
        return tf.cast(_evaluated(data, look), tf.uint8)
    image = tf.image.resize(_crop(data, look), look.size, antialias=look.antialias)
    image = tf.image.random_flip_left_right(image)
    if look.jitter:
        image = _jittered(image / 255) * 255
    return tf.cast(tf.clip_by_value(image, 0, 255) + 0.5, tf.uint8)


def _crop(data: Any, look: Treatment) -> Any:
    """Only the part of the image that is wanted is decoded, where it is a JPEG."""

    def fused() -> Any:
        box = _box(tf.image.extract_jpeg_shape(data), look)
        return tf.image.decode_and_crop_jpeg(
            data, box, channels=look.channels, dct_method="INTEGER_FAST", fancy_upscaling=False
        )

    def other() -> Any:
        image = tf.image.decode_image(data, channels=look.channels, expand_animations=False)
        top, left, height, width = tf.unstack(_box(tf.shape(image), look))
        return tf.image.crop_to_bounding_box(image, top, left, height, width)

    return tf.cond(tf.io.is_jpeg(data), fused, other)


def _box(shape: Any, look: Treatment) -> Any:
    start, size, _ = tf.image.sample_distorted_bounding_box(
        shape, tf.zeros([1, 0, 4], tf.float32), min_object_covered=0.1,
        aspect_ratio_range=look.aspect, area_range=look.area, max_attempts=100,
        use_image_if_no_bounding_boxes=True,
    )  # fmt: skip
    top, left, _ = tf.unstack(start)
    height, width, _ = tf.unstack(size)
    return tf.stack([top, left, height, width])


def _evaluated(data: Any, look: Treatment) -> Any:
    """The central 0.875 of height and width, its aspect not kept."""
    image = tf.image.decode_image(data, channels=look.channels, expand_animations=False)
    image = tf.image.central_crop(image, CENTRAL)
    return tf.clip_by_value(tf.image.resize(image, look.size) + 0.5, 0, 255)


def _jittered(image: Any) -> Any:
    image = tf.image.random_brightness(image, 32 / 255)
    return tf.cond(
        tf.random.uniform([]) < 0.5,
        lambda: _contrasted(_coloured(image)),
        lambda: _coloured(_contrasted(image)),
    )


def _coloured(image: Any) -> Any:
    if image.shape[-1] == 1:
        return image
    return tf.image.random_hue(tf.image.random_saturation(image, 0.5, 1.5), 0.2)


def _contrasted(image: Any) -> Any:
    return tf.image.random_contrast(image, 0.5, 1.5)

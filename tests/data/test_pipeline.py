"""Batches: which examples, in which order, from how many threads; and how it all ends."""

import gc
import itertools
import subprocess
import sys
import threading
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from pictures import Memory, arrays, encoded, photo, photos

from convdyno.data.augment import Transform
from convdyno.data.pipeline import BatchOrder, Pipeline, Position
from convdyno.data.tolerance import Tolerance
from convdyno.errors import BadData, UsageError

IMAGE = (16, 16, 3)


def copies(pipeline, count):
    """The next batches, copied out of the buffers."""
    with pipeline:
        return [(i.copy(), n.copy()) for i, n in itertools.islice(pipeline, count)]


def same(a, b):
    return len(a) == len(b) and all(
        np.array_equal(x, y)
        for one, two in zip(a, b, strict=True)
        for x, y in zip(one, two, strict=True)
    )


def left():
    """Threads of pipelines."""
    return [t for t in threading.enumerate() if t.name.startswith("convdyno-input")]


@pytest.mark.parametrize("threads", [2, 4])
def test_the_number_of_threads_changes_nothing(threads):
    source, how = photos(11), Transform(colour="folded")
    settings = {"batch": 5, "image": IMAGE, "train": True, "transform": how, "seed": 3}
    one = copies(Pipeline(source, threads=1, **settings), 6)
    assert same(one, copies(Pipeline(source, threads=threads, **settings), 6))


def test_another_seed_or_epoch_is_another_order_and_other_crops():
    source = photos(8)
    batch = copies(Pipeline(source, batch=8, image=IMAGE, train=True, seed=0), 2)
    other = copies(Pipeline(source, batch=8, image=IMAGE, train=True, seed=1), 1)
    assert not np.array_equal(batch[0][1], batch[1][1])
    assert not np.array_equal(batch[0][1], other[0][1])
    assert sorted(batch[0][1]) == sorted(batch[1][1]) == sorted(other[0][1])


def test_training_goes_on_where_it_was_left():
    source = photos(10)
    settings = {"batch": 3, "image": IMAGE, "train": True, "seed": 5}
    all_of_it = copies(Pipeline(source, **settings), 7)
    with Pipeline(source, **settings) as first:
        for _ in range(4):
            next(first)
        position = first.position
    assert position == Position(1, 1)
    assert same(all_of_it[4:], copies(Pipeline(source, start=position, **settings), 3))


@pytest.mark.parametrize(
    ("count", "batch", "size"), [(24, 2, 3), (25, 4, 2), (7, 7, 1), (100, 3, 4)]
)
def test_ranks_share_an_epoch_without_overlap(count, batch, size):
    ranks = [BatchOrder(count, batch, endless=True, seed=1, rank=r, size=size) for r in range(size)]
    for epoch in (0, 3):
        seen = [e for s in ranks for b in range(s.batches) for e in s.examples(Position(epoch, b))]
        assert len(seen) == len(set(seen)) == count // (batch * size) * batch * size


def test_over_all_ranks_the_examples_of_a_step_do_not_depend_on_their_number():
    whole = BatchOrder(40, 8, endless=True, seed=2).examples(Position(1, 2))
    parts = [
        BatchOrder(40, 2, endless=True, seed=2, rank=r, size=4).examples(Position(1, 2))
        for r in range(4)
    ]
    assert np.array_equal(whole, np.concatenate(parts))


@pytest.mark.parametrize(
    ("count", "batch", "size"), [(10, 3, 1), (10, 3, 4), (3, 5, 4), (64, 8, 3)]
)
def test_evaluation_sees_each_image_once(count, batch, size):
    seen = []
    for rank in range(size):
        with Pipeline(
            arrays(count), batch=batch, image=(8, 8, 3), train=False, rank=rank, size=size
        ) as pipeline:
            seen += [label for _, labels in pipeline for label in labels]
    assert sorted(seen) == list(range(count))


def test_a_set_smaller_than_a_batch_fills_it():
    (images, labels), *_ = copies(Pipeline(photos(3), batch=8, image=IMAGE, train=True), 1)
    assert images.shape == (8, *IMAGE)
    assert set(labels) == {0, 1, 2}


def test_a_batch_stays_until_the_next_is_asked_for():
    with Pipeline(photos(12), batch=2, image=IMAGE, train=True, prefetch=2) as pipeline:
        for _ in range(6):
            images, labels = next(pipeline)
            before = images.copy(), labels.copy()
            time.sleep(0.01)
            assert np.array_equal(images, before[0])
            assert np.array_equal(labels, before[1])


def test_buffers_are_used_again_and_reading_stays_within_the_prefetch():
    source = photos(6)
    with Pipeline(source, batch=2, image=IMAGE, train=True, prefetch=2, threads=2) as pipeline:
        places = {next(pipeline)[0].ctypes.data for _ in range(30)}
        assert len(places) == 3
        time.sleep(0.05)
        # Thirty batches were given; at most two more are ready.
        assert len(source.reads) <= 2 * 32


def test_close_ends_the_threads_at_any_time():
    pipeline = Pipeline(photos(6), batch=2, image=IMAGE, train=True, threads=3)
    next(pipeline)
    assert left()
    pipeline.close()
    pipeline.close()
    assert not left()
    with pytest.raises(StopIteration):
        next(pipeline)


def test_a_forgotten_pipeline_ends_its_threads():
    pipeline = Pipeline(photos(6), batch=2, image=IMAGE, train=True, threads=3)
    next(pipeline)
    del pipeline
    gc.collect()
    assert not left()


def test_the_end_of_an_evaluation_ends_the_threads():
    pipeline = Pipeline(photos(5), batch=2, image=IMAGE, train=False)
    assert [len(labels) for _, labels in pipeline] == [2, 2, 1]
    assert not left()


@pytest.mark.parametrize("decoder", ["native", "simplejpeg"])
def test_a_damaged_image_is_named_and_ends_the_threads(decoder):
    source = photos(6)
    source.data[4] = source.data[4][:-300]
    pipeline = Pipeline(source, batch=2, image=IMAGE, train=False, decoder=decoder)
    next(pipeline)
    next(pipeline)
    with pytest.raises(BadData, match=r"image 4: damaged JPEG: .*[Pp]remature end"):
        next(pipeline)
    assert not left()


@pytest.mark.parametrize("threads", [1, 3])
def test_skipped_images_are_counted_and_replaced_in_training(threads):
    source = photos(8)
    source.data[2], source.data[5] = b"no image at all", None
    counted, few = Tolerance("skip", 800), Tolerance("skip", 150)
    settings = {"batch": 8, "image": IMAGE, "train": True, "threads": threads}
    got = copies(Pipeline(source, tolerance=counted, **settings), 3)
    assert [len(labels) for _, labels in got] == [8, 8, 8]
    assert counted.count == 2
    assert not {2, 5} & {int(n) for _, labels in got for n in labels}
    with pytest.raises(BadData, match="2 of 150"):
        copies(Pipeline(source, tolerance=few, **settings), 1)


def test_skipped_images_are_left_out_of_an_evaluation():
    source = photos(8)
    source.data[2], source.data[5] = b"no image at all", None
    tolerance = Tolerance("skip", 800)
    got = copies(Pipeline(source, batch=3, image=IMAGE, train=False, tolerance=tolerance), 3)
    assert [list(labels) for _, labels in got] == [[0, 1], [3, 4], [6, 7]]


def test_a_label_out_of_range_is_damage():
    with pytest.raises(BadData, match="label 9"):
        copies(Pipeline(photos(10), batch=10, image=IMAGE, train=True, classes=9), 1)
    with pytest.raises(BadData, match="example 9: label 9"):
        copies(Pipeline(arrays(10), batch=10, image=(8, 8, 3), train=False, classes=9), 1)


@pytest.mark.parametrize("cache", ["bytes", "decoded"])
def test_held_examples_give_the_same_pixels_without_reading(cache):
    source = photos(4)
    settings = {"batch": 4, "image": IMAGE, "train": False, "decoder": "simplejpeg"}
    ((images, _),) = copies(Pipeline(source, **settings), 1)
    with Pipeline(source, cache=cache, cached=99, **settings) as pipeline:
        source.reads.clear()
        held, names = next(pipeline)
        assert not source.reads
        assert pipeline.facts()["cached"] == 4
        for image, label in zip(held, names, strict=True):
            assert np.array_equal(image, images[label])


def test_waiting_is_counted():
    with Pipeline(photos(4), batch=2, image=IMAGE, train=True) as pipeline:
        next(pipeline)
        assert pipeline.wait_seconds > 0


def test_grey_and_colour_are_adapted_to_the_network():
    grey = photos(2)
    grey.data = [encoded(photo(40, 40, n, channels=1)) for n in range(2)]
    ((images, _),) = copies(Pipeline(grey, batch=2, image=IMAGE, train=False), 1)
    assert np.array_equal(images[..., 0], images[..., 2])
    ((images, _),) = copies(Pipeline(photos(2), batch=2, image=(16, 16, 1), train=False), 1)
    assert images.shape == (2, 16, 16, 1)
    ((images, _),) = copies(
        Pipeline(arrays(2, channels=1), batch=2, image=(8, 8, 3), train=False), 1
    )
    assert images.shape == (2, 8, 8, 3)


def test_small_images_are_resized_to_the_network():
    ((images, _),) = copies(Pipeline(arrays(4), batch=4, image=(16, 12, 3), train=True), 1)
    assert images.shape == (4, 16, 12, 3)
    assert images.std() > 10


def test_an_evaluation_can_be_endless():
    with Pipeline(photos(5), batch=2, image=IMAGE, train=False, endless=True) as pipeline:
        assert len({next(pipeline)[0].tobytes() for _ in range(40)}) > 5
        assert pipeline.position == Position(20, 0)


def test_impossible_settings_are_refused():
    with pytest.raises(UsageError, match="channels"):
        Pipeline(photos(1), batch=1, image=(8, 8, 2), train=True)
    with pytest.raises(UsageError, match="rank 2 of 2"):
        Pipeline(photos(1), batch=1, image=IMAGE, train=True, rank=2, size=2)
    assert not left()


def test_small_files_are_padded_and_cropped_as_arrays_are():
    """The same images as lossless files and as arrays give the same batches."""
    held = arrays(12, 16)
    files = Memory([encoded(image, "PNG") for image in held.images])
    settings = {"batch": 6, "image": (16, 16, 3), "train": True, "transform": Transform(crop="pad")}
    with Pipeline(held, **settings) as one, Pipeline(files, threads=2, **settings) as other:
        for _ in range(4):
            np.testing.assert_array_equal(next(one)[0], next(other)[0])


def test_memory_does_not_grow_with_epochs():
    source = photos(12)
    settings = {"batch": 4, "image": (64, 64, 3), "train": True, "threads": 2, "prefetch": 2}
    with Pipeline(source, transform=Transform(colour="exact"), **settings) as pipeline:
        for _ in itertools.islice(pipeline, 60):
            pass
        source.reads.clear()
        gc.collect()
        tracemalloc.start()
        before, _ = tracemalloc.get_traced_memory()
        for _ in itertools.islice(pipeline, 300):
            pass
        source.reads.clear()
        gc.collect()
        after, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    one_batch = 4 * 64 * 64 * 3
    assert after - before < one_batch
    assert peak - before < 6 * one_batch


@pytest.mark.parametrize("ending", ["pass", "raise SystemExit(0)", "del pipeline", "sys.exit(0)"])
def test_an_open_pipeline_does_not_keep_the_interpreter(ending):
    code = (
        "import sys\n"
        "from pictures import photos\n"
        "from convdyno.data.pipeline import Pipeline\n"
        "pipeline = Pipeline(photos(9), batch=2, image=(32, 32, 3), train=True, threads=3)\n"
        f"next(pipeline)\n{ending}\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=Path(__file__).parent, capture_output=True, timeout=60
    )
    assert done.returncode == 0
    assert done.stderr == b""

"""Crops, views and colours: inside the image, as their tools draw them, near one another."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pictures import arrays, photo
from tensorflow_here import tensorflow

from convdyno.data import colour
from convdyno.data.augment import (
    LAWS,
    Box,
    Transform,
    evaluation_box,
    pad_and_crop,
    training_box,
    usual,
    with_channels,
)
from convdyno.data.colour import Tint, distort, distort_exactly, room_for, tint
from convdyno.data.counter_rng import Dice, shuffled, uniforms
from convdyno.errors import UnknownName

sizes = st.integers(1, 700)


@given(sizes, sizes, st.integers(0, 99), st.sampled_from(sorted(LAWS)))
def test_a_random_crop_is_inside_the_image(height, width, seed, law):
    top, left, tall, wide = training_box(Dice(seed, 0, 0), height, width, LAWS[law])
    assert 0 <= top < top + tall <= height
    assert 0 <= left < left + wide <= width


@pytest.mark.parametrize("law", sorted(LAWS))
def test_random_crops_keep_to_area_and_aspect_and_use_their_range(law):
    (least, most), (flat, steep) = LAWS[law].area, LAWS[law].aspect
    boxes = [training_box(Dice(1, 0, n), 405, 480, LAWS[law]) for n in range(2000)]
    areas = np.array([b.height * b.width for b in boxes]) / (405 * 480)
    aspects = np.array([b.width / b.height for b in boxes])
    assert (areas >= least * 0.98).all()
    assert (areas <= most).all()
    assert (aspects >= flat * 0.97).all()
    assert (aspects <= steep * 1.03).all()
    assert areas.min() < least + 0.05
    assert areas.max() > 0.9
    assert len({b.top for b in boxes}) > 100


def test_an_image_that_no_crop_fits_is_taken_whole():
    assert training_box(Dice(0, 0, 0), 4, 4000, LAWS["nvcnn"]) == Box(0, 0, 4, 4000)


@pytest.mark.parametrize(
    ("view", "box"),
    [
        ("squash", Box(25, 37, 350, 525)),
        ("centre", Box(25, 125, 350, 350)),
        ("centre-1.145", Box(25, 125, 349, 349)),
        ("whole", Box(0, 0, 400, 600)),
    ],
)
def test_views(view, box):
    assert evaluation_box(view, 400, 600, (224, 224)) == box


@given(sizes, sizes, st.sampled_from(["squash", "centre", "centre-1.145", "whole"]), sizes, sizes)
def test_a_view_is_inside_the_image(height, width, view, tall, wide):
    box = evaluation_box(view, height, width, (tall, wide))
    assert box.top >= 0 <= box.left
    assert 0 < box.top + box.height <= height
    assert 0 < box.left + box.width <= width


def test_numbers_of_one_example_and_of_many_are_the_same():
    many = uniforms(7, 3, np.array([0, 5, 123456789]), 4)
    for row, example in zip(many, (0, 5, 123456789), strict=True):
        dice = Dice(7, 3, example)
        assert [dice.uniform() for _ in range(4)] == row.tolist()


def test_numbers_are_spread_evenly():
    many = uniforms(0, 0, np.arange(20000), 3)
    counts = np.histogram(many, 20, (0, 1))[0]
    assert abs(many.mean() - 0.5) < 0.005
    assert np.abs(counts / 3000 - 1).max() < 0.08
    assert np.abs(np.corrcoef(many.T) - np.eye(3)).max() < 0.03


def test_an_order_has_every_example_once_and_is_no_stretch_of_them():
    order = shuffled(0, 0, 1000)
    assert sorted(order) == list(range(1000))
    assert abs(np.corrcoef(order, np.arange(1000))[0, 1]) < 0.1
    assert not np.array_equal(order, shuffled(0, 1, 1000))


def test_cifars_crop_moves_by_up_to_four_pixels_and_mirrors_half():
    source = arrays(400, size=12)
    moved = pad_and_crop(source.images.copy(), 0, 0, np.arange(400), True)
    assert moved.shape == source.images.shape
    draws = uniforms(0, 0, np.arange(400), 3)
    mirrored = 0
    for image, result, (turn, down, along) in zip(source.images, moved, draws, strict=True):
        mirrored += turn < 0.5
        whole = np.pad(image[:, ::-1] if turn < 0.5 else image, ((4, 4), (4, 4), (0, 0)))
        top, left = int(down * 9), int(along * 9)
        assert np.array_equal(result, whole[top : top + 12, left : left + 12])
    assert 150 < mirrored < 250


def exactly(image: np.ndarray, drawn: Tint) -> np.ndarray:
    out = image.copy()
    distort_exactly(out, drawn, room_for(out.shape))
    return out.astype(int)


def folded(image: np.ndarray, drawn: Tint) -> np.ndarray:
    out = image.copy()
    distort(out, drawn.folded())
    return out.astype(int)


def test_brightness_and_contrast_are_exact_in_the_folded_form():
    image = photo(64, 64) // 2 + 60
    drawn = Tint(12.0, 1.0, 0.0, 0.8, False)
    assert np.abs(folded(image, drawn) - exactly(image, drawn)).max() <= 1


def test_grey_stays_grey():
    image = np.repeat(photo(40, 40, channels=1), 3, 2)
    drawn = Tint(-9.0, 1.4, 0.15, 1.2, True)
    for result in (folded(image, drawn), exactly(image, drawn)):
        assert np.ptp(result, axis=2).max() <= 1
    assert np.abs(folded(image, drawn) - exactly(image, drawn)).max() <= 1


def test_hue_turns_the_same_way_and_saturation_does_the_same():
    red = np.full((4, 4, 3), (160, 90, 90), np.uint8)
    for third in (1 / 3, -1 / 3):
        drawn = Tint(0, 1, third, 1, False)
        assert np.abs(folded(red, drawn) - exactly(red, drawn)).max() <= 1
    more = folded(red, Tint(0, 1.5, 0, 1, False))[0, 0]
    assert np.ptp(more) == pytest.approx(105, abs=2)


def test_the_folded_form_is_near_the_exact_one():
    image = photo(96, 96, seed=3)
    image = (image.mean(2, keepdims=True) * 0.6 + image * 0.4).astype(np.uint8)
    apart = [
        np.abs(folded(image, drawn) - exactly(image, drawn)).mean()
        for drawn in (tint(Dice(0, 0, n)) for n in range(40))
    ]
    # Levels of 255; the distortion itself moves pixels by about 22.
    assert np.mean(apart) < 8
    assert np.max(apart) < 15


def test_tints_keep_to_the_older_tools_ranges():
    drawn = np.array([tint(Dice(0, 0, n)) for n in range(3000)], float)
    low, high = drawn.min(0), drawn.max(0)
    assert low == pytest.approx([-32, 0.5, -0.2, 0.5, 0], abs=0.1)
    assert high == pytest.approx([32, 1.5, 0.2, 1.5, 1], abs=0.1)


def test_exact_colours_are_tensorflows_to_two_levels():
    tf = tensorflow()
    image = photo(48, 48, seed=5)
    for n in range(6):
        drawn = tint(Dice(4, 0, n))
        x = tf.image.convert_image_dtype(image, tf.float32)
        x = tf.image.adjust_brightness(x, drawn.brightness / 255)
        if drawn.contrast_first:
            x = tf.image.adjust_contrast(x, drawn.contrast)
        x = tf.image.adjust_hue(tf.image.adjust_saturation(x, drawn.saturation), drawn.hue)
        if not drawn.contrast_first:
            x = tf.image.adjust_contrast(x, drawn.contrast)
        expected = np.round(tf.clip_by_value(x, 0, 1).numpy() * 255)
        assert np.abs(exactly(image, drawn) - expected).mean() < 1


def test_channels():
    rgb = np.array([[[255, 0, 0], [0, 255, 0], [0, 0, 255], [9, 9, 9]]], np.uint8)
    assert with_channels(rgb, 1)[0, :, 0].tolist() == [76, 150, 29, 9]
    assert with_channels(rgb[..., :1], 3).shape == rgb.shape


def test_what_is_usual():
    assert usual("idx") == Transform(crop="whole", view="whole", mirror=False)
    assert usual("cifar10-png").crop == "pad"
    assert usual("tfrecord") == Transform()


def test_unknown_words_are_refused():
    with pytest.raises(UnknownName, match="antialiased"):
        Transform(resize="antialised")
    assert colour.BRIGHTNESS == 32

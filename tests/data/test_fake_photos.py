"""Made pictures: as large as photographs, the same for the same seed, and their class shows."""

import io

import numpy as np
import pytest
from PIL import Image

from convdyno.data.fake_photos import MadeSet
from convdyno.errors import UsageError


def hues(data: bytes) -> np.ndarray:
    """How much of each hue a picture has, counting strong colours."""
    small = np.asarray(Image.open(io.BytesIO(data)).resize((24, 24)).convert("HSV"), int)
    strong = small[..., 1] > 110
    return np.bincount(small[..., 0][strong] // 16, minlength=16) / max(1, strong.sum())


def test_pictures_have_the_size_of_photographs() -> None:
    made = MadeSet(40, 4).open("train")
    sizes = [len(made.read(row).data) for row in range(12)]
    assert 80_000 < np.mean(sizes) < 125_000
    shapes = {Image.open(io.BytesIO(made.read(row).data)).size for row in range(6)}
    assert len(shapes) == 6


def test_a_class_can_be_told_by_its_colour() -> None:
    made = MadeSet(200, 4, (120, 160)).open("train")
    examples = [made.read(row) for row in range(80)]
    features = np.array([hues(bytes(example.data)) for example in examples])
    labels = np.array([example.label for example in examples])
    centres = np.array([features[:40][labels[:40] == label].mean(0) for label in range(4)])
    distances = ((features[40:, None] - centres) ** 2).sum(-1)
    assert (distances.argmin(1) == labels[40:]).mean() > 0.7


def test_splits_and_seeds_differ_and_repeat() -> None:
    first, again = MadeSet(8, 2, (40, 50)), MadeSet(8, 2, (40, 50))
    assert (len(first.open("train")), len(first.open("validation"))) == (6, 2)
    one = first.open("train").read(1)
    assert one == again.open("train").read(1) and one.label == 1
    assert one.data != first.open("validation").read(1).data
    assert one.data != MadeSet(8, 2, (40, 50), seed=1).open("train").read(1).data


def test_each_class_needs_two_images() -> None:
    with pytest.raises(UsageError, match="too few"):
        MadeSet(5, 3)

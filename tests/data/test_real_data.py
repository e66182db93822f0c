"""The real sets are the published ones."""

from pathlib import Path

import numpy as np
import pytest
from real_sets import real

from convdyno.data.detect import open_source
from convdyno.data.fetch import get
from convdyno.data.source import DecodedImages


def opened(path: Path, split: str) -> DecodedImages:
    source = open_source(str(path), split)  # type: ignore[arg-type]
    assert isinstance(source, DecodedImages)
    return source


@pytest.mark.parametrize(
    ("name", "mean", "first"),
    [("mnist", 0.1307, [5, 0, 4, 1, 9]), ("fashion-mnist", 0.2860, [9, 0, 0, 3, 0])],
)
def test_idx_sets_are_the_published_ones(
    tmp_path: Path, name: str, mean: float, first: list[int]
) -> None:
    got = get(name, tmp_path / name, real(name), lambda line: None)
    assert got.warnings == () and got.counts == {"train": 60_000, "validation": 10_000}
    train = opened(tmp_path / name, "train")
    assert train.facts.image == (28, 28, 1) and len(train.facts.classes) == 10
    assert train.labels[:5].tolist() == first
    assert train.images.mean() / 255 == pytest.approx(mean, abs=1e-4)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_cifar_10_is_the_published_one_and_is_kept_in_its_binary_form(tmp_path: Path) -> None:
    got = get("cifar10", tmp_path / "cifar", real("cifar10"), lambda line: None)
    assert got.warnings == () and got.counts == {"train": 50_000, "validation": 10_000}
    train, held = opened(tmp_path / "cifar", "train"), opened(tmp_path / "cifar", "validation")
    assert train.facts.kind == "cifar10-binary"
    scale = np.arange(256) / 255
    for channel, mean, deviation in ((0, 0.4914, 0.2470), (1, 0.4822, 0.2435), (2, 0.4465, 0.2616)):
        weights = np.bincount(train.images[..., channel].ravel(), minlength=256)
        found = np.average(scale, weights=weights)
        spread = np.average((scale - found) ** 2, weights=weights) ** 0.5
        assert (found, spread) == pytest.approx((mean, deviation), abs=1e-4)
    assert np.bincount(train.labels).tolist() == [5000] * 10
    assert held.labels[:5].tolist() == [3, 8, 8, 0, 6]

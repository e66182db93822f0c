"""Real data in a benchmark on several ranks: each has its share."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import runs
import small_photos

from convdyno.blueprint.weights import initial_weights
from convdyno.data.detect import open_source
from convdyno.engines import registry
from convdyno.errors import BadData, Refused
from convdyno.run.feed import _material, blueprint_of, open_feed
from convdyno.trial.spec import Trial, make_trial
from convdyno.trial.world import World


def trial_on(data: Path, devices: int, **more: Any) -> Trial:
    values = {
        "network": "trivial", "engine": "clockwork", "data": str(data), "batch": 4, "classes": 4,
        "image_size": (28, 28), "crop": "whole", "view": "whole", "devices": devices,
    }  # fmt: skip
    return make_trial(**values | more)


def labels(trial: Trial, world: World, count: int) -> list[list[int]]:
    """Of the batches that a rank is fed with."""
    engine, blueprint = registry.load("clockwork"), blueprint_of(trial)
    session = engine.open(blueprint, trial, initial_weights(blueprint))
    feed = open_feed(engine, session, blueprint, trial, world)
    try:
        assert feed.batches is not None
        return [next(feed.batches)[1].tolist() for _ in range(count)]
    finally:
        feed.close()


def test_ranks_train_together_on_what_one_would_have(tmp_path: Path) -> None:
    data = runs.bars(tmp_path / "bars")
    whole = labels(trial_on(data, 1, batch=12), World(), 5)
    shares = [labels(trial_on(data, 3), World(rank=r, size=3), 5) for r in range(3)]
    assert [sum(parts, []) for parts in zip(*shares, strict=True)] == whole  # noqa: RUF017


def test_a_process_with_several_devices_has_the_batches_of_all(tmp_path: Path) -> None:
    data = runs.bars(tmp_path / "bars")
    trial = trial_on(data, 4, hosts=2, processes="host")
    assert [len(batch) for batch in labels(trial, World(rank=1, size=2), 3)] == [8] * 3


def test_inference_has_full_batches_of_each_ranks_images(tmp_path: Path) -> None:
    data = runs.bars(tmp_path / "bars", test=13)
    trial = trial_on(data, 3, mode="infer")
    assert labels(trial, World(rank=2, size=3), 3) == [[0, 1, 2, 3]] * 3
    with pytest.raises(BadData, match="13 images, fewer than one batch of 5 for each of 3 ranks"):
        labels(trial_on(data, 3, mode="infer", batch=5), World(rank=0, size=3), 1)


def test_frameworks_loaders_have_shares_too(tmp_path: Path) -> None:
    trial = trial_on(tmp_path / "bars", 2, loader="native")
    source = open_source(str(runs.bars(tmp_path / "bars")), "train")
    parts = [
        _material(source, blueprint_of(trial), trial, World(rank=rank, size=2)) for rank in range(2)
    ]
    assert [len(part.arrays[1]) for part in parts if part.arrays] == [20, 20]
    assert {part.seed for part in parts} == {0, 1}
    small_photos.photos(tmp_path / "photos", ["ant", "bee", "cat"])
    photos = open_source(str(tmp_path / "photos"), "train")
    shares = [
        _material(photos, blueprint_of(trial), trial, World(rank=rank, size=2)).files
        for rank in range(2)
    ]
    assert sorted(shares[0] + shares[1]) == sorted(
        _material(photos, blueprint_of(trial), trial, World()).files or []
    )
    assert not set(shares[0]) & set(shares[1])


def test_too_few_files_of_records_are_refused(tmp_path: Path) -> None:
    from convdyno.data.tfrecord import Records

    class Few(Records):
        def __init__(self) -> None:
            self.files, self.first_label = [], 0
            self.facts = open_source(str(tmp_path / "bars"), "train").facts

    runs.bars(tmp_path / "bars")
    trial = trial_on(tmp_path / "bars", 2, loader="native")
    with pytest.raises(Refused, match="0 do not suffice for 2 ranks"):
        _material(Few(), blueprint_of(trial), trial, World(rank=1, size=2))


def test_a_benchmark_on_two_ranks_reads_real_data(tmp_path: Path, convdyno: Any) -> None:
    runs.prepare(tmp_path)
    done = convdyno(
        "bench", runs.PLAIN, "--engine", "clockwork", "--data", "bars", "--image-size", "14",
        "--batch", "4", "--devices", "2", "--rounds", "1", "--within", "any", "--json",
    )  # fmt: skip
    assert done.code == 0, done.err
    assert np.isfinite(done.json["cells"][0]["images_per_second"])

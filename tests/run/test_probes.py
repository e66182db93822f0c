"""The peaks that a worker tells: of the device, and of the loader alone."""

import io
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from convdyno.blueprint.weights import initial_weights
from convdyno.engines import registry
from convdyno.run import feed, measure
from convdyno.run.feed import Feed, blueprint_of
from convdyno.run.worker import Worker
from convdyno.trial.spec import make_trial


def test_the_loader_is_counted_by_the_images_of_this_process(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    worker, seconds = Worker(io.StringIO()), 0
    worker.trial = trial = make_trial(
        network="trivial", engine="clockwork", batch=4, devices=4, hosts=2, processes="host"
    )
    blueprint = blueprint_of(trial)
    engine = registry.load("clockwork")
    worker.session = engine.open(blueprint, trial, initial_weights(blueprint))

    def a_batch_a_second() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        nonlocal seconds
        while True:
            seconds += 1
            yield np.zeros((8, 1), np.uint8), np.zeros(8, np.int64)

    monkeypatch.setattr(feed, "time", SimpleNamespace(perf_counter=lambda: seconds))
    worker.feed = Feed(lambda steps: None, a_batch_a_second())
    worker.probe()
    told = json.loads(worker.out.getvalue())
    assert told["peaks"] == [{"kind": "input", "per_second": 8.0, "seen": None}]


def test_a_probe_that_takes_longer_than_there_is_time_has_a_peak(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(measure, "PROBE_SECONDS", 0.0)
    trial = make_trial(network="trivial", engine="reference", batch=1)
    blueprint = blueprint_of(trial)
    session = registry.load("reference").open(blueprint, trial, initial_weights(blueprint))
    assert all(peak.per_second > 0 for peak in measure.probe(session))

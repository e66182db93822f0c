"""What steps are fed with: every rung runs, and a loader that is too slow is found and named."""

import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import cv2
import numpy as np
import pytest

from convdyno.blueprint.weights import initial_weights
from convdyno.data import detect
from convdyno.data.source import Example, Facts
from convdyno.engines import registry
from convdyno.report.ladders import ADDS, RUNGS
from convdyno.run.feed import open_feed
from convdyno.run.measure import Meter
from convdyno.stats.ladder import climb
from convdyno.stats.rounds import Round
from convdyno.trial.spec import make_trial
from convdyno.trial.world import World
from convdyno.zoo.registry import build

SLOW_SECONDS = 0.02


@dataclass
class SlowPictures:
    """Images from a storage that takes its time for each."""

    count: int = 16
    facts: Facts = field(init=False)

    def __post_init__(self) -> None:
        pixels = np.random.default_rng(0).integers(0, 256, (24, 24, 3), np.uint8)
        self._data = cv2.imencode(".jpg", pixels)[1].tobytes()
        self.facts = Facts("folder", Path("slow"), "train", self.count, ("a", "b"), None, 0)

    def __len__(self) -> int:
        return self.count

    def read(self, index: int) -> Example:
        time.sleep(SLOW_SECONDS)
        return Example(self._data, index % 2, f"image {index}")

    def close(self) -> None:
        pass


def measured(rung: str) -> Round:
    """A round of blocks on one rung, by the real pipeline and the reference engine."""
    trial = make_trial(
        network="trivial", engine="reference", batch=4, data="slow", rung=rung, classes=2,
        image_size=(16, 16), input_threads=1, prefetch=1,
    )  # fmt: skip
    blueprint = build("trivial", (16, 16), 2)
    engine = registry.load("reference")
    session = engine.open(blueprint, trial, initial_weights(blueprint))
    feed = open_feed(engine, session, blueprint, trial, World())
    meter = Meter(feed.run, session.wait, session.clock, waited=feed.waited, steps_per_block=2)
    meter.block()
    blocks = [meter.block() for _ in range(4)]
    feed.close()
    assert all((block.wait_seconds is None) == (rung in ("device", "host")) for block in blocks)
    return Round.of([b.seconds for b in blocks], [b.steps for b in blocks], trial.batch)


def test_a_storage_that_is_too_slow_is_found_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detect, "open_source", lambda path, split: SlowPictures())
    sides = {rung: [measured(rung) for _ in range(3)] for rung in RUNGS}
    found = climb(sides["device"], [(ADDS[rung], sides[rung]) for rung in RUNGS[1:]])
    assert found.limit == "input"
    assert found.largest == "reading"
    assert not [t for t in threading.enumerate() if t.name.startswith("convdyno-input")]

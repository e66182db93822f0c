"""An engine whose step times are scripted: statistics, rounds and reports run in milliseconds.

Nothing is computed; each step moves a clock of its own. The script is the trial's device, a list of
`key=value` joined by `;`, every key optional:

    step=0.002      seconds of a step, on average
    image=0.0001    seconds more for each image of the batch
    within=0.03     relative deviation from step to step
    between=0.01    relative deviation from process to process
    ar=0.5          correlation of neighbouring steps
    warm=5          how many steps are slower (2x) at first
    nchw=1.3        times a step in that layout; also nhwc
    compiled=0.8    times a compiled step
    most=64         more images than that are out of memory
    random=7        fixes the randomness; else every process differs
    fail=crash      crash, oom, nan or hang, at the step `at` (default 30)
    rank=1          of several ranks only this one fails
    clock=real      sleep instead of moving a clock of its own
"""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from convdyno.blueprint.graph import Blueprint
from convdyno.blueprint.weights import Weights
from convdyno.engines.contract import Batch, Engine, Probe, Session, SessionSettings, State
from convdyno.errors import Refused
from convdyno.trial.spec import Trial
from convdyno.trial.world import World

NUMBERS = {
    "step": 0.002,
    "image": 0.0,
    "within": 0.03,
    "between": 0.01,
    "ar": 0.5,
    "warm": 5.0,
    "at": 30.0,
    "nchw": 1.0,
    "nhwc": 1.0,
    "compiled": 1.0,
    "most": math.inf,
    "random": -1.0,
    "rank": -1.0,
}
WORDS = {"fail": ("", "crash", "oom", "nan", "hang"), "clock": ("virtual", "real")}


class Clockwork:
    """A session that only counts time."""

    def __init__(self, blueprint: Blueprint, trial: Trial, weights: Weights, rank: int = 0) -> None:
        self._numbers, self._words = _script(trial.device)
        self._fails = self._words["fail"] if self._numbers["rank"] in (-1, rank) else ""
        if not self._numbers["step"] > 0:
            raise Refused("a step of the clockwork engine must take some time: step=0.002")
        if trial.batch > self._numbers["most"]:
            raise MemoryError("scripted")
        seed = self._numbers["random"]
        self._random = np.random.default_rng(int(seed) if seed >= 0 else None)
        self._seconds = self._numbers["step"] + self._numbers["image"] * trial.batch
        compiled = trial.compile == "on"
        self._seconds *= self._numbers.get(trial.layout, 1.0)
        self._seconds *= self._numbers["compiled"] if compiled else 1.0
        self._seconds *= math.exp(self._numbers["between"] * self._random.standard_normal())
        self._weights, self._classes, self._drift = weights, blueprint.classes, 0.0
        self._now = self._steps = 0
        self.clock = time.perf_counter_ns if self._words["clock"] == "real" else lambda: self._now
        layout = "none" if trial.layout == "auto" else trial.layout
        self.settings = SessionSettings(
            "clockwork", "clockwork", layout, compiled, trial.threads or 1
        )

    def place(self, images: NDArray[np.uint8], labels: NDArray[np.int64]) -> Batch:
        return images, labels

    def train_step(self, batch: Batch) -> None:
        self._steps += 1
        if self._steps >= self._numbers["at"]:
            _fail(self._fails)
        ar, within = self._numbers["ar"], self._numbers["within"]
        shock = self._random.standard_normal() * math.sqrt(1 - ar * ar)
        self._drift = ar * self._drift + shock
        seconds = self._seconds * math.exp(within * self._drift)
        seconds *= 2 if self._steps <= self._numbers["warm"] else 1
        if self._words["clock"] == "real":
            time.sleep(seconds)
        self._now += round(seconds * 1e9)

    infer_step = train_step

    def wait(self) -> None:
        pass

    def loss(self) -> float:
        lost = self._fails == "nan" and self._steps >= self._numbers["at"]
        return math.nan if lost else math.log(self._classes) / (1 + 0.01 * self._steps)

    def logits(self, batch: Batch) -> NDArray[np.float32]:
        return np.zeros((len(batch[0]), self._classes), np.float32)

    def gradients(self, batch: Batch) -> Weights:
        raise Refused("the clockwork engine has no gradients: it computes nothing")

    def weights(self) -> Weights:
        return self._weights

    def load(self, weights: Weights) -> None:
        self._weights = weights

    def state(self) -> State:
        return {"updates": np.array(self._steps, np.int64)}

    def restore(self, state: State) -> None:
        self._steps = int(state["updates"])

    def set_rate(self, rate: float) -> None:
        pass

    def compilations(self) -> int:
        return 0

    def memory_bytes(self) -> int | None:
        return None

    def probes(self) -> Sequence[Probe]:
        return ()


class ClockworkEngine:
    """Scripted times behind the contract of an engine."""

    _rank = 0

    def versions(self) -> dict[str, str]:
        return {}

    def join(self, world: World, trial: Trial) -> None:
        self._rank = world.rank

    def leave(self) -> None:
        pass

    def open(self, blueprint: Blueprint, trial: Trial, weights: Weights) -> Session:
        return Clockwork(blueprint, trial, weights, self._rank)

    def out_of_memory(self, error: BaseException) -> bool:
        return isinstance(error, MemoryError)


def engine() -> Engine:
    """The clockwork engine."""
    return ClockworkEngine()


def _script(device: str) -> tuple[dict[str, float], dict[str, str]]:
    numbers, words = dict(NUMBERS), {key: choices[0] for key, choices in WORDS.items()}
    for item in filter(None, "" if device == "auto" else device.split(";")):
        key, _, value = item.partition("=")
        if key in WORDS and value in WORDS[key]:
            words[key] = value
        elif key in NUMBERS and value.replace(".", "", 1).isdigit():
            numbers[key] = float(value)
        else:
            raise Refused(
                f"the clockwork engine cannot be scripted with {item!r}; its keys are "
                f"{', '.join([*NUMBERS, *WORDS])}, as in --device 'step=0.01;within=0.02'"
            )
    return numbers, words


def _fail(how: str) -> None:
    match how:
        case "crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        case "oom":
            raise MemoryError(f"scripted, at {Path(__file__).name}")
        case "hang":
            time.sleep(3600)

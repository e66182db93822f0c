"""What an engine owes: it loads a blueprint on a device and runs steps. Nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from convdyno.blueprint.graph import Blueprint
from convdyno.blueprint.weights import Weights
from convdyno.trial.spec import Optimiser, Trial

__all__ = [
    "Batch",
    "Engine",
    "Fitter",
    "Optimiser",
    "Probe",
    "Session",
    "Trial",
    "Weights",
    "normalise",
]

Batch = Any
"""Images and labels on the device, in the engine's own types; opaque to everybody else."""


@dataclass(frozen=True, slots=True)
class Probe:
    """A piece of pure work that shows how fast the device can be."""

    kind: str
    """"matmul", "conv" or "copy"."""
    work: float
    """Floating-point operations of one run; bytes moved for "copy"."""
    run: Callable[[], object]
    """Enqueue the work once."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What `auto` became: the conditions a session really runs under, for the record."""

    device: str
    device_name: str
    layout: str
    compiled: bool
    threads: int
    flags: dict[str, object] = field(default_factory=dict)
    """Framework switches that change speed."""
    warnings: tuple[str, ...] = ()
    """Conditions that the user should know of, each with what to do."""


class Session(Protocol):
    """A network loaded on its device, ready to step. Benchmarking and training use the same one."""

    settings: Settings
    clock: Callable[[], int]
    """Nanoseconds that only go forward: `time.perf_counter_ns` wherever time is real."""

    def place(self, images: NDArray[np.uint8], labels: NDArray[np.int64]) -> Batch:
        """Bring a host batch (NHWC bytes) to the device; normalise to [-1, 1] and lay out there."""

    def train_step(self, batch: Batch) -> None:
        """Enqueue one update of the weights; does not wait for the device."""

    def infer_step(self, batch: Batch) -> None:
        """Enqueue one forward pass as in use; does not wait for the device."""

    def wait(self) -> None:
        """Return when the device has finished everything enqueued."""

    def loss(self) -> float:
        """The mean loss of the latest training step's batch, before its update."""

    def logits(self, batch: Batch) -> NDArray[np.float32]:
        """The class scores of the first head as in use, one row an image."""

    def gradients(self, batch: Batch) -> Weights:
        """The training loss's gradient (without L2) by each trainable weight; changes nothing."""

    def weights(self) -> Weights:
        """All weights in canonical names and layouts, float32."""

    def load(self, weights: Weights) -> None:
        """Replace all weights."""

    def set_rate(self, rate: float) -> None:
        """The learning rate from the next step on."""

    def compilations(self) -> int:
        """How many times something has been compiled so far; 0 where nothing ever is."""

    def memory_bytes(self) -> int | None:
        """The peak of device memory held, where the device has memory of its own."""

    def probes(self) -> Sequence[Probe]:
        """Work at the trial's precision that shows the device's peak: matmul, conv and copy."""


@runtime_checkable
class Fitter(Protocol):
    """A session whose framework can also run many steps in one call of its own."""

    def fit(self, batch: Batch, steps: int) -> None:
        """So many steps of the trial's mode on one batch."""


class Engine(Protocol):
    """A framework, imported; made once per worker process."""

    def versions(self) -> dict[str, str]:
        """The framework's version and those of the libraries that do its arithmetic."""

    def open(self, blueprint: Blueprint, trial: Trial, weights: Weights) -> Session:
        """Load a network; `Refused` says what this engine can do instead."""

    def out_of_memory(self, error: BaseException) -> bool:
        """Whether an exception means that the device's memory did not suffice."""


def normalise(images: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Bytes as every engine's network sees them: 0..255 becomes -1..1."""
    return images.astype(np.float32) / np.float32(127.5) - np.float32(1)

"""What the engine must know of the framework under Keras that Keras does not tell."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from convdyno.blueprint.graph import Blueprint
from convdyno.engines.contract import Engine, Session, Trial, Weights
from convdyno.engines.keras.step import KerasSession
from convdyno.errors import Refused

Gradients = Callable[[Any, Any, float], list[Any]]
"""(images, labels, loss scale) -> one gradient for each trainable variable."""
Follow = Callable[[], object]
Step = Callable[[Any, Any], object]
"""(images, labels) -> one update of the weights."""


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """Where a process computes."""

    device: str
    device_name: str
    threads: int
    flags: dict[str, object] = field(default_factory=dict)


class Backend(Engine, Protocol):
    """A framework under Keras, and with that an engine."""

    name: str
    labels: str
    """The type of integers that its cross-entropy does not have to convert."""
    rank: int
    """Its place among others; what is dropped at random differs by it."""

    def open(self, blueprint: Blueprint, trial: Trial, weights: Weights) -> Session:
        """Load a network on a device."""
        return KerasSession(self, blueprint, trial, weights)

    def start(self, trial: Trial) -> DeviceFacts:
        """Give the process its device, threads and arithmetic; `Refused` says what it has."""

    def op_by_op(self) -> AbstractContextManager[object]:
        """Run op by op from here on, where the framework usually compiles."""

    def repeated(self, *batch: Any) -> Any:
        """The same batch again and again, as `fit` and `predict` take it without a copy."""

    def step(self, model: Any) -> Step | None:
        """One step of a rank among others, where Keras's own has no place for the exchange."""

    def gradients(self, model: Any) -> Gradients:
        """What gives the gradients of a model's training loss (without L2), scaled."""

    def average(self, averages: list[Any], variables: list[Any], decay: float) -> Follow:
        """What moves averages towards variables."""

    def wait(self, *results: Any) -> None:
        """Return when the device has finished everything enqueued, of which these are the last."""

    def compilations(self, traces: int) -> int:
        """How many times something has been compiled; `traces` counts calls of the model."""

    def memory_bytes(self) -> int | None:
        """The peak of device memory held."""

    def stream(self, floats: int) -> tuple[Callable[[], object], float]:
        """Work that only moves memory, and how many bytes."""


def no_parts(trial: Trial) -> None:
    """Refuse a batch in parts."""
    if trial.accumulate > 1:
        raise Refused("Keras computes a batch as a whole here: leave --accumulate at 1")

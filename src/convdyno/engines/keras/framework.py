"""Keras, imported on one backend."""

from __future__ import annotations

from contextlib import AbstractContextManager

import keras

from convdyno.blueprint.graph import Blueprint
from convdyno.blueprint.weights import Weights
from convdyno.engines.contract import Session, Trial, World
from convdyno.engines.keras.backend import Backend
from convdyno.engines.keras.step import KerasSession


class KerasEngine:
    """Keras, imported on one backend."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def versions(self) -> dict[str, str]:
        """Versions of Keras and of what does its arithmetic."""
        return {"keras": keras.__version__, **self._backend.versions()}

    def join(self, world: World, trial: Trial) -> None:
        """As the framework under Keras joins."""
        self._backend.join(world, trial)

    def leave(self) -> None:
        """As the framework under Keras leaves."""
        self._backend.leave()

    def open(self, blueprint: Blueprint, trial: Trial, weights: Weights) -> Session:
        """Load a network on a device."""
        return KerasSession(self._backend, blueprint, trial, weights)

    def op_by_op(self) -> AbstractContextManager[object]:
        """Keras's steps are called, not compiled."""
        return self._backend.op_by_op()

    def out_of_memory(self, error: BaseException) -> bool:
        """Whether the memory of the host or the GPU did not suffice."""
        return self._backend.out_of_memory(error)

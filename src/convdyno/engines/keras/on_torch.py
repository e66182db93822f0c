"""Torch as what Keras runs on."""

from __future__ import annotations

import atexit
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any

import keras
import torch

from convdyno.engines.contract import Trial, World
from convdyno.engines.frameworks.torch import OnTorch, device, ranks
from convdyno.engines.keras.backend import Backend, DeviceFacts, Follow, Gradients, Step, no_parts
from convdyno.errors import Refused


class TorchBackend(OnTorch, Backend):
    """Eager torch, or torch.compile where that is asked for."""

    name = "torch"
    labels = "int64"
    rank = 0

    def __init__(self) -> None:
        self._device = torch.device("cpu")
        self._scope = ExitStack()
        self._compiled = False
        self._trial: Trial | None = None
        """Only among other ranks."""

    def op_by_op(self) -> AbstractContextManager[object]:
        return nullcontext()

    def versions(self) -> dict[str, str]:
        return {"keras": keras.__version__, **super().versions()}

    def join(self, world: World, trial: Trial) -> None:
        _check(trial)
        if trial.compile == "on":
            raise Refused(
                "Keras compiles a step as a whole, which cannot be with torch's exchange of "
                "gradients inside: leave --compile at auto"
            )
        ranks.join(world, device.choose(trial.device))
        self._trial, self.rank = trial, world.rank

    def start(self, trial: Trial) -> DeviceFacts:
        _check(trial)
        self._trial = trial if self._trial else None
        self._device = device.choose(trial.device)
        self._compiled = trial.compile == "on"
        threads = device.start(trial, self._device)
        self._scope.close()
        if keras.ops.zeros(()).device != self._device:
            self._scope.enter_context(keras.device(str(self._device)))
            atexit.register(self._scope.close)
        flags: dict[str, object] = {}
        if self._trial:
            wire = "bfloat16" if trial.compress == "bf16" else "float32"
            flags = {"train_step": "DistributedDataParallel", "gradients": wire}
        if self._device.type != "cuda":
            flags["onednn"] = torch.backends.mkldnn.is_available()
        return DeviceFacts(str(self._device), device.name(self._device), threads, flags)

    def repeated(self, *batch: Any) -> Iterator[Any]:
        while True:
            yield batch

    def step(self, model: Any) -> Step | None:
        """Keras's own steps stay; with other ranks the forward pass is DDP's, as its guide says."""
        if self._trial:
            model.train_step = _train_step(model, self._trial, self._device)
        return None

    def gradients(self, model: Any) -> Gradients:
        weights = [variable.value for variable in model.trainable_variables]

        def find(images: Any, labels: Any, scale: float) -> list[Any]:
            loss = model.data_loss(labels, model(images, training=True)) * scale
            return list(torch.autograd.grad(loss, weights, materialize_grads=True))

        return find

    def average(self, averages: list[Any], variables: list[Any], decay: float) -> Follow:
        @torch.no_grad()
        def follow() -> None:
            held, now = ([variable.value for variable in some] for some in (averages, variables))
            torch._foreach_lerp_(held, now, 1 - decay)

        return follow

    def wait(self, *results: Any) -> None:
        device.wait(self._device)

    def compilations(self, traces: int) -> int:
        return device.graphs() if self._compiled else 0

    def memory_bytes(self) -> int | None:
        return device.memory_bytes(self._device)

    def stream(self, floats: int) -> tuple[Callable[[], object], float]:
        return device.stream(self._device, floats)


def _train_step(model: Any, trial: Trial, on: torch.device) -> Callable[[Any], dict[str, Any]]:
    """What `train_on_batch` and `fit` do with a batch, as Keras has it but for DDP."""
    # Statistics and random numbers are each rank's own; weights are loaded by all alike.
    parallel = ranks.parallel(model, trial, on, init_sync=False, static_graph=True)

    def train_step(data: Any) -> dict[str, Any]:
        images, labels = data[:2]
        scores = parallel(images, training=True)
        model.zero_grad()
        loss = model.compute_loss(images, labels, scores, training=True)
        for metric in model.metrics:
            if metric.name == "loss":
                metric.update_state(loss, sample_weight=len(labels))
        model.optimizer.scale_loss(loss).backward()
        weights = model.trainable_weights
        with torch.no_grad():
            model.optimizer.apply([weight.value.grad for weight in weights], weights)
        return {metric.name: metric.result() for metric in model.metrics}

    return train_step


def _check(trial: Trial) -> None:
    ranks.check(trial)
    no_parts(trial)
    if trial.exchange == "horovod" and trial.devices > 1:
        raise Refused("Horovod is used without Keras here: --engine torch, or --exchange default")

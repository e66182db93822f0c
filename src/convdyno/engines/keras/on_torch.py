"""Keras on torch."""

from __future__ import annotations

import atexit
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any

import keras
import torch

from convdyno.engines import processor
from convdyno.engines.contract import Trial, World
from convdyno.engines.keras.backend import Follow, Gradients, Place, Step, pick
from convdyno.errors import Refused

NO_MEMORY = ("can't allocate memory", "out of memory", "not enough memory")


class Backend:
    """Eager torch, or torch.compile where that is asked for."""

    name = "torch"
    labels = "int64"
    nchw_on_cpu = True
    rank = 0

    def __init__(self) -> None:
        self._device = torch.device("cpu")
        self._scope = ExitStack()
        self._compiled = False

    def op_by_op(self) -> AbstractContextManager[object]:
        return nullcontext()

    def versions(self) -> dict[str, str]:
        versions = {"torch": str(torch.__version__)}
        if torch.cuda.is_available():
            versions["cuda"] = str(torch.version.cuda)
            versions["cudnn"] = str(torch.backends.cudnn.version())
        return versions

    def join(self, world: World, trial: Trial) -> None:
        raise Refused("Keras on torch runs on one device here: use --devices 1")

    def leave(self) -> None:
        pass

    def start(self, trial: Trial) -> Place:
        cuda = [f"cuda:{n}" for n in range(torch.cuda.device_count())]
        mps = ["mps"] if torch.backends.mps.is_available() else []
        name = pick("torch", trial.device, [*cuda, *mps, "cpu"])
        self._device = torch.device(name)
        self._compiled = trial.compile == "on"
        if self._compiled and name == "cpu" and not _compiler():
            raise Refused(
                "torch.compile needs a C++ compiler on a CPU: install g++, or --compile off"
            )
        self._scope.close()
        if keras.ops.zeros(()).device != self._device:
            self._scope.enter_context(keras.device(name))
            atexit.register(self._scope.close)
        threads = trial.threads or processor.cores()
        torch.set_num_threads(threads)
        torch.set_float32_matmul_precision("high" if trial.precision == "tf32" else "highest")
        torch.backends.cudnn.allow_tf32 = trial.precision == "tf32"
        torch.backends.cudnn.benchmark = True
        if self._device.type != "cuda":
            flags: dict[str, object] = {"onednn": torch.backends.mkldnn.is_available()}
            return Place(name, processor.name(), threads, flags)
        torch.cuda.set_device(self._device)
        return Place(name, torch.cuda.get_device_name(self._device), threads)

    def batches(self, *batch: Any) -> Iterator[Any]:
        while True:
            yield batch

    def step(self, model: Any) -> Step | None:
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

    def wait(self, variable: Any) -> None:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        elif self._device.type == "mps":
            torch.mps.synchronize()

    def compilations(self, traces: int) -> int:
        if not self._compiled:
            return 0
        from torch._dynamo.utils import counters

        return counters["stats"]["unique_graphs"]

    def memory_bytes(self) -> int | None:
        on_gpu = self._device.type == "cuda"
        return torch.cuda.max_memory_allocated(self._device) if on_gpu else None

    def stream(self, floats: int) -> tuple[Callable[[], object], float]:
        source = torch.zeros(floats, device=self._device)
        target = torch.empty_like(source)
        return lambda: target.copy_(source), 2.0 * source.nbytes

    def out_of_memory(self, error: BaseException) -> bool:
        return isinstance(error, torch.OutOfMemoryError) or (
            isinstance(error, RuntimeError) and any(text in str(error) for text in NO_MEMORY)
        )


def _compiler() -> bool:
    return any(shutil.which(name) for name in (os.environ.get("CXX", ""), "g++", "clang++"))

"""Keras on torch."""

from __future__ import annotations

import atexit
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from datetime import timedelta
from typing import Any

import keras
import torch
from torch import distributed
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel

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
        self._trial: Trial | None = None
        """Only among other ranks."""

    def op_by_op(self) -> AbstractContextManager[object]:
        return nullcontext()

    def versions(self) -> dict[str, str]:
        versions = {"torch": str(torch.__version__)}
        if torch.cuda.is_available():
            versions["cuda"] = str(torch.version.cuda)
            versions["cudnn"] = str(torch.backends.cudnn.version())
        return versions

    def join(self, world: World, trial: Trial) -> None:
        _check(trial)
        if trial.compile == "on":
            raise Refused(
                "Keras compiles a step as a whole, which cannot be with torch's exchange of "
                "gradients inside: leave --compile at auto"
            )
        if world.interface:
            os.environ.setdefault("GLOO_SOCKET_IFNAME", world.interface)
            os.environ.setdefault("NCCL_SOCKET_IFNAME", world.interface)
        # Where torchrun has started everything, torch would look for torchrun's own store there.
        os.environ.pop("TORCHELASTIC_USE_AGENT_STORE", None)
        on_gpu = trial.device != "cpu" and torch.cuda.is_available()
        distributed.init_process_group(
            "nccl" if on_gpu else "gloo",
            init_method=f"tcp://{world.address}:{world.port}",
            rank=world.rank,
            world_size=world.size,
            timeout=timedelta(seconds=world.timeout_seconds),
        )
        self._trial, self.rank = trial, world.rank

    def leave(self) -> None:
        if distributed.is_initialized():
            with suppress(RuntimeError):
                distributed.destroy_process_group()

    def start(self, trial: Trial) -> Place:
        _check(trial)
        self._trial = trial if self._trial else None
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
            flags = self._flags() | {"onednn": torch.backends.mkldnn.is_available()}
            return Place(name, processor.name(), threads, flags)
        torch.cuda.set_device(self._device)
        return Place(name, torch.cuda.get_device_name(self._device), threads, self._flags())

    def batches(self, *batch: Any) -> Iterator[Any]:
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

    def _flags(self) -> dict[str, object]:
        if not self._trial:
            return {}
        gradients = "bfloat16" if self._trial.compress == "bf16" else "float32"
        return {"train_step": "DistributedDataParallel", "gradients": gradients}


def _train_step(model: Any, trial: Trial, on: torch.device) -> Callable[[Any], dict[str, Any]]:
    """What `train_on_batch` and `fit` do with a batch, as Keras has it but for DDP."""
    parallel = DistributedDataParallel(
        model,
        device_ids=[on] if on.type == "cuda" else None,
        # Statistics and random numbers are each rank's own; weights are loaded by all alike.
        init_sync=False,
        bucket_cap_mb=trial.bucket_mb,
        gradient_as_bucket_view=True,
        static_graph=True,
    )
    if trial.compress == "bf16":
        parallel.register_comm_hook(None, _half_wire)

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


def _half_wire(group, bucket):  # type: ignore[no-untyped-def]
    """Gradients in bf16 on the wire; torch's own hook insists on NCCL, and gloo can do it too."""
    return default_hooks._compress_hook(torch.bfloat16, group, bucket)


def _check(trial: Trial) -> None:
    if trial.processes == "host":
        raise Refused("torch has one process for each device: leave --processes at device")
    if trial.accumulate > 1:
        raise Refused("Keras computes a batch as a whole here: leave --accumulate at 1")
    if trial.exchange == "horovod" and trial.devices > 1:
        raise Refused("Horovod is used without Keras here: --engine torch, or --exchange default")


def _compiler() -> bool:
    return any(shutil.which(name) for name in (os.environ.get("CXX", ""), "g++", "clang++"))

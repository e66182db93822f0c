"""A network on a device of torch's, and its steps."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from convdyno.blueprint.graph import Blueprint, is_state
from convdyno.blueprint.weights import Weights, check_weights
from convdyno.engines import contract, cpu
from convdyno.engines.contract import Probe, Session, State, Trial, check_state, seed_after
from convdyno.engines.frameworks.torch import device
from convdyno.engines.torch import data_parallel, lower, probes, settings, weight_layout
from convdyno.engines.torch.update import FUSED, TorchUpdate
from convdyno.engines.torch.variance import RunningVariances

NORMS = (nn.BatchNorm1d, nn.BatchNorm2d)
PRODUCTS = (nn.Conv2d, nn.Linear)
"""What is computed in half precision with kernels in half precision."""


@dataclass(frozen=True, slots=True)
class TorchBatch:
    """A batch on the device."""

    images: torch.Tensor
    labels: torch.Tensor
    count: int


class TorchSession(Session):
    """One set of weights and two generated modules on it: one trains, one is in use.

    In half precision the training module runs under autocast, as torch's users write it; the other
    one has half copies of the kernels, made when they are stale and not in every step. A head's
    matrix product is half like every other; its scores are float32 from there on.
    """

    def __init__(self, blueprint: Blueprint, trial: Trial, weights: Weights) -> None:
        self._device = device.choose(trial.device)
        self.settings = settings.prepare(trial, self._device)
        self.clock = time.perf_counter_ns
        self._trial, self._blueprint = trial, blueprint
        self._random = f"random/torch/{self._device.type}"
        self._half = settings.HALF.get(trial.precision)
        nhwc = self.settings.layout == "nhwc"
        self._memory = torch.channels_last if nhwc else torch.contiguous_format

        owners = lower.owners(blueprint, self._device)
        smoothing = trial.optimiser.label_smoothing
        generate = partial(lower.lower, nhwc=nhwc, half=self._half, smoothing=smoothing)
        move: dict[str, Any] = {"device": self._device, "memory_format": self._memory}
        train: nn.Module = generate(blueprint, owners, training=True).to(**move)
        folds = {} if nhwc else weight_layout.folds(blueprint)
        self._slots = weight_layout.slots(blueprint, owners, folds)
        self._variances = RunningVariances(blueprint, owners)
        if trial.mode == "train":
            self._variances.check(trial.batch // trial.accumulate)

        answer = blueprint.for_inference()
        needed = [node.name for node in answer.nodes if node.name in owners]
        twins = {name: _twin(owners[name], self._half) for name in needed}
        infer: nn.Module = generate(answer, twins, training=False).to(**move)
        self._copies = [
            (copy, master)
            for name, twin in twins.items()
            if isinstance(twin, PRODUCTS) and twin is not owners[name]
            for copy, master in zip(twin.parameters(), owners[name].parameters(), strict=True)
        ]
        self._norms = {n: t for n, t in twins.items() if isinstance(t, NORMS)}
        self._stale = True

        compiled = self.settings.compiled
        self._parallel = data_parallel.ParallelModule(trial, train, self._device)
        self._train: Any = self._parallel.module
        self._plain: Any = train
        if compiled:
            # Around the exchange of gradients, so that torch cuts its graphs where buckets end.
            self._train, self._plain = torch.compile(self._train), torch.compile(train)
        self._infer = torch.compile(infer) if compiled else infer
        self._autocast = (
            torch.autocast(self._device.type, self._half) if self._half else nullcontext()
        )
        self._trainable = {n: s.tensor for n, s in self._slots.items() if not is_state(n)}
        self._update = TorchUpdate(trial, self._slots, self._variances, self._device)
        self.settings.flags["fused_optimiser"] = self._device.type in FUSED
        if trial.precision == "fp16" and trial.mode == "train":
            self.settings.flags["loss_scale"] = trial.loss_scale or "dynamic"
        self._loss = torch.tensor(math.nan)
        self._drops, self._rank = contract.drops(blueprint), data_parallel.rank(trial)
        self.load(weights)

    def place(self, images: NDArray[np.uint8], labels: NDArray[np.int64]) -> TorchBatch:
        pixels = self._to_device(images).permute(0, 3, 1, 2).contiguous(memory_format=self._memory)
        floats = pixels.to(torch.float32).div_(127.5).sub_(1)
        half = floats.to(self._half or torch.float32)
        return TorchBatch(half, self._to_device(labels).clone(), len(labels))

    def train_step(self, batch: TorchBatch) -> None:
        parts = _parts(batch, self._trial.accumulate)
        if parts[0].count != self._variances.images:
            self._variances.prepare(parts[0].count)
            self._update.prepare()
        if self._drops and self._rank is not None:
            # A state is rank 0's: every rank must know from it where its own random numbers stand.
            own = seed_after(self._trial.seed, self._rank)
            torch.manual_seed(seed_after(own, self._update.steps))
        self._stale = True
        self._update.forget_gradients()
        total: torch.Tensor | float = 0.0
        for part in parts[:-1]:
            with self._parallel.silent():
                loss = self._loss_of(part) / len(parts)
                self._update.backward(loss)
            total += loss.detach()
        loss = self._loss_of(parts[-1])
        if len(parts) > 1:
            loss = loss / len(parts)
        self._update(loss)
        self._loss = loss.detach() + total if len(parts) > 1 else loss.detach()

    def infer_step(self, batch: TorchBatch) -> None:
        self._answer(batch)

    def wait(self) -> None:
        device.wait(self._device)

    def loss(self) -> float:
        return self._loss.item()

    def logits(self, batch: TorchBatch) -> NDArray[np.float32]:
        return self._answer(batch).cpu().numpy()

    def gradients(self, batch: TorchBatch) -> Weights:
        tensors = list(self._trainable.values())

        def found(scale: float) -> Weights:
            with self._autocast:
                loss = self._plain(batch.images, batch.labels)
            given = torch.autograd.grad(loss * scale, tensors, materialize_grads=True)
            pairs = zip(self._trainable, given, strict=True)
            return {name: self._slots[name].take(gradient / scale) for name, gradient in pairs}

        with self._undisturbed():
            return contract.unscaled(self._update.scale(), found)

    def weights(self) -> Weights:
        return {
            name: slot.take(
                self._variances.population(name.rpartition("/")[0])
                if name.endswith("/variance")
                else slot.tensor
            )
            for name, slot in self._slots.items()
        }

    def load(self, weights: Weights) -> None:
        check_weights(self._blueprint, weights)
        for name, slot in self._slots.items():
            slot.put(weights[name])
        self._variances.loaded()
        self._update.loaded(weights)
        self._stale = True

    def state(self) -> State:
        state = self._update.state() | self._variances.state()
        if self._drops and self._rank is None:
            state[self._random] = settings.random_state(self._device)
        return state

    def restore(self, state: State) -> None:
        check_state(self._blueprint, self._trial.optimiser, state)
        self._update.restore(state)
        self._variances.restore(state)
        seed = seed_after(self._trial.seed, int(state["updates"]))
        settings.set_random_state(self._device, state.get(self._random), seed)

    def set_rate(self, rate: float) -> None:
        self._update.set_rate(rate)

    def compilations(self) -> int:
        return device.graphs() if self.settings.compiled else 0

    def memory_bytes(self) -> int | None:
        return device.memory_bytes(self._device)

    def probes(self) -> Sequence[Probe]:
        slow = self._device.type == "cpu" and cpu.emulated(self._trial.precision)
        dtype = self._half or torch.float32
        return probes.probes(self._device, dtype, self._memory, slow)

    def _loss_of(self, batch: TorchBatch) -> torch.Tensor:
        with self._autocast:
            loss: torch.Tensor = self._train(batch.images, batch.labels)
        return loss

    def _answer(self, batch: TorchBatch) -> torch.Tensor:
        if self._stale:
            self._refresh()
        with torch.inference_mode():
            return self._infer(batch.images)

    def _refresh(self) -> None:
        """Bring what the module in use has copies of up to date."""
        with torch.no_grad():
            for copied, master in self._copies:
                copied.copy_(master)
            for name, norm in self._norms.items():
                norm.get_buffer("running_var").copy_(self._variances.population(name))
        self._stale = False

    def _to_device(self, array: NDArray) -> torch.Tensor:
        """A tensor there; on a CPU it is the array's own memory."""
        tensor = torch.from_numpy(array if array.flags.writeable else array.copy())
        if self._device.type == "cuda":
            return tensor.pin_memory().to(self._device, non_blocking=True)
        return tensor.to(self._device)

    @contextmanager
    def _undisturbed(self) -> Iterator[None]:
        """Put running statistics and random numbers back as they were."""
        states = [slot.tensor for name, slot in self._slots.items() if is_state(name)]
        before = [state.clone() for state in states]
        gpus = [self._device] if self._device.type == "cuda" else []
        try:
            with torch.random.fork_rng(devices=gpus):
                yield
        finally:
            for state, was in zip(states, before, strict=True):
                state.copy_(was)


def _parts(batch: TorchBatch, count: int) -> list[TorchBatch]:
    """A batch in so many parts, as equal as they can be."""
    if count == 1:
        return [batch]
    pairs = zip(batch.images.tensor_split(count), batch.labels.tensor_split(count), strict=True)
    return [TorchBatch(images, labels, len(labels)) for images, labels in pairs if len(labels)]


def _twin(module: nn.Module, half: torch.dtype | None) -> nn.Module:
    """A module for use on the weights of one for training; what is the same is shared."""
    if isinstance(module, NORMS):
        twin = copy.deepcopy(module).eval()
        twin.weight, twin.bias = module.weight, module.bias
        twin.running_mean = module.running_mean
        return twin
    if half and isinstance(module, PRODUCTS):
        return copy.deepcopy(module).to(half).requires_grad_(False)
    return module

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
from convdyno.engines.contract import Optimiser, Probe, Trial
from convdyno.engines.torch import canonical, device, lower, probes
from convdyno.engines.torch.variance import RunningVariances

ADAM_BETAS, ADAM_EPS = (0.9, 0.999), 1e-8
NORMS = (nn.BatchNorm1d, nn.BatchNorm2d)
FUSED = ("cpu", "cuda", "mps")
"""Devices whose optimisers update all weights in one kernel."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A batch on the device."""

    images: torch.Tensor
    labels: torch.Tensor
    count: int


class TorchSession:
    """One set of weights and two generated modules on it: one trains, one is in use.

    In half precision the training module runs under autocast, as torch's users write it; the other
    one has half copies of the kernels, made when they are stale and not in every step. A head's
    matrix product is half like every other; its scores are float32 from there on.
    """

    def __init__(self, blueprint: Blueprint, trial: Trial, weights: Weights) -> None:
        self._device = device.choose(trial.device)
        self.settings = device.prepare(trial, self._device)
        self.clock = time.perf_counter_ns
        self._trial, self._blueprint = trial, blueprint
        self._half = device.HALF.get(trial.precision)
        nhwc = self.settings.layout == "nhwc"
        self._memory = torch.channels_last if nhwc else torch.contiguous_format

        owners = lower.owners(blueprint, self._device)
        generate = partial(lower.lower, nhwc=nhwc, half=self._half)
        move: dict[str, Any] = {"device": self._device, "memory_format": self._memory}
        train: nn.Module = generate(blueprint, owners, training=True).to(**move)
        self._slots = canonical.slots(blueprint, owners, {} if nhwc else canonical.folds(blueprint))
        self._variances = RunningVariances(blueprint, owners)
        if trial.mode == "train":
            self._variances.check(trial.batch)

        answer = blueprint.for_inference()
        needed = [node.name for node in answer.nodes if node.name in owners]
        twins = {name: _twin(owners[name], self._half) for name in needed}
        infer: nn.Module = generate(answer, twins, training=False).to(**move)
        self._copies = [
            (copy, master)
            for name, twin in twins.items()
            if isinstance(twin, nn.Conv2d | nn.Linear) and twin is not owners[name]
            for copy, master in zip(twin.parameters(), owners[name].parameters(), strict=True)
        ]
        self._norms = {n: t for n, t in twins.items() if isinstance(t, NORMS)}
        self._stale = True

        compiled = self.settings.compiled
        self._train = torch.compile(train) if compiled else train
        self._infer = torch.compile(infer) if compiled else infer
        self._autocast = (
            torch.autocast(self._device.type, self._half) if self._half else nullcontext()
        )
        self._trainable = {n: s.tensor for n, s in self._slots.items() if not is_state(n)}
        self._optimiser = _optimiser(trial.optimiser, self._trainable, self._device)
        self._update = _Update(self._optimiser, trial, self._device)
        self.settings.flags["fused_optimiser"] = self._device.type in FUSED
        if trial.precision == "fp16" and trial.mode == "train":
            self.settings.flags["loss_scale"] = trial.loss_scale or "dynamic"
        self._loss = torch.tensor(math.nan)
        self.load(weights)

    def place(self, images: NDArray[np.uint8], labels: NDArray[np.int64]) -> Placed:
        """Bring a host batch to the device; normalise to [-1, 1] and lay out there."""
        pixels = self._to_device(images).permute(0, 3, 1, 2).contiguous(memory_format=self._memory)
        floats = pixels.to(torch.float32).div_(127.5).sub_(1)
        half = floats.to(self._half or torch.float32)
        return Placed(half, self._to_device(labels).clone(), len(labels))

    def train_step(self, batch: Placed) -> None:
        """Enqueue one update of the weights."""
        if batch.count != self._variances.images:
            self._variances.prepare(batch.count)
            self._update.prepare()
        self._stale = True
        self._optimiser.zero_grad(set_to_none=True)
        with self._autocast:
            loss = self._train(batch.images, batch.labels)
        self._update(loss)
        self._loss = loss.detach()

    def infer_step(self, batch: Placed) -> None:
        """Enqueue one forward pass as in use."""
        self._answer(batch)

    def wait(self) -> None:
        """Return when the device has finished everything enqueued."""
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        elif self._device.type == "mps":
            torch.mps.synchronize()

    def loss(self) -> float:
        """The loss of the latest training step, before its update; NaN before the first."""
        return self._loss.item()

    def logits(self, batch: Placed) -> NDArray[np.float32]:
        """The class scores of the first head as in use, one row an image."""
        return self._answer(batch).cpu().numpy()

    def gradients(self, batch: Placed) -> Weights:
        """The training loss's gradient (without L2) by each trainable weight; changes nothing."""
        tensors = list(self._trainable.values())
        scale = self._update.scale()
        with self._undisturbed():
            while True:
                with self._autocast:
                    loss = self._train(batch.images, batch.labels)
                found = torch.autograd.grad(loss * scale, tensors, materialize_grads=True)
                # As in training with a dynamic loss scale, until nothing overflows.
                if scale <= 1 or all(bool(g.isfinite().all()) for g in found):
                    break
                scale /= 2
        return {
            name: self._slots[name].take(gradient / scale)
            for name, gradient in zip(self._trainable, found, strict=True)
        }

    def weights(self) -> Weights:
        """All weights in canonical names and layouts, float32."""
        return {
            name: slot.take(
                self._variances.population(name.rpartition("/")[0])
                if name.endswith("/variance")
                else slot.tensor
            )
            for name, slot in self._slots.items()
        }

    def load(self, weights: Weights) -> None:
        """Replace all weights."""
        check_weights(self._blueprint, weights)
        for name, slot in self._slots.items():
            slot.put(weights[name])
        self._variances.loaded()
        self._stale = True

    def set_rate(self, rate: float) -> None:
        """The learning rate from the next step on."""
        for group in self._optimiser.param_groups:
            group["lr"] = rate

    def compilations(self) -> int:
        """How many graphs have been compiled so far."""
        if not self.settings.compiled:
            return 0
        from torch._dynamo.utils import counters

        return counters["stats"]["unique_graphs"]

    def memory_bytes(self) -> int | None:
        """The peak of GPU memory held."""
        on_gpu = self._device.type == "cuda"
        return torch.cuda.max_memory_allocated(self._device) if on_gpu else None

    def probes(self) -> Sequence[Probe]:
        """A matrix product, a convolution and a copy at the trial's precision and layout."""
        slow = device.emulated(self._trial.precision, self._device)
        dtype = self._half or torch.float32
        return probes.probes(self._device, dtype, self._memory, slow)

    def _answer(self, batch: Placed) -> torch.Tensor:
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


class _Update:
    """Backward pass and update, with the loss scale that fp16 needs."""

    def __init__(self, optimiser: torch.optim.Optimizer, trial: Trial, on: torch.device) -> None:
        self._optimiser = optimiser
        self._static = trial.loss_scale if isinstance(trial.loss_scale, float) else None
        dynamic = trial.precision == "fp16" and self._static is None
        self._scaler = torch.amp.GradScaler(on.type) if dynamic else None

    def prepare(self) -> None:
        """Start velocities at zero, once.

        torch's fused SGD would take them from uninitialised memory if a dynamic loss scale skips
        the very first step.
        """
        for group in self._optimiser.param_groups:
            if group.get("momentum"):
                for weight in group["params"]:
                    state = self._optimiser.state[weight]
                    state.setdefault("momentum_buffer", torch.zeros_like(weight))

    def __call__(self, loss: torch.Tensor) -> None:
        if self._scaler:
            self._scaler.scale(loss).backward()
            self._scaler.step(self._optimiser)
            self._scaler.update()
            return
        if self._static:
            (loss * self._static).backward()
            groups = self._optimiser.param_groups
            grads = [p.grad for group in groups for p in group["params"] if p.grad is not None]
            torch._foreach_mul_(grads, 1 / self._static)
        else:
            loss.backward()
        self._optimiser.step()

    def scale(self) -> float:
        """What the loss is multiplied by at present."""
        return self._scaler.get_scale() if self._scaler else self._static or 1.0


def _optimiser(
    spec: Optimiser, trainable: dict[str, torch.Tensor], on: torch.device
) -> torch.optim.Optimizer:
    decays = {name: spec.decay_on == "all" or name.endswith("/kernel") for name in trainable}
    groups: list[dict[str, Any]] = [
        {"params": [t for n, t in trainable.items() if decays[n]]},
        {"params": [t for n, t in trainable.items() if not decays[n]], "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    common: dict[str, Any] = {
        "lr": spec.rate,
        "weight_decay": spec.weight_decay,
        "fused": on.type in FUSED,
    }
    if spec.kind == "adam":
        return torch.optim.Adam(groups, betas=ADAM_BETAS, eps=ADAM_EPS, **common)
    nesterov = spec.nesterov and spec.momentum > 0
    return torch.optim.SGD(groups, momentum=spec.momentum, nesterov=nesterov, **common)


def _twin(module: nn.Module, half: torch.dtype | None) -> nn.Module:
    """A module for use on the weights of one for training; what is the same is shared."""
    if isinstance(module, NORMS):
        twin = copy.deepcopy(module).eval()
        twin.weight, twin.bias = module.weight, module.bias
        twin.running_mean = module.running_mean
        return twin
    return copy.deepcopy(module).to(half).requires_grad_(False) if half else module

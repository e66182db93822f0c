"""From a loss to new weights: loss scale, gradients as the rule gets them, rule and average."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from convdyno.blueprint.graph import is_state
from convdyno.blueprint.weights import Weights
from convdyno.engines.contract import State, Trial, decays, memories
from convdyno.engines.torch.data_parallel import Ring
from convdyno.engines.torch.variance import RunningVariances
from convdyno.engines.torch.weight_layout import Slot

ADAM_BETAS = (0.9, 0.999)
FUSED = ("cpu", "cuda", "mps")
"""Devices whose optimisers update all weights in one kernel."""
MEMORIES = {"velocity": "momentum_buffer", "first": "exp_avg", "second": "exp_avg_sq"}
"""What torch calls what an update rule remembers."""

Slots = Mapping[str, Slot]
SHIELDED = ("add_param_group", "zero_grad", "state_dict", "load_state_dict")
"""Methods of optimisers that torch keeps its compiler out of, besides `step`."""


class TorchUpdate:
    """Backward pass and update of all weights, and what they remember."""

    def __init__(
        self, trial: Trial, slots: Slots, variances: RunningVariances, on: torch.device
    ) -> None:
        self._spec = spec = trial.optimiser
        self._device = on
        self._trainable = {n: slot for n, slot in slots.items() if not is_state(n)}
        self._shapes_gradients = spec.clip_norm is not None or spec.larc_eta is not None
        tensors = {name: slot.tensor for name, slot in self._trainable.items()}
        self._optimiser = self._torch_optimiser(eager=trial.compile != "on")
        self._ring = Ring(trial, tensors)
        self._static = trial.loss_scale if isinstance(trial.loss_scale, float) else None
        self._scaler = None
        if trial.precision == "fp16" and self._static is None:
            self._scaler = torch.amp.GradScaler(on.type)
            self._optimiser.register_step_post_hook(self._after_a_scaled_step)
        self._average = None if spec.ema is None else Average(spec.ema, slots, variances)
        self.steps, self._skipped = 0, torch.zeros((), device=on)

    def set_rate(self, rate: float) -> None:
        """The learning rate from the next step on."""
        for group in self._optimiser.param_groups:
            group["lr"] = rate

    def forget_gradients(self) -> None:
        """Those of the step before."""
        self._optimiser.zero_grad(set_to_none=True)

    def prepare(self) -> None:
        """Start velocities at zero, once.

        torch's fused SGD would take them from uninitialised memory if a dynamic loss scale skips
        the very first step.
        """
        if "velocity" in memories(self._spec):
            for slot in self._trainable.values():
                state = self._optimiser.state[slot.tensor]
                state.setdefault("momentum_buffer", torch.zeros_like(slot.tensor))

    def backward(self, loss: torch.Tensor) -> None:
        """Add to the gradients."""
        if self._scaler:
            self._scaler.scale(loss).backward()
        else:
            (loss * self._static if self._static else loss).backward()

    def __call__(self, loss: torch.Tensor) -> None:
        self.steps += 1
        self.backward(loss)
        self._ring.finish()
        if self._scaler:
            if self._shapes_gradients:
                self._scaler.unscale_(self._optimiser)
                self._shape_gradients()
            self._scaler.step(self._optimiser)
            self._scaler.update()
            return
        if self._static:
            torch._foreach_mul_(self._gradients()[1], 1 / self._static)
        if self._shapes_gradients:
            self._shape_gradients()
        self._optimiser.step()
        if self._average:
            self._average.follow()

    def scale(self) -> float:
        """What the loss is multiplied by at present."""
        return self._scaler.get_scale() if self._scaler else self._static or 1.0

    def loaded(self, weights: Weights) -> None:
        """Other weights have been loaded: before the first update they are the average too."""
        if self._average and not self._updates():
            self._average.restore(weights)

    def state(self) -> State:
        """Everything that is remembered, by canonical name."""
        state: State = {"updates": np.array(self._updates(), np.int64)}
        for kind in memories(self._spec):
            for name, slot in self._trainable.items():
                held = self._optimiser.state[slot.tensor].get(MEMORIES[kind])
                state[f"{kind}/{name}"] = slot.take(
                    torch.zeros_like(slot.tensor) if held is None else held
                )
        if self._average:
            state |= {f"average/{name}": array for name, array in self._average.take().items()}
        if self._scaler:
            good_steps = self._scaler.state_dict()["_growth_tracker"]
            state["scale/value"] = np.array(self._scaler.get_scale(), np.float32)
            state["scale/good_steps"] = np.array(good_steps, np.int64)
        return state

    def restore(self, state: State) -> None:
        """Go on from a state."""
        self.steps = int(state["updates"])
        self._skipped.zero_()
        kinds = memories(self._spec)
        for name, slot in self._trainable.items():
            held = {
                MEMORIES[kind]: slot.put(state[f"{kind}/{name}"], torch.empty_like(slot.tensor))
                for kind in kinds
            }
            if self._spec.kind == "adam":
                on = self._device if self._device.type in FUSED else "cpu"
                held["step"] = torch.tensor(float(self.steps), device=on)
            self._optimiser.state[slot.tensor] = held
        if self._average:
            prefix = "average/"
            averages = {n.removeprefix(prefix): a for n, a in state.items() if n.startswith(prefix)}
            self._average.restore(averages)
        if self._scaler and "scale/value" in state:
            here = {
                "scale": float(state["scale/value"]),
                "_growth_tracker": int(state["scale/good_steps"]),
            }
            self._scaler.load_state_dict(self._scaler.state_dict() | here)

    def _updates(self) -> int:
        return self.steps - int(self._skipped)

    def _torch_optimiser(self, *, eager: bool) -> torch.optim.Optimizer:
        spec = self._spec
        tensors = {name: slot.tensor for name, slot in self._trainable.items()}
        decayed = [] if self._shapes_gradients else [n for n in tensors if decays(spec, n)]
        groups: list[dict[str, Any]] = [
            {"params": [tensors[n] for n in decayed]},
            {"params": [t for n, t in tensors.items() if n not in decayed], "weight_decay": 0.0},
        ]
        groups = [group for group in groups if group["params"]]
        common: dict[str, Any] = {
            "lr": spec.rate,
            "weight_decay": spec.weight_decay,
            "fused": self._device.type in FUSED,
        }
        kind: Any = torch.optim.Adam if spec.kind == "adam" else torch.optim.SGD
        if eager:
            kind = _without_compiler(kind)
        if spec.kind == "adam":
            return kind(groups, betas=ADAM_BETAS, eps=spec.epsilon, **common)
        nesterov = spec.nesterov and spec.momentum > 0
        return kind(groups, momentum=spec.momentum, nesterov=nesterov, **common)

    def _gradients(self) -> tuple[list[str], list[torch.Tensor]]:
        """The names of the weights that have a gradient now, and the gradients."""
        found = {n: s.tensor.grad for n, s in self._trainable.items() if s.tensor.grad is not None}
        return list(found), list(found.values())

    @torch.no_grad()
    def _shape_gradients(self) -> None:
        """Add L2, clip all together, and scale one by one."""
        spec, (names, gradients) = self._spec, self._gradients()
        weights = [self._trainable[name].tensor for name in names]
        decayed = [n for n, name in enumerate(names) if decays(spec, name)]
        if decayed and spec.weight_decay:
            torch._foreach_add_(
                [gradients[n] for n in decayed],
                [weights[n] for n in decayed],
                alpha=spec.weight_decay,
            )
        if spec.clip_norm is not None:
            total = torch.stack(torch._foreach_norm(gradients)).norm()
            torch._foreach_mul_(gradients, (spec.clip_norm / total).clamp(max=1))
        if spec.larc_eta is not None:
            w, g = (torch.stack(torch._foreach_norm(some)) for some in (weights, gradients))
            ratio = torch.where((w > 0) & (g > 0), spec.larc_eta * w / g, 1.0)
            if spec.larc_mode == "clip":
                ratio = (ratio / self._optimiser.param_groups[0]["lr"]).clamp(max=1)
            torch._foreach_mul_(gradients, list(ratio))

    def _after_a_scaled_step(self, optimiser: Any, *_: Any) -> None:
        skipped = optimiser.found_inf
        self._skipped += skipped
        if self._average:
            self._average.follow(skipped)


class Average:
    """The exponential moving average of all weights and statistics."""

    def __init__(self, decay: float, slots: Slots, variances: RunningVariances) -> None:
        self._decay, self._slots, self._variances = decay, slots, variances
        self._tensors = {name: torch.empty_like(slot.tensor) for name, slot in slots.items()}

    @torch.no_grad()
    def follow(self, skipped: torch.Tensor | None = None) -> None:
        """Take in the weights after an update, unless the update was skipped."""
        now = {name: slot.tensor for name, slot in self._slots.items()}
        now |= self._variances.populations()
        averages, weights = list(self._tensors.values()), list(now.values())
        if skipped is None:
            torch._foreach_lerp_(averages, weights, 1 - self._decay)
            return
        keep = torch.where(skipped > 0, 1.0, self._decay)
        torch._foreach_mul_(averages, keep)
        torch._foreach_add_(averages, torch._foreach_mul(weights, 1 - keep))

    def take(self) -> Weights:
        """The averages in canonical names and layouts."""
        return {name: slot.take(self._tensors[name]) for name, slot in self._slots.items()}

    @torch.no_grad()
    def restore(self, arrays: Weights) -> None:
        """Go on from these averages."""
        for name, slot in self._slots.items():
            slot.put(arrays[name], self._tensors[name])


def _without_compiler(kind: Any) -> Any:
    """The same optimiser for a process that compiles nothing.

    torch's own imports its compiler to be kept out of it, which takes most of a second.
    """
    plain = {name: inspect.unwrap(getattr(kind, name)) for name in SHIELDED}
    plain["step"] = torch.no_grad()(inspect.unwrap(kind.step))
    return type(kind.__name__, (kind,), plain)

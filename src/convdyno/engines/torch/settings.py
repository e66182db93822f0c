"""Under which switches a trial runs: threads, precision, layout; and its random numbers."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from convdyno.engines import cpu
from convdyno.engines.contract import SessionSettings, Trial
from convdyno.engines.frameworks.torch import device

HALF = {"bf16": torch.bfloat16, "fp16": torch.float16}


def prepare(trial: Trial, on: torch.device) -> SessionSettings:
    """Set the process up for a trial, and say how."""
    kind, threads = on.type, device.start(trial, on)
    torch.manual_seed(trial.seed)
    half = HALF.get(trial.precision)
    flags: dict[str, object] = {"half": str(half).removeprefix("torch.") if half else None}
    if kind == "cpu":
        flags["cpu_capability"] = torch.backends.cpu.get_cpu_capability()
        flags["onednn"] = torch.backends.mkldnn.is_available()
        flags["onednn_max_isa"] = os.environ.get("ONEDNN_MAX_CPU_ISA", "default")
    if kind == "cuda":
        flags["cudnn.benchmark"] = True
        flags["tf32"] = trial.precision == "tf32"
    return SessionSettings(
        device=str(on),
        device_name=device.name(on),
        layout=_layout(trial, kind),
        compiled=trial.compile == "on",
        threads=threads,
        flags=flags,
        warnings=cpu.warnings(kind, trial.precision, threads),
    )


def random_state(device: torch.device) -> NDArray[np.uint8]:
    """Where the random numbers of the device stand."""
    return _random(device).get_rng_state().numpy().copy()


def set_random_state(device: torch.device, state: NDArray[np.uint8] | None, seed: int) -> None:
    """Go on where random numbers stood, or start them from a seed if that is not known."""
    now = random_state(device)
    if state is None or (state.shape, state.dtype) != (now.shape, now.dtype):
        torch.manual_seed(seed)
    else:
        _random(device).set_rng_state(torch.from_numpy(state.copy()))


def _random(device: torch.device) -> Any:
    """What has the random numbers of the device that is used."""
    return {"cuda": torch.cuda, "mps": torch.mps}.get(device.type, torch)


def _layout(trial: Trial, kind: str) -> str:
    """Channels-last is what oneDNN and the tensor cores are fastest with."""
    if trial.layout != "auto":
        return trial.layout
    return "nhwc" if kind == "cpu" or (kind == "cuda" and trial.precision != "fp32") else "nchw"

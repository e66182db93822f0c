"""Where a trial runs and under which switches: device, threads, precision, layout."""

from __future__ import annotations

import os
import shutil
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from convdyno.engines import processor
from convdyno.engines.contract import Settings, Trial
from convdyno.errors import Refused

HALF = {"bf16": torch.bfloat16, "fp16": torch.float16}
NATIVE = {
    "bf16": {"avx512_bf16", "amx_bf16", "bf16"},
    "fp16": {"avx512_fp16", "amx_fp16", "asimdhp"},
}
"""Processor features, as Linux calls them, by which half precision is real arithmetic."""


def choose(wanted: str) -> torch.device:
    """The device of that name, or the best one for "auto"."""
    present = _present()
    names = {"auto": present[0], "cuda": "cuda:0"}
    name = names.get(wanted, wanted)
    if name not in present:
        raise Refused(f"torch has no device {wanted!r} here; it has {', '.join(present)}")
    return torch.device(name)


def prepare(trial: Trial, device: torch.device) -> Settings:
    """Set the process up for a trial, and say how."""
    kind = device.type
    if trial.precision == "tf32" and kind != "cuda":
        raise Refused(
            f"tf32 is arithmetic of NVIDIA GPUs, and this trial runs on {kind}: "
            "use fp32, bf16 or fp16, or a CUDA device"
        )
    if trial.compile == "on" and kind == "cpu" and not _compiler():
        raise Refused("torch.compile needs a C++ compiler on a CPU: install g++, or --compile off")
    threads = trial.threads or processor.cores()
    torch.set_num_threads(threads)
    # These two spellings are understood by every torch since 1.12 and do not conflict.
    torch.set_float32_matmul_precision("high" if trial.precision == "tf32" else "highest")
    torch.backends.cudnn.allow_tf32 = trial.precision == "tf32"
    torch.backends.cudnn.benchmark = True
    if kind == "cuda":
        torch.cuda.set_device(device)
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
    return Settings(
        device=str(device),
        device_name=torch.cuda.get_device_name(device) if kind == "cuda" else processor.name(),
        layout=_layout(trial, kind),
        compiled=trial.compile == "on",
        threads=threads,
        flags=flags,
        warnings=_warnings(trial, kind, threads),
    )


def emulated(precision: str, device: torch.device) -> bool:
    """Whether a CPU only pretends to have a precision."""
    features = processor.features()
    return (
        device.type == "cpu"
        and precision in NATIVE
        and bool(features)
        and not features & NATIVE[precision]
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


def _present() -> list[str]:
    """The devices of this machine, the best one first."""
    cuda = [f"cuda:{n}" for n in range(torch.cuda.device_count())]
    mps = ["mps"] if torch.backends.mps.is_available() else []
    return [*cuda, *mps, "cpu"]


def _layout(trial: Trial, kind: str) -> str:
    """Channels-last is what oneDNN and the tensor cores are fastest with."""
    if trial.layout != "auto":
        return trial.layout
    return "nhwc" if kind == "cpu" or (kind == "cuda" and trial.precision != "fp32") else "nchw"


def _warnings(trial: Trial, kind: str, threads: int) -> tuple[str, ...]:
    warnings = []
    if emulated(trial.precision, torch.device(kind)):
        native = " nor ".join(
            sorted(n for n in NATIVE[trial.precision] if "512" in n or "amx" in n)
        )
        warnings.append(
            f"{trial.precision} is emulated: this CPU has neither {native}; "
            "expect it to be slower than fp32, and measure fp32 beside it"
        )
    if kind == "cpu":
        warnings += processor.crowded(threads)
    return tuple(warnings)


def _compiler() -> bool:
    return any(shutil.which(name) for name in (os.environ.get("CXX", ""), "g++", "clang++"))

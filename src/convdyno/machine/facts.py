"""What the machine is, and what could disturb a measurement on it."""

from __future__ import annotations

import os
import platform
import socket
import subprocess
from pathlib import Path
from typing import Any

import psutil

from convdyno.machine import processor

SPEED_FLAGS = (
    "avx2", "fma", "avx512f", "avx512_vnni", "avx512_bf16", "avx512_fp16",
    "amx_tile", "amx_bf16", "amx_fp16", "asimd", "bf16", "sve",
)  # fmt: skip
"""Instruction sets that decide how fast which precision is."""

SPEED_VARIABLES = (
    "OMP_", "KMP_", "GOMP_", "MKL_", "ONEDNN_", "DNNL_", "OPENBLAS_", "ATEN_", "TORCH", "PYTORCH_",
    "XLA_", "JAX_", "TF_NUM_", "TF_XLA_", "TF_ENABLE_", "TF_GPU_", "TF_FORCE_", "KERAS_BACKEND",
    "CUDA_", "NVIDIA_TF32", "NCCL_", "GLOO_", "GLIBC_TUNABLES", "MALLOC_", "LD_PRELOAD",
)  # fmt: skip
"""Beginnings of environment variables that change speed."""

ALLOCATED = ("SLURM_STEP_GPUS", "SLURM_JOB_GPUS", "SLURM_GPUS_ON_NODE", "SLURM_JOB_GRES")
"""Where Slurm says which GPUs a job was given, the most exact first."""


def machine() -> dict[str, Any]:
    """The machine, as far as it decides speed."""
    return {
        "host": socket.gethostname(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "cpu": processor.name(),
        "architecture": platform.machine(),
        "cores_physical": psutil.cpu_count(logical=False),
        "cores_logical": processor.logical_cores(),
        "cores_usable": processor.core_count(),
        "cpu_flags": [flag for flag in SPEED_FLAGS if flag in processor.features()],
        "memory_bytes": psutil.virtual_memory().total,
        "hypervisor": "hypervisor" in processor.features(),
        "governor": _read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "huge_pages": _chosen(_read("/sys/kernel/mm/transparent_hugepage/enabled")),
        "gpus": gpus(),
        **({"slurm": job} if (job := slurm_job()) else {}),
        "environment": {
            name: value
            for name, value in sorted(os.environ.items())
            if name.startswith(SPEED_VARIABLES)
        },
    }


def free_memory(group: str = "/sys/fs/cgroup") -> int:
    """Bytes that can still be taken: of the machine, and of what its container may use."""
    free: int = psutil.virtual_memory().available
    most, used = _read(f"{group}/memory.max"), _read(f"{group}/memory.current")
    if not (most and used and most.isdigit() and used.isdigit()):
        return free
    # Files that are only held because there was room for them give way.
    held = dict(line.split() for line in (_read(f"{group}/memory.stat") or "").splitlines())
    return max(0, min(free, int(most) - int(used) + int(held.get("inactive_file", 0))))


def visible_gpus(devices: Path = Path("/dev")) -> list[str]:
    """The GPUs of NVIDIA's that this process may use, as `CUDA_VISIBLE_DEVICES` names them."""
    if not (devices / "nvidiactl").exists():
        return []
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return [name for name in visible.split(",") if name]
    return sorted((p.name.removeprefix("nvidia") for p in devices.glob("nvidia[0-9]*")), key=int)


def uses_gpus(device: str) -> bool:
    """Whether trials on such a device run on this machine's GPUs."""
    return device != "cpu" and bool(visible_gpus())


def gpus() -> list[dict[str, str]]:
    """The NVIDIA GPUs, as their driver's tool lists them."""
    fields = "name,memory.total,driver_version,persistence_mode,clocks.max.sm"
    command = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    names = [name.replace(".", "_") for name in fields.split(",")]
    return [
        dict(zip(names, (value.strip() for value in line.split(",")), strict=False))
        for line in done.stdout.strip().splitlines()
    ]


def slurm_job() -> dict[str, str]:
    """The job that this process is part of, if Slurm started it."""
    names = {
        "job": "SLURM_JOB_ID",
        "partition": "SLURM_JOB_PARTITION",
        "nodes": "SLURM_JOB_NODELIST",
    }
    found = {name: os.environ[key] for name, key in names.items() if os.environ.get(key)}
    if "job" not in found:
        return {}
    granted = {"allocated": allocated(), "visible": os.environ.get("CUDA_VISIBLE_DEVICES")}
    return found | {name: value for name, value in granted.items() if value is not None}


def allocated() -> str | None:
    """The GPUs that a batch system gave to the job, in its own words."""
    return next((f"{name}={os.environ[name]}" for name in ALLOCATED if os.environ.get(name)), None)


def disturbances() -> list[str]:
    """What would disturb a measurement on this machine now, each with what to do."""
    found = []
    load, cores = os.getloadavg()[0], processor.logical_cores()
    if load > 0.25 * cores:
        found.append(
            f"the load is {load:.1f} on {cores} cores: other work is running; "
            "end it or expect contaminated blocks"
        )
    governor = _read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    if governor not in (None, "performance"):
        found.append(
            f"the CPU governor is {governor}: clocks will vary; "
            "`cpupower frequency-set -g performance` fixes them"
        )
    if psutil.swap_memory().used > 64 << 20:
        found.append("some memory is swapped out: free memory, or `swapoff -a`")
    if "hypervisor" in processor.features():
        found.append(
            "this is a virtual machine: neighbours may take CPU time (steal), "
            "which is recorded with every block; trust ratios more than absolute figures"
        )
    battery = psutil.sensors_battery() if hasattr(psutil, "sensors_battery") else None
    if battery is not None and not battery.power_plugged:
        found.append("the machine runs on its battery: plug it in")
    return found


def _read(path: str) -> str | None:
    return processor.text_of(path).strip() or None


def _chosen(options: str | None) -> str | None:
    """The bracketed word of a sysfs choice such as `always [madvise] never`."""
    return options.partition("[")[2].partition("]")[0] or options if options else None

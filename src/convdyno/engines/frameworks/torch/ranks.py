"""How torch's processes find each other, and what averages their gradients on the way back."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any

import torch
from torch import distributed, nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel

from convdyno.engines.contract import Trial, World
from convdyno.errors import Refused

INTERFACES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")


def check(trial: Trial) -> None:
    """Refuse what torch has no way for."""
    if trial.processes == "host":
        raise Refused("torch has one process for each device: leave --processes at device")


def join(world: World, on: torch.device) -> None:
    """Form the group of processes, with NCCL between GPUs and gloo between CPUs."""
    if world.interface:
        for name in INTERFACES:
            os.environ.setdefault(name, world.interface)
    # Where torchrun has started everything, torch would look for torchrun's own store there.
    os.environ.pop("TORCHELASTIC_USE_AGENT_STORE", None)
    distributed.init_process_group(
        "nccl" if on.type == "cuda" else "gloo",
        init_method=f"tcp://{world.address}:{world.port}",
        rank=world.rank,
        world_size=world.size,
        timeout=timedelta(seconds=world.timeout_seconds),
    )


def parallel(
    module: nn.Module, trial: Trial, on: torch.device, **more: Any
) -> DistributedDataParallel:
    """A module whose gradients are averaged over all ranks on their way back."""
    wrapped = DistributedDataParallel(
        module,
        device_ids=[on] if on.type == "cuda" else None,
        bucket_cap_mb=trial.bucket_mb,
        gradient_as_bucket_view=True,
        **more,
    )
    if trial.compress == "bf16":
        wrapped.register_comm_hook(None, _half_wire)
    return wrapped


def _half_wire(group, bucket):  # type: ignore[no-untyped-def]
    """Gradients in bf16 on the wire; torch's own hook insists on NCCL, and gloo can do it too."""
    return default_hooks._compress_hook(torch.bfloat16, group, bucket)

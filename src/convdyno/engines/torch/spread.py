"""One network on many ranks: how torch's processes find each other and average gradients."""

from __future__ import annotations

import os
import warnings
from contextlib import AbstractContextManager, nullcontext, suppress
from datetime import timedelta
from typing import Any

import torch
from torch import distributed, nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel

from convdyno.engines.contract import Trial, World
from convdyno.errors import Refused

INTERFACES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")


def join(world: World, trial: Trial, on: torch.device) -> None:
    """Form the group of processes, with NCCL between GPUs and gloo between CPUs."""
    if trial.processes == "host":
        raise Refused("torch has one process for each device: leave --processes at device")
    if trial.exchange == "horovod":
        _start_horovod(world)
        return
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


def leave() -> None:
    """End the group."""
    if distributed.is_initialized():
        with suppress(RuntimeError):
            distributed.destroy_process_group()


def rank(trial: Trial) -> int | None:
    """This process's place among those that it exchanges gradients with; None if it is alone."""
    if distributed.is_initialized():
        return distributed.get_rank()
    together = trial.exchange == "horovod" and trial.devices > 1
    return int(_horovod().rank()) if together else None


class Spread:
    """A training module whose gradients are averaged over all ranks on their way back."""

    def __init__(self, trial: Trial, module: nn.Module, on: torch.device) -> None:
        self._parallel: DistributedDataParallel | None = None
        self.module: Any = module
        if not distributed.is_initialized() or trial.mode != "train":
            return
        with warnings.catch_warnings():
            # `broadcast_buffers` has no successor yet that leaves buffers alone at the start too.
            warnings.simplefilter("ignore", FutureWarning)
            self.module = self._parallel = DistributedDataParallel(
                module,
                device_ids=[on] if on.type == "cuda" else None,
                broadcast_buffers=False,  # Batch-norm statistics are each rank's own.
                bucket_cap_mb=trial.bucket_mb,
                gradient_as_bucket_view=True,
                static_graph=trial.accumulate == 1,
            )
        if trial.compress == "bf16":
            self._parallel.register_comm_hook(None, _half_wire)

    def silent(self) -> AbstractContextManager[object]:
        """Where gradients only add up and nothing is exchanged."""
        return self._parallel.no_sync() if self._parallel else nullcontext()


def _half_wire(group, bucket):  # type: ignore[no-untyped-def]
    """Gradients in bf16 on the wire; torch's own hook insists on NCCL, and gloo can do it too."""
    return default_hooks._compress_hook(torch.bfloat16, group, bucket)


def over_horovod(
    optimiser: torch.optim.Optimizer, trial: Trial, tensors: dict[str, torch.Tensor]
) -> torch.optim.Optimizer:
    """The same optimiser with Horovod's averaging, if the trial asks for it."""
    if trial.exchange != "horovod" or trial.devices == 1:
        return optimiser
    hvd = _horovod()
    wrapped: torch.optim.Optimizer = hvd.DistributedOptimizer(
        optimiser,
        named_parameters=list(tensors.items()),
        compression=hvd.Compression.none,
        backward_passes_per_step=trial.accumulate,
    )
    return wrapped


def _start_horovod(world: World) -> None:
    """Let Horovod's ranks be ours: with its own gloo where nobody else has made them."""
    if world.interface:
        os.environ.setdefault("HOROVOD_GLOO_IFACE", world.interface)
    if "OMPI_COMM_WORLD_RANK" not in os.environ:
        hosts = [peer.rpartition(":")[0] for peer in world.peers]
        where = {
            "RANK": world.rank,
            "SIZE": world.size,
            "LOCAL_RANK": world.local_rank,
            "LOCAL_SIZE": world.local_size,
            "CROSS_RANK": world.rank // world.local_size,
            "CROSS_SIZE": max(1, world.size // world.local_size),
            "HOSTNAME": hosts[world.rank],
            "GLOO_RENDEZVOUS_ADDR": world.address,
            "GLOO_RENDEZVOUS_PORT": world.port,
            "CONTROLLER": "gloo",
            "CPU_OPERATIONS": "gloo",
            "GLOO_TIMEOUT_SECONDS": round(world.timeout_seconds),
        }
        os.environ |= {f"HOROVOD_{name}": str(value) for name, value in where.items()}
        if world.rank == 0:
            _serve_rendezvous(world, hosts)
    _horovod().init()


def _serve_rendezvous(world: World, hosts: list[str]) -> None:
    from horovod.runner.common.util.hosts import get_host_assignments, parse_hosts
    from horovod.runner.http.http_server import RendezvousServer

    slots = {host: hosts.count(host) for host in hosts}
    wanted = parse_hosts(",".join(f"{host}:{count}" for host, count in slots.items()))
    server = RendezvousServer()
    server._port = world.port
    server.start(world.port)
    server.init(get_host_assignments(wanted, world.size))


def _horovod() -> Any:
    try:
        import horovod.torch as hvd
    except ImportError:
        raise Refused(
            "Horovod is not installed: see docs/scaling.md for how to build it, "
            "or use --exchange default"
        ) from None
    return hvd

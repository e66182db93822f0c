"""One network on many ranks: how torch's processes find each other and average gradients."""

from __future__ import annotations

import os
import socket
import threading
import time
import warnings
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

from convdyno.engines.contract import Trial, World
from convdyno.engines.frameworks.torch import ranks
from convdyno.errors import Refused


def join(world: World, trial: Trial, on: torch.device) -> None:
    """Meet the other processes: by torch's own group, or by Horovod."""
    ranks.check(trial)
    if trial.exchange == "horovod":
        _start_horovod(world, trial)
    else:
        ranks.join(world, on)


def rank(trial: Trial) -> int | None:
    """This process's place among those that it exchanges gradients with; None if it is alone."""
    if distributed.is_initialized():
        return distributed.get_rank()
    together = trial.exchange == "horovod" and trial.devices > 1
    return int(_horovod().rank()) if together else None


class ParallelModule:
    """A training module whose gradients are averaged over all ranks on their way back."""

    def __init__(self, trial: Trial, module: nn.Module, on: torch.device) -> None:
        self._parallel: DistributedDataParallel | None = None
        self.module: Any = module
        if not distributed.is_initialized() or trial.mode != "train":
            return
        with warnings.catch_warnings():
            # `broadcast_buffers` has no successor yet that leaves buffers alone at the start too.
            warnings.simplefilter("ignore", FutureWarning)
            self.module = self._parallel = ranks.parallel(
                module,
                trial,
                on,
                broadcast_buffers=False,  # Batch-norm statistics are each rank's own.
                static_graph=trial.accumulate == 1,
            )

    def silent(self) -> AbstractContextManager[object]:
        """Where gradients only add up and nothing is exchanged."""
        return self._parallel.no_sync() if self._parallel else nullcontext()


class Ring:
    """Horovod's averaging: begun for each gradient as soon as there is one.

    Its optimiser is used for that alone. The update stays ours, so that clipping and loss scales
    see averaged gradients.
    """

    def __init__(self, trial: Trial, tensors: dict[str, torch.Tensor]) -> None:
        self._horovod: Any = None
        if trial.exchange == "horovod" and trial.devices > 1:
            hvd = _horovod()
            self._horovod = hvd.DistributedOptimizer(
                torch.optim.SGD(tensors.values(), lr=0.0),
                named_parameters=list(tensors.items()),
                compression=_AsItLies,
                backward_passes_per_step=trial.accumulate,
            )

    def finish(self) -> None:
        """Wait until all gradients are averages."""
        if self._horovod is not None:
            self._horovod.synchronize()


class _AsItLies:
    """Shows Horovod each gradient in the order of its memory: it takes no other."""

    @staticmethod
    def compress(tensor: torch.Tensor) -> tuple[torch.Tensor, bool]:
        """The same numbers, channels last where they lie so."""
        turned = not tensor.is_contiguous()
        return (tensor.permute(0, 2, 3, 1) if turned else tensor), turned

    @staticmethod
    def decompress(tensor: torch.Tensor, turned: bool) -> torch.Tensor:
        """The averaged gradient in its own order again."""
        return tensor.permute(0, 3, 1, 2) if turned else tensor


def _start_horovod(world: World, trial: Trial) -> None:
    """Let Horovod's ranks be ours, whoever made them: with its gloo, which starts each time."""
    if trial.compress != "none":
        raise Refused("Horovod sends gradients as they are: leave --compress at none")
    hvd = _horovod()
    if world.interface:
        os.environ.setdefault("HOROVOD_GLOO_IFACE", world.interface)
    if trial.bucket_mb is not None:
        os.environ["HOROVOD_FUSION_THRESHOLD"] = str(round(trial.bucket_mb * 2**20))
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
    else:
        _await_rendezvous(world)
    hvd.init()


def _serve_rendezvous(world: World, hosts: list[str]) -> None:
    """Horovod's own server, where all meet; it ends with this process."""
    from horovod.runner.common.util.hosts import get_host_assignments, parse_hosts
    from horovod.runner.http.http_server import RendezvousHandler, RendezvousHTTPServer

    slots = {host: hosts.count(host) for host in hosts}
    wanted = parse_hosts(",".join(f"{host}:{count}" for host, count in slots.items()))
    server = RendezvousHTTPServer((world.address, world.port), RendezvousHandler, 0)
    server.init(get_host_assignments(wanted, world.size))
    threading.Thread(target=server.serve_forever, daemon=True).start()


def _await_rendezvous(world: World) -> None:
    """Horovod itself gives up at once."""
    until = time.monotonic() + world.timeout_seconds
    while True:
        try:
            socket.create_connection((world.address, world.port), timeout=1).close()
            return
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)


def _horovod() -> Any:
    try:
        import horovod.torch as hvd
    except ImportError:
        raise Refused(
            "Horovod is not installed: see docs/scaling.md for how to build it, "
            "or use --exchange default"
        ) from None
    return hvd

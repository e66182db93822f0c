"""How JAX's processes find each other, and the mean of what their devices have."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import jax
from jax import lax
from jax import numpy as jnp
from jax.extend.backend import register_backend_factory
from jax.flatten_util import ravel_pytree
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from convdyno.engines.contract import Trial, World
from convdyno.errors import Refused

SAME = PartitionSpec()
"""Everywhere alike."""


def check(trial: Trial) -> None:
    """Refuse what JAX has no way for."""
    if trial.exchange == "horovod" and trial.devices > 1:
        raise Refused("Horovod exchanges torch's gradients: use --exchange default")
    if trial.bucket_mb is not None:
        raise Refused("XLA decides what JAX exchanges at a time: leave --bucket-mb out")


def join(world: World) -> None:
    """Meet the other processes, before JAX looks for its devices."""
    meeting, seconds = f"{world.address}:{world.port}", math.ceil(world.timeout_seconds)
    # The ranks speak to each other directly, whatever proxy the user has for the world outside.
    hosts = {peer.rpartition(":")[0] for peer in world.peers}
    os.environ.setdefault("no_grpc_proxy", ",".join(sorted(hosts)))
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    with suppress(AttributeError):  # Or it would take SIGTERM, which is not meant for JAX.
        jax.config.update("jax_enable_preemption_service", False)
    jax.distributed.initialize(
        meeting,
        world.size,
        world.rank,
        cluster_detection_method="deactivate",
        coordinator_bind_address=meeting,
        initialization_timeout=seconds,
        heartbeat_timeout_seconds=seconds,
        shutdown_timeout_seconds=seconds,
    )
    _be_reached_at(world)


def wire(compress: str) -> str:
    """The type of gradients on their way."""
    return "bfloat16" if compress == "bf16" else "float32"


def averaging(axis: str, count: int, compress: str) -> Callable[[Any], Any]:
    """What gives the mean of gradients over so many devices, inside a program of all of them."""
    if compress == "bf16":
        return partial(_average_in_bf16, axis, count)
    return lambda gradients: lax.pmean(gradients, axis)


def joined(parts: Sequence[jax.Array], mesh: Mesh, spec: PartitionSpec) -> jax.Array:
    """What the devices of this process have, as its part of one array."""
    shape = parts[0].shape
    if spec != SAME:
        shape = (shape[0] * mesh.size, *shape[1:])
    return jax.make_array_from_single_device_arrays(shape, NamedSharding(mesh, spec), list(parts))


def _average_in_bf16(axis: str, count: int, gradients: Any) -> Any:
    """The mean over all devices, in bf16 on the wire.

    XLA sums bf16 in float32 on a CPU and exchanges that; so each device gets its share of all
    gradients as integers, averages it and hands it on.
    """
    flat, restore = ravel_pytree(gradients)
    shares = jnp.pad(_to_bits(flat), (0, -len(flat) % count)).reshape(count, -1)
    mine = _from_bits(lax.all_to_all(shares, axis, 0, 0)).mean(0)
    return restore(_from_bits(lax.all_gather(_to_bits(mine), axis, tiled=True))[: len(flat)])


def _to_bits(array: jax.Array) -> jax.Array:
    return lax.bitcast_convert_type(array.astype(jnp.bfloat16), jnp.uint16)


def _from_bits(array: jax.Array) -> jax.Array:
    return lax.bitcast_convert_type(array, jnp.bfloat16).astype(jnp.float32)


def _be_reached_at(world: World) -> None:
    """Let gloo tell the others the address by which they know this process.

    It would tell the one that the host's name stands for, which is often one of the host alone. JAX
    passes no other on, so its own way to make a CPU's client is followed here; where a version has
    another way, it stays as it is.
    """
    try:
        from jax._src.distributed import global_state
        from jax._src.xla_bridge import make_cpu_client
        from jaxlib._jax import make_gloo_tcp_collectives  # type: ignore[import-not-found]

        known = {"interface": world.interface} if world.interface else {"hostname": world.host}
        collectives = make_gloo_tcp_collectives(
            distributed_client=global_state.client, **known
        )  # fmt: skip
        factory = partial(make_cpu_client, collectives)
        register_backend_factory("cpu", factory, priority=0, fail_quietly=False)
    except (ImportError, AttributeError, TypeError) as missing:
        logging.getLogger(__name__).warning("gloo chooses its address itself: %s", missing)

"""Keras on several devices of JAX, one a process: how they meet, and the step they take together.

`keras.distribution` would compute as if there were one device with the whole batch, and so batch
norm would be over all of it, exchanged in each layer. Here only its mesh and layouts are used: the
step is Keras's train step on each device's own part, with the mean of the gradients before the
update.
"""

from __future__ import annotations

import logging
import math
import os
from contextlib import suppress
from functools import partial
from typing import Any

import jax
import keras
from jax import lax
from jax import numpy as jnp
from jax.extend.backend import register_backend_factory
from jax.flatten_util import ravel_pytree
from jax.sharding import NamedSharding, PartitionSpec

from convdyno.engines.contract import World
from convdyno.engines.keras.backend import Step

SAME = PartitionSpec()
"""Everywhere alike."""


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


def leave() -> None:
    """Part from the other processes; returns when they do too."""
    with suppress(RuntimeError):
        jax.distributed.shutdown()


class Ranks:
    """One device of each process."""

    def __init__(self, own: jax.Device, compress: str) -> None:
        self._own, self._compress = own, compress
        devices = {one.process_index: one for one in reversed(jax.devices(own.platform))}
        names = [f"{devices[n].platform}:{devices[n].id}" for n in sorted(devices)]
        spread = keras.distribution.DataParallel(devices=names)
        self._mesh = spread.device_mesh.backend_mesh
        self._axis = spread.batch_dim_name
        self.flags: dict[str, object] = {
            "loop": "custom",
            "train_step": "shard_map, batch norm over each device's own part",
            "gradients": "bfloat16" if compress == "bf16" else "float32",
        }

    def step(self, model: Any) -> Step:
        """One update of a model's variables, which stay this process's own arrays."""
        model.optimizer.build(model.trainable_variables)
        same = _Held(self, [*model.trainable_variables, *model.optimizer.variables], SAME)
        # Statistics and where random numbers stand: vectors, side by side in one array.
        own_spec = PartitionSpec(self._axis)
        own = _Held(self, model.non_trainable_variables, own_spec)
        latest = model.latest.variables[0]
        program = jax.jit(
            jax.shard_map(
                partial(self._update, model),
                mesh=self._mesh,
                in_specs=(SAME, own_spec, own_spec, own_spec),
                out_specs=(SAME, own_spec, own_spec),
                check_vma=False,
            ),
            donate_argnums=(0, 1),
        )
        batch: list[tuple[Any, Any]] = [(None, None)] * 2

        def step(*given: Any) -> None:
            for n, array in enumerate(given):
                if batch[n][0] is not array:
                    batch[n] = array, self.joined(array, own_spec)
            *after, loss = program(same.take(), own.take(), *(whole for _, whole in batch))
            for held, arrays in zip((same, own), after, strict=True):
                held.put(arrays)
            latest.assign(loss.addressable_data(0).reshape(()))

        return step

    def joined(self, array: jax.Array, spec: PartitionSpec) -> jax.Array:
        """What this process has, as its part of an array of all."""
        shape = array.shape
        if spec != SAME:
            shape = (shape[0] * self._mesh.size, *shape[1:])
        part = jax.device_put(array, self._own)
        return jax.make_array_from_single_device_arrays(
            shape, NamedSharding(self._mesh, spec), [part]
        )

    def _update(self, model: Any, same: Any, own: Any, images: Any, labels: Any) -> Any:
        """Keras's `train_step`, as its guide customises it, on one device's part."""
        count = len(model.trainable_variables)
        weights, memory = same[:count], same[count:]
        fresh = [jnp.zeros(v.shape, v.dtype) for v in model.metrics_variables]
        compute = jax.value_and_grad(model.compute_loss_and_updates, has_aux=True)
        (_, (_, _, own, metrics)), gradients = compute(
            weights, own, fresh, images, labels, None, training=True, optimizer_variables=memory
        )
        if self._compress == "bf16":
            gradients = _average_in_bf16(self._axis, self._mesh.size, gradients)
        else:
            gradients = lax.pmean(gradients, self._axis)
        weights, memory = model.optimizer.stateless_apply(memory, gradients, weights)
        names = [variable.path for variable in model.metrics_variables]
        latest = metrics[names.index(model.latest.variables[0].path)]
        return [*weights, *memory], own, latest[None]


def _average_in_bf16(axis: str, count: int, gradients: list[jax.Array]) -> list[jax.Array]:
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


class _Held:
    """Variables of this process as parts of arrays of all; joined anew only if they changed."""

    def __init__(self, ranks: Ranks, variables: list[Any], spec: PartitionSpec) -> None:
        self._ranks, self._variables, self._spec = ranks, variables, spec
        self._known: list[tuple[Any, Any]] = [(None, None)] * len(variables)

    def take(self) -> list[jax.Array]:
        """The arrays of all."""
        return [
            whole if variable.value is part else self._ranks.joined(variable.value, self._spec)
            for variable, (part, whole) in zip(self._variables, self._known, strict=True)
        ]

    def put(self, arrays: list[jax.Array]) -> None:
        """Let the variables be this process's parts of new arrays."""
        for n, (variable, whole) in enumerate(zip(self._variables, arrays, strict=True)):
            variable.assign(whole.addressable_data(0))
            self._known[n] = variable.value, whole


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

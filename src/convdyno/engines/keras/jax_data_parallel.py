"""Keras on several devices of JAX, one a process: how they meet, and the step they take together.

`keras.distribution` would compute as if there were one device with the whole batch, and so batch
norm would be over all of it, exchanged in each layer. Here only its mesh and layouts are used: the
step is Keras's train step on each device's own part, with the mean of the gradients before the
update.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import keras
from jax import numpy as jnp
from jax.sharding import PartitionSpec

from convdyno.engines.frameworks.jax import ranks
from convdyno.engines.frameworks.jax.ranks import SAME
from convdyno.engines.keras.backend import Step


class JaxMesh:
    """One device of each process."""

    def __init__(self, own: jax.Device, compress: str) -> None:
        self._own = own
        devices = {one.process_index: one for one in reversed(jax.devices(own.platform))}
        names = [f"{devices[n].platform}:{devices[n].id}" for n in sorted(devices)]
        layout = keras.distribution.DataParallel(devices=names)
        self._mesh = layout.device_mesh.backend_mesh
        self._axis = layout.batch_dim_name
        self._average = ranks.averaging(self._axis, self._mesh.size, compress)
        self.flags: dict[str, object] = {
            "loop": "custom",
            "train_step": "shard_map, batch norm over each device's own part",
            "gradients": ranks.wire(compress),
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
        return ranks.joined([jax.device_put(array, self._own)], self._mesh, spec)

    def _update(self, model: Any, same: Any, own: Any, images: Any, labels: Any) -> Any:
        """Keras's `train_step`, as its guide customises it, on one device's part."""
        count = len(model.trainable_variables)
        weights, memory = same[:count], same[count:]
        fresh = [jnp.zeros(v.shape, v.dtype) for v in model.metrics_variables]
        compute = jax.value_and_grad(model.compute_loss_and_updates, has_aux=True)
        (_, (_, _, own, metrics)), gradients = compute(
            weights, own, fresh, images, labels, None, training=True, optimizer_variables=memory
        )
        gradients = self._average(gradients)
        weights, memory = model.optimizer.stateless_apply(memory, gradients, weights)
        names = [variable.path for variable in model.metrics_variables]
        latest = metrics[names.index(model.latest.variables[0].path)]
        return [*weights, *memory], own, latest[None]


class _Held:
    """Variables of this process as parts of arrays of all; joined anew only if they changed."""

    def __init__(self, ranks: JaxMesh, variables: list[Any], spec: PartitionSpec) -> None:
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

"""One network on many devices: how JAX's processes find each other, and which device has what.

With several devices a step is one program on all of them. Weights and what the update rule
remembers are the same everywhere; a batch lies in parts, one a device, and so do running
statistics, which are each device's own: side by side they are one array.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax import Array, lax
from jax.sharding import Mesh, PartitionSpec

from convdyno.blueprint.graph import is_state
from convdyno.engines.contract import Trial
from convdyno.engines.frameworks.jax import device, ranks
from convdyno.engines.frameworks.jax.ranks import SAME
from convdyno.engines.jax.compiled import Exchange, State, Step
from convdyno.engines.jax.lower import Arrays
from convdyno.errors import Refused

AXIS = "devices"
OWN = PartitionSpec(AXIS)
"""Side by side along the first axis."""
PATIENCE = "--xla_cpu_collective_call_terminate_timeout_seconds=3600"


def check(trial: Trial) -> None:
    """Refuse what JAX has no way for."""
    ranks.check(trial)
    if trial.processes == "host" and trial.exchange == "independent":
        raise Refused(
            "devices of one process run one program together: "
            "for --exchange independent leave --processes at device"
        )


def host_devices(trial: Trial) -> int:
    """How many devices a trial wants in one process; a CPU is so many from now on."""
    wanted = trial.devices // trial.hosts if trial.processes == "host" else 1
    if wanted == 1:
        return 1
    try:
        jax.config.update("jax_num_cpu_devices", wanted)
    except RuntimeError:
        raise Refused(
            "JAX already runs in this process with other devices: start a new process"
        ) from None
    # Devices that share cores reach an exchange at different times; nobody can be lost here.
    flags = os.environ.get("XLA_FLAGS", "")
    if PATIENCE not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} {PATIENCE}".strip()
    return wanted


def over(trial: Trial, first: jax.Device) -> Alone | Together:
    """Where a trial's session runs: on the device that was chosen, or on others as well."""
    local = jax.local_devices(backend=first.platform)
    if trial.processes == "host":
        wanted = trial.devices // trial.hosts
        if len(local) != wanted:
            raise Refused(
                f"JAX has {len(local)} {first.platform} devices in this process, "
                f"and {wanted} were asked for"
            )
        everybody = jax.devices(first.platform) if trial.mode == "train" else local
    elif jax.process_count() > 1:
        place = local.index(first)
        present: dict[int, list[jax.Device]] = {}
        for one in jax.devices(first.platform):
            present.setdefault(one.process_index, []).append(one)
        everybody = [devices[place] for devices in present.values()]
    else:
        everybody = [first]
    return Together(everybody, trial.compress) if len(everybody) > 1 else Alone(first)


class Alone:
    """One device that has everything."""

    def __init__(self, first: jax.Device) -> None:
        self._device = first
        self.exchange: Exchange | None = None
        self.facts: dict[str, object] = {}

    def compiled(self, step: Step) -> Any:
        """A training step as one program that hands its memory on."""
        return jax.jit(step, donate_argnums=0)

    def share(self, tree: Any) -> Any:
        """Host arrays on the device, in memory of their own.

        JAX takes the memory of an array as it is if its address suits, whatever `may_alias` says,
        and otherwise copies it in its own time; the caller may fill it anew at once.
        """
        return jax.device_put(jax.tree.map(device.private_copy, tree), self._device)

    def keep(self, arrays: Any) -> Any:
        """Host arrays of which each device goes on with a copy of its own."""
        return self.share(arrays)

    def place(self, array: np.ndarray, convert: Callable[[Any], Array]) -> Array:
        """A host batch, converted there."""
        return convert(self.share(array))

    def parts(self, array: Array) -> Sequence[Array]:
        """A batch as the devices of this process have it."""
        return (array,)

    def copies(self, arrays: Arrays) -> Sequence[Arrays]:
        """Weights as the devices of this process have them; statistics are the first one's."""
        return (arrays,)

    def first(self, tree: Any) -> Any:
        """What the first device of this process has."""
        return tree

    def loss(self, loss: Array) -> float:
        """The mean over the devices of this process."""
        return float(loss)


class Together:
    """Several devices, of this process or of many, with the methods of `Alone`."""

    def __init__(self, devices: Sequence[jax.Device], compress: str) -> None:
        self._mesh = Mesh(np.array(devices), AXIS)
        self._local = [one for one in devices if one.process_index == jax.process_index()]
        self.exchange = Exchange(ranks.averaging(AXIS, len(devices), compress), _own_key)
        self.facts = {
            "devices": len(devices),
            "processes": len({one.process_index for one in devices}),
            "gradients": ranks.wire(compress),
        }

    def compiled(self, step: Step) -> Any:
        """A training step as one program on all devices, each with its own part of the batch."""

        def part(*given: Any) -> tuple[State, Array]:
            after, loss = step(*given)
            return after, loss[None]

        def whole(state: State, images: Any, labels: Any, rate: Any) -> Any:
            layout = _layout(state)
            run = jax.shard_map(
                part,
                mesh=self._mesh,
                in_specs=(layout, OWN, OWN, SAME),
                out_specs=(layout, OWN),
                check_vma=False,  # Or gradients by what all have alike would be summed unasked.
            )
            return run(state, images, labels, rate)

        return jax.jit(whole, donate_argnums=0)

    def share(self, tree: Any) -> Any:
        """Host arrays that every device has."""
        return jax.tree.map(lambda array: self._joined(self._copies(array), SAME), tree)

    def keep(self, arrays: Any) -> Any:
        return jax.tree.map(lambda array: self._joined(self._copies(array), OWN), arrays)

    def place(self, array: np.ndarray, convert: Callable[[Any], Array]) -> Array:
        """A host batch of this process, in equal parts; on one device where that cannot be."""
        even = len(array) % len(self._local) == 0
        devices = self._local if even else self._local[:1]
        parts = [
            convert(jax.device_put(device.private_copy(part), one))
            for part, one in zip(np.split(array, len(devices)), devices, strict=True)
        ]
        return self._joined(parts, OWN) if even else parts[0]

    def parts(self, array: Array) -> Sequence[Array]:
        return [shard.data for shard in array.addressable_shards]

    def copies(self, arrays: Arrays) -> Sequence[Arrays]:
        return [
            {
                name: jax.device_put(array.addressable_data(0), one)
                if is_state(name)
                else array.addressable_shards[n].data
                for name, array in arrays.items()
            }
            for n, one in enumerate(self._local)
        ]

    def first(self, tree: Any) -> Any:
        return jax.tree.map(lambda array: array.addressable_data(0), tree)

    def loss(self, loss: Array) -> float:
        return float(np.mean([np.array(shard.data) for shard in loss.addressable_shards]))

    def _copies(self, array: np.ndarray) -> list[Array]:
        return [jax.device_put(device.private_copy(array), one) for one in self._local]

    def _joined(self, parts: list[Array], spec: PartitionSpec) -> Array:
        return ranks.joined(parts, self._mesh, spec)


def _layout(state: State) -> State:
    """Which of a state's arrays are each device's own."""
    average: Any = SAME
    if state.average is not None:
        average = {name: OWN if is_state(name) else SAME for name in state.average}
    return State(SAME, OWN, SAME, SAME, SAME, SAME, average)  # type: ignore[arg-type]


def _own_key(key: Array) -> Array:
    return jax.random.fold_in(key, lax.axis_index(AXIS))

"""One of two ranks as users write them by hand, told over a socket how many steps to take.

    torchrun --nproc-per-node 2 benchmarks/peer_ranks.py torch NETWORK BATCH PORT
    RANK=0 WORLD_SIZE=2 MASTER_PORT=... python benchmarks/peer_ranks.py jax NETWORK BATCH PORT

Each rank has one core, as ours do; it says how many seconds its steps took.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Callable
from typing import Any

from convdyno.data.synthetic import synthetic_batch
from convdyno.engines.contract import normalise
from convdyno.zoo.registry import build

Run = Callable[[int], None]
"""So many steps, and one wait at the end."""


def torch_run(network: str, images: Any, labels: Any) -> Run:
    """DistributedDataParallel around a network written by hand."""
    import peer_torch
    import torch
    from torch.nn.parallel import DistributedDataParallel

    torch.distributed.init_process_group("gloo")
    torch.set_num_threads(1)
    models = {"deepmnist": peer_torch.DeepMnist, "resnet50-v1.5": peer_torch.ResNet50}
    model = DistributedDataParallel(
        models[network]().to(memory_format=torch.channels_last),
        broadcast_buffers=False,
        gradient_as_bucket_view=True,
        static_graph=True,
    )
    step = peer_torch.bare_step(
        model,
        torch.from_numpy(images).permute(0, 3, 1, 2),
        torch.from_numpy(labels),
        precision="fp32",
        channels_last=True,
        adam=network == "deepmnist",
    )

    def run(steps: int) -> None:
        for _ in range(steps):
            step()

    return run


def jax_run(network: str, images: Any, labels: Any) -> Run:
    """One jitted step on a mesh of both processes' devices: flax, optax and shard_map."""
    import jax
    import jax.numpy as jnp
    import optax
    import peer_jax
    from jax.sharding import PartitionSpec as P

    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    jax.distributed.initialize(f"127.0.0.1:{os.environ['MASTER_PORT']}", size, rank)
    mesh = jax.make_mesh((size,), ("data",))
    model, rule = peer_jax.RANKS[network]
    variables = jax.jit(lambda x: model.init({"params": jax.random.key(0)}, x, False))(images)
    state = variables["params"], variables.get("batch_stats", {}), rule.init(variables["params"])

    def part(state: Any, count: Any, x: jax.Array, y: jax.Array) -> Any:
        params, stats, memory = state
        key = jax.random.fold_in(jax.random.key(1), count * size + jax.lax.axis_index("data"))

        def loss(params: Any) -> Any:
            scores, new = model.apply(
                {"params": params, "batch_stats": stats},
                x,
                True,
                mutable=["batch_stats"],
                rngs={"dropout": key},
            )
            losses = optax.softmax_cross_entropy_with_integer_labels(scores, y)
            return losses.mean(), new.get("batch_stats", {})

        (value, stats), gradients = jax.value_and_grad(loss, has_aux=True)(params)
        updates, memory = rule.update(jax.lax.pmean(gradients, "data"), memory, params)
        return (optax.apply_updates(params, updates), stats, memory), count + 1, value[None]

    whole = jax.shard_map(
        part,
        mesh=mesh,
        in_specs=(P(), P(), P("data"), P("data")),
        out_specs=(P(), P(), P("data")),
        check_vma=False,
    )
    train = jax.jit(whole, donate_argnums=(0, 1))
    everywhere, apart = (jax.sharding.NamedSharding(mesh, spec) for spec in (P(), P("data")))
    held = jax.device_put((state, jnp.int32(0)), everywhere)
    batch = [jax.make_array_from_process_local_data(apart, array) for array in (images, labels)]
    kept = [*held]

    def run(steps: int) -> None:
        for _ in range(steps):
            kept[0], kept[1], value = train(*kept, *batch)
        value.block_until_ready()

    return run


def main(framework: str, network: str, batch: str, port: str) -> None:
    """Steps whenever they are asked for."""
    rank = int(os.environ["RANK"])
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[rank % len(cores)]})
    blueprint = build(network)
    host = synthetic_batch(blueprint.image, blueprint.classes, int(batch), rank)
    make = {"torch": torch_run, "jax": jax_run}[framework]
    run = make(network, normalise(host[0]), host[1])
    run(1)
    with socket.create_connection(("127.0.0.1", int(port))) as line:
        asked = line.makefile("r")
        line.sendall(b"ready\n")
        for steps in map(int, asked):
            start = time.perf_counter()
            run(steps)
            line.sendall(f"{time.perf_counter() - start!r}\n".encode())


if __name__ == "__main__":
    main(*sys.argv[1:])

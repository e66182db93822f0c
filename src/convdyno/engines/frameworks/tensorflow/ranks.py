"""How TensorFlow's processes find each other and average gradients."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import context

from convdyno.engines.contract import Trial, World
from convdyno.errors import Refused

JOB = "worker"
NO_PROXY = "no_grpc_proxy"
"""What gRPC reads."""


class WorkerStrategy:
    """All ranks of a world as one MultiWorkerMirroredStrategy, of which each has one device.

    Variables are not the strategy's: they start alike everywhere, what changes them is the same
    everywhere, and batch-norm statistics are each rank's own.
    """

    def __init__(self, world: World, on_gpu: bool) -> None:
        self.rank, self._size = world.rank, world.size
        os.environ["TF_CONFIG"] = json.dumps(
            {"cluster": {JOB: world.peers}, "task": {"type": JOB, "index": world.rank}}
        )
        _speak_directly(world)
        _watch_each_other(world)
        self._kind = "NCCL" if on_gpu else "RING"
        # Without `timeout_seconds`: TensorFlow lets two threads sleep that long in every step.
        options = tf.distribute.experimental.CommunicationOptions(implementation=self._kind)
        self._strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)

    def flags(self, trial: Trial) -> dict[str, object]:
        """How a trial's gradients are exchanged."""
        return {
            "collectives": self._kind.lower(),
            "bytes_per_pack": _bytes_per_pack(trial),
            "gradients": _wire(trial).name,
        }

    def averaging(self, trial: Trial) -> Callable[[Any], Any]:
        """What gives the mean over all ranks, of any structure of gradients, in a traced step."""
        wire, size = _wire(trial), self._size
        options = tf.distribute.experimental.CommunicationOptions(_bytes_per_pack(trial))

        def exchange(gradients: Any) -> Any:
            # All in one place, which only ops made here tell: else each is exchanged by itself.
            own = tf.nest.map_structure(lambda g: tf.identity(tf.cast(g, wire)), gradients)
            ranks = tf.distribute.get_replica_context()
            total = ranks.all_reduce(tf.distribute.ReduceOp.SUM, own, options)
            return tf.nest.map_structure(lambda g: tf.cast(g, tf.float32) / size, total)

        return lambda gradients: self._strategy.run(exchange, args=(gradients,))


def check(trial: Trial, on_gpu: bool) -> None:
    """Refuse what TensorFlow has no way for."""
    if trial.compress == "bf16" and on_gpu and trial.devices > 1:
        raise Refused(
            "TensorFlow's collectives have no bf16 between GPUs: leave --compress at none"
        )
    if trial.processes == "host":
        raise Refused("TensorFlow has one process for each device: leave --processes at device")
    if trial.exchange == "horovod" and trial.devices > 1:
        raise Refused("Horovod is used with torch here: --engine torch, or --exchange default")


def _wire(trial: Trial) -> tf.DType:
    return tf.bfloat16 if trial.compress == "bf16" else tf.float32


def _bytes_per_pack(trial: Trial) -> int:
    """What is exchanged at a time; 0 is everything at once."""
    return round((trial.bucket_mb or 0) * (1 << 20))


def _speak_directly(world: World) -> None:
    """Not by the proxy that the user may have for the world outside."""
    hosts = {peer.rpartition(":")[0] for peer in world.peers}
    hosts |= set(filter(None, os.environ.get(NO_PROXY, "").split(",")))
    os.environ[NO_PROXY] = ",".join(sorted(hosts))


def _watch_each_other(world: World) -> None:
    """Who does not answer for so long is lost; the strategy's own choice would be ten seconds."""
    patience = round(world.timeout_seconds * 1000)
    jobs = [context.coordination_config_pb2.CoordinatedJob(name=JOB, num_tasks=world.size)]
    context.context().configure_coordination_service(
        service_type="standalone",
        service_leader=f"/job:{JOB}/replica:0/task:0",
        cluster_register_timeout_in_ms=patience,
        heartbeat_timeout_in_ms=patience,
        coordinated_jobs=jobs,
    )

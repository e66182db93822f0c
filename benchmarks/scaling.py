"""Two ranks of ours against two ranks written by hand: torchrun with DDP, and a script of JAX's.

Both pairs are alive at once and are measured in turns (ABBA); whoever's turn it is not, waits for a
line. A block is as long as its slower rank's.

    python benchmarks/scaling.py [--engine torch,jax] [--network deepmnist] [--batch 50]
                                 [--seconds 120]
"""

from __future__ import annotations

import argparse
import math
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import numpy as np
from side_by_side import BLOCK_SECONDS, Ratio

from convdyno.launch.local import Here
from convdyno.rendezvous import reserve
from convdyno.stats import t_distribution
from convdyno.trial.spec import make_trial
from convdyno.zoo.registry import find

PEER = Path(__file__).with_name("peer_ranks.py")
PATIENCE_SECONDS = 600.0
Rate = Callable[[], float]
"""Steps a second in one block."""


def our_rate(engine: str, network: str, batch: int, kept: ExitStack) -> Rate:
    """Two ranks as `convdyno bench --devices 2` runs them."""
    adam = find(network).optimiser == "adam"
    trial = make_trial(
        network=network,
        engine=engine,
        batch=batch,
        devices=2,
        cores=1,
        device="cpu",
        optimiser={"kind": "adam", "rate": 1e-4} if adam else {"rate": 1e-3},
    )
    crew = Here().start(trial, 60.0)
    kept.callback(crew.end)
    crew.ask("open", trial=trial.model_dump(mode="json"), silence=PATIENCE_SECONDS)
    crew.ask("warm", seconds=10.0, silence=PATIENCE_SECONDS)

    def rate() -> float:
        answer = crew.ask("measure", turn=0, blocks=1, silence=PATIENCE_SECONDS)
        blocks = answer["blocks"]
        return float(sum(b["steps"] for b in blocks) / sum(b["seconds"] for b in blocks))

    return rate


def bare_rate(engine: str, network: str, batch: int, kept: ExitStack) -> Rate:
    """Two ranks of `peer_ranks.py`."""
    server = kept.enter_context(socket.create_server(("127.0.0.1", 0)))
    server.settimeout(PATIENCE_SECONDS)
    meeting = kept.enter_context(reserve()).getsockname()[1]
    words = [str(PEER), engine, network, str(batch), str(server.getsockname()[1])]
    common = os.environ | {"PYTHONWARNINGS": "ignore"}
    if engine == "torch":
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
        command = [*torchrun, "--master-port", str(meeting), *words]
        started = [subprocess.Popen(command, env=common)]
    else:
        common |= {"WORLD_SIZE": "2", "MASTER_PORT": str(meeting), "NPROC": "1"}
        started = [
            subprocess.Popen([sys.executable, *words], env=common | {"RANK": str(rank)})
            for rank in range(2)
        ]
    for process in started:
        kept.callback(end, process)
    lines = [kept.enter_context(server.accept()[0]) for _ in range(2)]
    for line in lines:
        kept.callback(line.shutdown, socket.SHUT_RDWR)
    answers = [line.makefile("r") for line in lines]
    for answer in answers:
        assert answer.readline() == "ready\n"

    def seconds(steps: int) -> float:
        for line in lines:
            line.sendall(f"{steps}\n".encode())
        return max(float(answer.readline()) for answer in answers)

    single = min(seconds(3) / 3 for _ in range(3))
    steps = max(1, math.ceil(BLOCK_SECONDS / single))
    return lambda: steps / seconds(steps)


def end(process: subprocess.Popen[bytes]) -> None:
    """Wait for a process whose line is closed."""
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def compare(engine: str, network: str, batch: int, limit: float) -> Ratio:
    """The ratio of rates over alternations."""
    with ExitStack() as kept:
        ours = our_rate(engine, network, batch, kept)
        bare = bare_rate(engine, network, batch, kept)
        logs: list[float] = []
        end = time.perf_counter() + limit
        while time.perf_counter() < end or len(logs) < 3:
            a1, b1, b2, a2 = (rate() for rate in (ours, bare, bare, ours))
            logs.append(math.log(a1 * a2 / (b1 * b2)) / 2)
    mean, error = float(np.mean(logs)), float(np.std(logs, ddof=1)) / math.sqrt(len(logs))
    reach = t_distribution.quantile(0.975, len(logs) - 1) * error
    return Ratio(math.exp(mean), math.exp(mean - reach), math.exp(mean + reach), len(logs))


def main() -> None:
    """Race every engine."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--engine", default="torch,jax")
    parser.add_argument("--network", default="deepmnist", choices=("deepmnist", "resnet50-v1.5"))
    parser.add_argument("--batch", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=120.0)
    given = parser.parse_args()
    for engine in given.engine.split(","):
        ratio = compare(engine, given.network, given.batch, given.seconds)
        what = f"{engine} {given.network} batch {given.batch}, 2 ranks of one core"
        print(f"{what}, ours / by hand: {ratio}", flush=True)


if __name__ == "__main__":
    main()

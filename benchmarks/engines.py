"""Each engine against the best hand-written loop in its framework, ResNet-50 v1.5, one run each.

Each framework is raced in a process of its own; ours and the peer alternate (ABBA) there.

    python benchmarks/engines.py [--engine jax,tensorflow] [--batch 8] [--seconds 60]
"""

from __future__ import annotations

import argparse
import importlib
import subprocess
import sys

import numpy as np
from side_by_side import race

from convdyno.blueprint.weights import initial_weights
from convdyno.data.synthetic import synthetic_batch
from convdyno.engines import registry
from convdyno.engines.contract import normalise
from convdyno.trial.spec import make_trial
from convdyno.zoo.registry import build

NETWORK = "resnet50-v1.5"


def compare(engine: str, precision: str, batch: int, seconds: float, kernels: str) -> None:
    """Race our engine against its peer, or our tuned kernels against our native ones."""
    blueprint = build(NETWORK)
    host = synthetic_batch(blueprint.image, blueprint.classes, batch, 0)

    def ours(kind: str) -> object:
        trial = make_trial(
            network=NETWORK, engine=engine, batch=batch, precision=precision, kernels=kind
        )
        session = registry.load(engine).open(blueprint, trial, initial_weights(blueprint))
        placed = session.place(*host)

        def step() -> None:
            session.train_step(placed)
            session.wait()

        return step

    if kernels == "tuned":
        pair, what = (ours("tuned"), ours("native")), "tuned / native"
    else:
        first = ours("native")
        peer = importlib.import_module(f"peer_{engine.partition('/')[0]}")
        pixels, labels = normalise(host[0]), host[1].astype(np.int64)
        pair, what = (first, peer.bare_step(pixels, labels, precision)), "ours / hand-written"
    print(f"{engine} {precision} batch {batch}, {what}: {race(*pair, seconds)}", flush=True)  # type: ignore[arg-type]


def main() -> None:
    """Race every engine and precision, each in a fresh process."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--engine", default="jax,tensorflow,keras/torch,keras/jax,keras/tensorflow")
    parser.add_argument("--precision", default="fp32,bf16")
    parser.add_argument("--kernels", default="native")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=60.0)
    given = parser.parse_args()
    cells = [(e, p) for e in given.engine.split(",") for p in given.precision.split(",")]
    if len(cells) == 1:
        compare(*cells[0], given.batch, given.seconds, given.kernels)
        return
    for engine, precision in cells:
        subprocess.run(
            [sys.executable, __file__, "--engine", engine, "--precision", precision, "--kernels",
             given.kernels, "--batch", str(given.batch), "--seconds", str(given.seconds)],
            check=False,
        )  # fmt: skip


if __name__ == "__main__":
    main()

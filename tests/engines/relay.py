"""One leg of training that goes on from process to process: `relay.py ENGINE FOLDER FROM TO STEPS`.

Each way to train has a file of weights and state in the folder, before the leg and after it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from miniatures import dropping, host_batch, lively_weights, small
from sameness import SPECS

from convdyno.engines import registry
from convdyno.engines.contract import Trial

WAYS = {
    "sgd": (small, SPECS["all together"]),
    "adam": (small, SPECS["all with adam"]),
    "dropout": (dropping, SPECS["average"]),
}


def main(engine: str, folder: str, start: str, end: str, steps: str) -> None:
    """Train each network some steps, from a file or from the beginning."""
    for way, (build, spec) in WAYS.items():
        if engine == "reference" and way == "dropout":
            continue
        blueprint = build()
        trial = Trial(network=way, engine=engine, batch=4, device="cpu", optimiser=spec, seed=3)
        session = registry.load(engine).open(blueprint, trial, lively_weights(blueprint))
        before = Path(folder, f"{way}-{start}.npz")
        if before.exists():
            held = dict(np.load(before))
            session.load({n: held.pop(f"weight/{n}") for n in blueprint.weights})
            session.restore(held)
        batch = session.place(*host_batch(blueprint))
        for _ in range(int(steps)):
            session.train_step(batch)
        weights = {f"weight/{name}": array for name, array in session.weights().items()}
        np.savez(Path(folder, f"{way}-{end}.npz"), **weights, **session.state())


if __name__ == "__main__":
    main(*sys.argv[1:])

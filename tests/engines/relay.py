"""Legs of training that goes on in another process: `relay.py ENGINE FOLDER FROM:TO:STEPS ...`.

Each way to train has a file of weights and state in the folder, before a leg and after it.
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


def main(engine: str, folder: str, *legs: str) -> None:
    """Train each network some steps, from a file or from the beginning."""
    for leg in legs:
        start, end, steps = leg.split(":")
        for way in WAYS:
            if engine != "reference" or way != "dropout":
                run(engine, Path(folder), way, start, end, int(steps))


def run(engine: str, folder: Path, way: str, start: str, end: str, steps: int) -> None:
    """One leg of one way."""
    build, spec = WAYS[way]
    blueprint = build()
    trial = Trial(network=way, engine=engine, batch=4, device="cpu", optimiser=spec, seed=3)
    session = registry.load(engine).open(blueprint, trial, lively_weights(blueprint))
    if start:
        held = dict(np.load(folder / f"{way}-{start}.npz"))
        session.load({n: held.pop(f"weight/{n}") for n in blueprint.weights})
        session.restore(held)
    batch = session.place(*host_batch(blueprint))
    for _ in range(steps):
        session.train_step(batch)
    weights = {f"weight/{name}": array for name, array in session.weights().items()}
    np.savez(folder / f"{way}-{end}.npz", **weights, **session.state())


if __name__ == "__main__":
    main(*sys.argv[1:])

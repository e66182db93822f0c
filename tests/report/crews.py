"""Records of crews whose speed is known."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from convdyno.report.cell import Cell, cell_of
from convdyno.store.record import Block, NetworkFacts, Process, Rank, Record, new_record
from convdyno.trial.spec import Trial, make_trial

FACTS = NetworkFacts(
    digest="d", parameters=10, macs=1_000_000, image=(8, 8, 3), classes=10, nodes=3
)
SLOWER = (1.0, 1.04, 0.97, 1.02)
"""How much slower everything is in each round."""
BETWEEN, WITHIN = 0.003, 0.005
"""How much ranks vary from round to round, and blocks inside one."""
TURNS = 4


def crew_record(step_seconds: float | Sequence[float], rounds: int = 4, **trial: Any) -> Record:
    """A record whose ranks take so long for a step each, or all as long."""
    made = make_trial(
        **{"network": "trivial", "engine": "clockwork", "batch": 20, "cores": 1} | trial
    )
    each = np.broadcast_to(np.asarray(step_seconds, dtype=np.float64), (made.devices,))
    processes = tuple(_process(number, each, made) for number in range(rounds))
    settings = {"device": "cpu", "device_name": "a CPU", "threads": 1, "layout": "nhwc"}
    record = new_record(made, run="one", network=FACTS, processes=processes, settings=settings)
    return record.but(status="ok")


def _process(number: int, each: Any, trial: Trial) -> Process:
    rng = np.random.default_rng([int(trial.digest[:8], 16), number])
    own = BETWEEN * rng.standard_normal((len(each), 1))
    noise = np.exp(own + WITHIN * rng.standard_normal((len(each), TURNS)))
    times = 2 * each[:, None] * SLOWER[number % len(SLOWER)] * noise
    ranks = tuple(
        Rank(
            rank=rank,
            host=f"n{1 + rank * trial.hosts // len(each)}",
            device="cpu",
            cores=(rank,),
            seconds=tuple(seconds.tolist()),
        )
        for rank, seconds in enumerate(times)
    )
    own_pace = trial.exchange == "independent" or trial.mode == "infer"
    joint = 1 / (1 / times).mean(axis=0) if own_pace else times.max(axis=0)
    blocks = tuple(
        Block(seconds=float(seconds), steps=2, turn=turn) for turn, seconds in enumerate(joint)
    )
    return Process(round=number, sitting=1, steady=True, blocks=blocks, ranks=ranks)


def cells(*records: Record) -> list[Cell]:
    return [cell_of(record) for record in records]

"""How good a network is while it is being trained, counted by all of its ranks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

from convdyno.blueprint.graph import Blueprint, is_state
from convdyno.blueprint.weights import Weights
from convdyno.data.synthetic import HostBatch
from convdyno.engines.contract import Session, State
from convdyno.run.evaluate import Evaluation, count, together
from convdyno.run.hand import pack, unpack
from convdyno.run.huddle import Huddle
from convdyno.trial.world import World


class Stopped(Exception):
    """Somebody asked to end while the test images were looked at."""


def examine(
    session: Session, share: Iterable[HostBatch], blueprint: Blueprint, averaged: bool,
    world: World, huddle: Huddle,
) -> Evaluation | None:  # fmt: skip
    """What all ranks count, each on its share; None if `Stopped` came out of one of the shares."""
    told = None
    with _as_judged(session, blueprint, averaged, world, huddle), suppress(Stopped):
        told = count(session, share, blueprint.classes).told()
    shares = [share for share in huddle.gather(told) if share is not None]
    return together(shares, blueprint.classes) if len(shares) == world.size else None


@contextmanager
def _as_judged(
    session: Session, blueprint: Blueprint, averaged: bool, world: World, huddle: Huddle
) -> Iterator[None]:
    """The session with what is judged: the same batch-norm statistics on all ranks, averages."""
    names = blueprint.weights
    if not averaged and (world.alone or not any(map(is_state, names))):
        yield
        return
    weights, state = session.weights(), session.state()
    if not world.alone:
        weights, state = _of_first(weights, state, world, huddle)
    session.load({n: state[f"average/{n}"] for n in names} if averaged else weights)
    try:
        yield
    finally:
        session.load(weights)
        session.restore(state)


def _of_first(
    weights: Weights, state: State, world: World, huddle: Huddle
) -> tuple[Weights, State]:
    """The same with the statistics of rank 0, which are those of the network.

    Training does not compute with them, so that the other ranks can keep them.
    """
    mine = [
        pack({name: array for name, array in arrays.items() if is_state(name)})
        for arrays in (weights, state)
    ]
    told = huddle.agree(mine if world.rank == 0 else [])
    return weights | unpack(told[0]), state | unpack(told[1])

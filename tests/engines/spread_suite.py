"""What several ranks owe: together they take the steps that one takes with the whole batch.

Ranks are processes of their own, started from here; one of them is

    python spread_suite.py FOLDER RANK

which does every case that is written down in the folder, and leaves what it has found there.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import miniatures
import numpy as np
import pytest
from miniatures import host_batch, lively_weights
from sameness import assert_close, same

from convdyno.blueprint.graph import Blueprint, is_state
from convdyno.engines import registry
from convdyno.engines.contract import (
    Engine,
    Optimiser,
    Session,
    State,
    Trial,
    Weights,
    World,
    normalise,
)
from convdyno.engines.reference_backward import differentiate
from convdyno.engines.reference_update import fresh_memory, update
from convdyno.errors import Refused

STEPS = 3
PATIENCE_SECONDS = 900
SPEC = Optimiser(rate=0.05, weight_decay=0.01)
Half = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Case:
    """One network that all ranks train."""

    build: str
    """Its name among the miniatures."""
    values: dict[str, Any] = field(default_factory=dict)
    """Of the trial, where they are not the usual ones."""
    batch: int = 4
    """Images of a device in a step."""
    alike: bool = False
    """Whether all devices get the same images."""
    look: bool = False
    """Whether rank 0 looks at gradients and scores, for which programs of their own are made."""

    @property
    def blueprint(self) -> Blueprint:
        build: Any = getattr(miniatures, self.build)
        blueprint: Blueprint = build()
        return blueprint

    def trial(self, engine: str, devices: int = 1, **more: Any) -> Trial:
        values = {"network": self.build, "engine": engine, "batch": self.batch, "devices": devices}
        values |= {"device": "cpu", "threads": 1, "optimiser": SPEC, "seed": 5}
        return Trial.model_validate(values | self.values | more)

    def images(self, step: int, devices: int) -> list[Half]:
        """What each device gets in a step."""
        if self.alike:
            return [host_batch(self.blueprint, self.batch, step)] * devices
        whole = host_batch(self.blueprint, self.batch * devices, step)
        return list(zip(*(np.split(array, devices) for array in whole), strict=True))


EVERYTHING = Optimiser(
    rate=0.05, clip_norm=0.5, larc_eta=0.05, label_smoothing=0.2, weight_decay=0.01, ema=0.7
)
CASES = {
    "plain": Case("plain", look=True),
    "norms": Case("residual", look=True),
    "everything": Case("small", {"optimiser": EVERYTHING.model_dump()}),
    "adam": Case("small", {"optimiser": {"kind": "adam", "rate": 0.01}}),
    "dropping": Case("dropping", alike=True, look=True),
    "half": Case("small", {"precision": "fp16"}),
    "wire": Case("small", {"compress": "bf16"}),
}
"""What every engine can do."""
WHOLE = Case("plain", batch=8)
"""The case `plain` of two ranks for one session."""


@dataclass(frozen=True)
class Found:
    """What one process has found."""

    weights: Weights
    state: State
    losses: list[float]
    again: Weights
    """The weights after the same steps from the same beginning, as rank 0 knew it."""
    again_losses: list[float]
    seen: Weights
    """Gradients and scores of the last batch, if rank 0 alone looked at them."""
    flags: dict[str, Any]


def run(
    engine: str,
    folder: Path,
    cases: Mapping[str, Case],
    processes: int = 2,
    each: int = 1,
    refused: Sequence[dict[str, Any]] = (),
) -> dict[str, list[Found]]:
    """What each process finds in each case; with `each` devices of its own.

    What is to be refused is asked for first; the sentences are in `refused.json`.
    """
    plan = {
        "engine": engine,
        "each": each,
        "refused": list(refused),
        "cases": {name: asdict(case) for name, case in cases.items()},
        "worlds": [world.model_dump(mode="json") for world in worlds(processes)],
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "plan.json").write_text(json.dumps(plan))
    command = [sys.executable, __file__, str(folder)]
    with ExitStack() as kept:
        logs = [kept.enter_context((folder / f"{n}.log").open("w")) for n in range(processes)]
        started = [
            subprocess.Popen([*command, str(n)], stdout=log, stderr=subprocess.STDOUT)
            for n, log in enumerate(logs)
        ]
        try:
            codes = _ended(started)
        finally:
            for one in started:
                one.kill()
                one.wait()
    said = "\n".join((folder / f"{n}.log").read_text()[-3000:] for n in range(processes))
    assert codes == [0] * processes, said
    return {name: [_read(folder / f"{name}-{n}") for n in range(processes)] for name in cases}


def _ended(started: list[subprocess.Popen[bytes]]) -> list[int | None]:
    """The exit codes of all, or of some as soon as one has failed: the others wait for it."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        codes = [one.poll() for one in started]
        if None not in codes or any(codes):
            return codes
        time.sleep(0.1)
    return [one.poll() for one in started]


def worlds(size: int) -> list[World]:
    """A world of this machine, as each rank sees it."""
    with ExitStack() as kept:
        sockets = [kept.enter_context(socket.socket()) for _ in range(size)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        peers = tuple(f"127.0.0.1:{one.getsockname()[1]}" for one in sockets)
    common: dict[str, Any] = {"size": size, "local_size": size, "peers": peers}
    return [
        World(rank=n, local_rank=n, interface="lo", timeout_seconds=600, **common)
        for n in range(size)
    ]


@dataclass(frozen=True)
class Expected:
    """What the reference says of so many devices."""

    weights: list[Weights]
    """Of each device; only statistics differ."""
    memory: list[State]
    losses: list[list[float]]
    """Of each device, of each step."""


def expected(case: Case, devices: int, parts: int = 1) -> Expected:
    """Every device's gradients by itself, averaged, and one update for all."""
    blueprint, spec = case.blueprint, case.trial("reference").optimiser
    begin = {n: w.astype(np.float64) for n, w in lively_weights(blueprint).items()}
    now = {n: w for n, w in begin.items() if not is_state(n)}
    own = [{n: w for n, w in begin.items() if is_state(n)} for _ in range(devices)]
    rule = spec.model_copy(update={"ema": None})
    memory, losses = fresh_memory(rule, blueprint.trainable), [list[float]() for _ in own]
    averages = [begin] * devices
    for step in range(STEPS):
        gradients = []
        for device, (images, labels) in enumerate(case.images(step, devices)):
            total = 0.0
            pieces = zip(np.split(normalise(images), parts), np.split(labels, parts), strict=True)
            for piece in pieces:
                found = differentiate(blueprint, now | own[device], *piece, spec.label_smoothing)
                own[device] = found.statistics
                gradients.append(found.gradients)
                total += found.loss / parts
            losses[device].append(total)
        mean = {n: np.mean([g[n] for g in gradients], axis=0) for n in blueprint.trainable}
        now, memory = update(rule, now, mean, memory)
        if keep := spec.ema:
            averages = [
                {n: keep * average[n] + (1 - keep) * w for n, w in (now | statistics).items()}
                for average, statistics in zip(averages, own, strict=True)
            ]
    remembered = [
        memory | ({f"average/{n}": a for n, a in average.items()} if spec.ema else {})
        for average in averages
    ]
    return Expected([now | statistics for statistics in own], remembered, losses)


def check_like_one(found: list[Found], weights: Weights, losses: list[float]) -> None:
    """Without batch norm, ranks take exactly the steps of one session with all their images."""
    assert not any(map(is_state, weights))
    for name, array in found[0].weights.items():
        assert_close(array, weights[name], 1e-5, name)
    assert np.mean([one.losses for one in found], axis=0) == pytest.approx(losses, rel=1e-5)


def run_alone(engine: str, folder: Path) -> Found:
    """What one session finds in the case `plain` of two ranks, with the images of both."""
    return run(engine, folder, {"whole": WHOLE}, processes=1)["whole"][0]


def check_ranks(
    case: Case, found: list[Found], each: int = 1, parts: int = 1, tolerance: float = 2e-5
) -> None:
    """Weights, memory and losses are the reference's; statistics are each rank's own."""
    devices = len(found) * each
    right = expected(case, devices, parts)
    check_agreement(case, found)
    for process, one in enumerate(found):
        mine = slice(process * each, (process + 1) * each)
        first = right.weights[mine][0]
        for name, array in one.weights.items():
            assert_close(array, first[name], tolerance, name)
        for name, array in right.memory[mine][0].items():
            assert_close(one.state[name], array, tolerance, name)
        losses = np.mean(right.losses[mine], axis=0)
        assert one.losses == pytest.approx(losses.tolist(), rel=max(tolerance, 1e-5))


def check_agreement(case: Case, found: list[Found]) -> None:
    """What is not a rank's own is the same on all ranks, and starting again gives it again."""
    trainable = case.blueprint.trainable
    for one in found:
        assert same(_of(one.weights, trainable), _of(found[0].weights, trainable))
        assert same(one.again, one.weights)
        assert one.again_losses == one.losses
        for name in one.state:
            shared = not name.startswith("average/") or name.removeprefix("average/") in trainable
            if shared and not name.startswith("own/"):
                assert np.array_equal(one.state[name], found[0].state[name]), name


def check_looking(case: Case, found: list[Found], each: int = 1) -> None:
    """Rank 0 can look at gradients and scores by itself, and sees those of its own images."""
    from convdyno.engines import reference

    one, devices = found[0], len(found) * each
    halves = case.images(STEPS - 1, devices)[:each]
    weights = {n: w.astype(np.float64) for n, w in one.weights.items()}
    each_loss = [
        differentiate(case.blueprint, weights, normalise(images), labels)
        for images, labels in halves
    ]
    for name in case.blueprint.trainable:
        mean = np.mean([step.gradients[name] for step in each_loss], axis=0)
        assert_close(one.seen[f"gradient/{name}"], mean, 1e-4, name)
    images = np.concatenate([normalise(images) for images, _ in halves])
    assert_close(one.seen["scores"], reference.logits(case.blueprint, weights, images), 1e-5)


def check_half_wire(case: Case, found: list[Found]) -> None:
    """With bf16 on the wire, steps are near those without, and not the same."""
    right, begin = expected(case, len(found)), lively_weights(case.blueprint)
    check_agreement(case, found)
    errors = []
    for name in case.blueprint.trainable:
        moved = right.weights[0][name] - begin[name]
        error = np.abs(found[0].weights[name] - right.weights[0][name]).max() / np.abs(moved).max()
        assert error < 0.02, name
        errors.append(error)
    assert max(errors) > 2e-4


def check_dropping(found: list[Found]) -> None:
    """Ranks with the same images drop different values, before and after a fresh start."""
    for losses in zip(*(one.losses for one in found), strict=True):
        assert len(set(losses)) == len(found)


def _of(arrays: Weights, names: Any) -> Weights:
    return {name: arrays[name] for name in names}


def _read(stem: Path) -> Found:
    with np.load(stem.with_suffix(".npz")) as file:
        arrays = dict(file)
    told = json.loads(stem.with_suffix(".json").read_text())

    def kind(word: str) -> dict[str, np.ndarray]:
        return {
            n.removeprefix(f"{word}:"): a for n, a in arrays.items() if n.startswith(f"{word}:")
        }

    return Found(
        weights=kind("weights"), state=kind("state"), again=kind("again"), seen=kind("seen"), **told
    )


def main(folder: Path, rank: int) -> None:
    """One rank: every case, one after the other."""
    plan = json.loads((folder / "plan.json").read_text())
    world = World.model_validate(plan["worlds"][rank])
    engine, each = registry.load(plan["engine"]), plan["each"]
    host = {"processes": "host", "hosts": world.size} if each > 1 else {}
    told = [
        _refusal(engine, Case("plain", values).trial(plan["engine"], 2), world)
        for values in plan["refused"]
    ]
    if world.rank == 0:
        (folder / "refused.json").write_text(json.dumps(told))
    joined = world.alone
    for name, values in plan["cases"].items():
        case = Case(**values)
        trial = case.trial(plan["engine"], world.size * each, **host)
        if not joined:
            engine.join(world, trial)
            joined = True
        session = engine.open(case.blueprint, trial, lively_weights(case.blueprint))
        arrays, told = _train(case, session, folder / f"{name}-begin.npz", world, each)
        np.savez(folder / f"{name}-{rank}.npz", **arrays)
        (folder / f"{name}-{rank}.json").write_text(json.dumps(told, default=str))
    engine.leave()


def _refusal(engine: Engine, trial: Trial, world: World) -> str:
    try:
        engine.join(world, trial)
    except Refused as sentence:
        return str(sentence)
    raise AssertionError(f"nothing was refused: {trial}")


def _train(case: Case, session: Session, begin: Path, world: World, each: int) -> Any:
    """Some steps, a look that rank 0 takes alone, and the same steps again."""
    mine = slice(world.rank * each, (world.rank + 1) * each)
    state = _from_rank_0(begin, world.rank, session.state())
    batches = []
    for step in range(STEPS):
        halves = case.images(step, world.size * each)[mine]
        batches.append(session.place(*map(np.concatenate, zip(*halves, strict=True))))

    def train() -> list[float]:
        losses = []
        for batch in batches:
            session.train_step(batch)
            losses.append(session.loss())
        return losses

    losses = train()
    arrays = {f"weights:{n}": a for n, a in session.weights().items()}
    arrays |= {f"state:{n}": a for n, a in session.state().items()}
    if world.rank == 0 and case.look:
        arrays |= {f"seen:gradient/{n}": a for n, a in session.gradients(batches[-1]).items()}
        arrays["seen:scores"] = session.logits(batches[-1])
        session.infer_step(batches[-1])
        session.wait()
    session.load(lively_weights(case.blueprint))
    session.restore(state)
    again = train()
    arrays |= {f"again:{n}": a for n, a in session.weights().items()}
    return arrays, {"losses": losses, "again_losses": again, "flags": session.settings.flags}


def _from_rank_0(path: Path, rank: int, own: State) -> State:
    """The state in which rank 0 begins: training goes on from what rank 0 has saved."""
    if rank == 0:
        part = path.with_suffix(".part.npz")
        np.savez(part, **own)
        part.replace(path)
    while not path.exists():
        time.sleep(0.05)
    with np.load(path) as file:
        return dict(file)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))

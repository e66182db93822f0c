"""Where a run of training begins: at the latest checkpoint of its folder, or at the beginning."""

from __future__ import annotations

from pathlib import Path

from convdyno.blueprint.graph import Blueprint
from convdyno.blueprint.weights import Weights, initial_weights
from convdyno.data.source import Source
from convdyno.engines.contract import State
from convdyno.errors import UsageError
from convdyno.run import checkpoint
from convdyno.run.checkpoint import TrainingStanding
from convdyno.run.ranks import Ranks
from convdyno.trial.training import Training


def compare_data(train: Source, test: Source | None, ranks: Ranks) -> None:
    """Refuse ranks that see different images under the same name."""
    facts = train.facts
    mine: tuple[int, int, list[str]] = len(train), len(test) if test else 0, list(facts.classes)
    all_see = ranks.gather(mine)
    for rank, seen in enumerate(all_see):
        if list(seen) != list(all_see[0]):
            ranks.fail_together(UsageError(
                f"rank {rank} sees {seen[0]} training and {seen[1]} test images of {len(seen[2])} "
                f"classes in {facts.path}, and rank 0 sees others: all ranks need the same data"
            ))  # fmt: skip


def take_up(
    training: Training, blueprint: Blueprint, classes: tuple[str, ...], per_epoch: int,
    folder: Path, ranks: Ranks,
) -> tuple[Weights, State, TrainingStanding]:  # fmt: skip
    """What a rank goes on from; a folder that other ranks cannot see is told them by rank 0."""
    latest = checkpoint.latest(folder) if ranks.first else None
    name = ranks.agree(latest.name if latest else None)
    if name is None:
        weights = initial_weights(blueprint, training.trial.seed)
        return weights, {}, TrainingStanding(training, 0, 0, 0, classes)
    with ranks.file_of_first(folder / name) as path:
        weights, state, standing = checkpoint.load(path, blueprint)
    wrong = _another(standing, training, per_epoch)
    place = divmod(standing.step, per_epoch)
    if not wrong and (standing.classes, (standing.epoch, standing.batch)) != (classes, place):
        wrong = f"other images in {training.trial.data}"
    if wrong:
        ranks.fail_together(UsageError(f"the run in {folder} was begun with {wrong}"))
    return weights, checkpoint.state_of(ranks.world.rank, state), standing


def _another(standing: TrainingStanding, now: Training, per_epoch: int) -> str:
    """What keeps a run from going on as it is wanted now, and what to do; nothing if it can."""
    begun = standing.training
    names = begun.differs_in(now)
    if names == ["epochs"]:
        return _other_end(standing, now, per_epoch)
    if "batch" not in names:
        what = f"another {' and '.join(names)}: repeat those, or give another --log-dir"
        return what if names else ""
    whole, devices = begun.trial.global_batch, now.trial.devices
    give = f"give --batch {whole // devices}, or another --log-dir"
    if whole % devices:
        give = f"{devices} devices cannot share those evenly"
    return f"{whole} images a step, and now it would have {now.trial.global_batch}: {give}"


def _other_end(standing: TrainingStanding, now: Training, per_epoch: int) -> str:
    """What keeps a run from ending after another number of epochs; nothing if it can."""
    begun, gone = standing.training, standing.step / per_epoch
    if not begun.schedule.same_until(gone):
        kind = begun.schedule.kind
        return (
            f"{begun.epochs:g} epochs, and the {kind} schedule has led the rate towards their end: "
            f"it cannot end after {now.epochs:g}; give another --log-dir"
        )
    if standing.step > now.steps(per_epoch):
        return (
            f"{begun.epochs:g} epochs, and is at epoch {gone:.4g}, after the {now.epochs:g} wanted "
            "now: give more --epochs, or another --log-dir"
        )
    return ""

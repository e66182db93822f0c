"""Checkpoints: one safetensors file with weights, optimiser state and where training stands.

Written under a temporary name, synced and renamed, so a kill at any moment leaves the old file or
the new one. The weights in it are read by `convdyno weights` like any others.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pydantic import ValidationError

from convdyno.blueprint import weight_file
from convdyno.blueprint.graph import Blueprint
from convdyno.blueprint.weights import Weights
from convdyno.engines.contract import State
from convdyno.errors import BadWeights
from convdyno.files import clear_parts, whole_path
from convdyno.trial.training import Training

RANDOM = "random/"
"""In a state: where rank 0's random numbers stand; `random/rank-N/` where another rank's do."""
NAME = re.compile(r"checkpoint-([0-9]{1,12})\.safetensors")
BEST = "best.safetensors"
_OTHERS = re.compile(rf"{RANDOM}rank-[0-9]+/")


@dataclass(frozen=True)
class TrainingStanding:
    """Where training stands, and what it has come to."""

    training: Training
    step: int
    """How many updates were made."""
    epoch: int
    batch: int
    """The place of the next batch in the data."""
    classes: tuple[str, ...]
    seconds: float = 0.0
    """Of training so far, without evaluations and checkpoints."""
    best: float | None = None
    """The highest top-1 accuracy so far."""
    best_step: int = -1
    """The step at which that was."""
    evaluated: int = -1
    """The step of the latest evaluation."""


NUMBERS = ("step", "epoch", "batch", "seconds", "best", "best_step", "evaluated")
"""What the header says of a standing besides the training and the classes."""


def save(
    path: Path, blueprint: Blueprint, weights: Weights, state: State, standing: TrainingStanding
) -> None:
    """Write a checkpoint."""
    width = standing.training.trial.width
    note = f"step {standing.step}, epoch {standing.epoch}, batch {standing.batch}"
    metadata = weight_file.describe(blueprint, width, note) | {
        "training": standing.training.model_dump_json(),
        "class_names": json.dumps(standing.classes),
        "standing": json.dumps({name: getattr(standing, name) for name in NUMBERS}),
    }
    arrays = {name: np.ascontiguousarray(weights[name], np.float32) for name in blueprint.weights}
    # Not `ascontiguousarray`, which makes a row of a single number.
    arrays |= {
        weight_file.STATE + name: np.asarray(array, order="C") for name, array in state.items()
    }
    weight_file.write_tensors(path, arrays, metadata)


def standing_of(header: weight_file.WeightHeader) -> TrainingStanding:
    """What a checkpoint's header says, checked."""
    words = header.metadata
    try:
        numbers = json.loads(words["standing"])
        names = json.loads(words["class_names"])
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ValueError("class names must be texts")
        found = TrainingStanding(
            training=Training.model_validate_json(words["training"]),
            step=int(numbers["step"]),
            epoch=int(numbers["epoch"]),
            batch=int(numbers["batch"]),
            classes=tuple(names),
            seconds=float(numbers["seconds"]),
            best=None if numbers["best"] is None else float(numbers["best"]),
            best_step=int(numbers["best_step"]),
            evaluated=int(numbers["evaluated"]),
        )
    except KeyError as missing:
        raise BadWeights(f"{header.path} is no checkpoint: its header lacks {missing}") from None
    except ValidationError as wrong:
        place = ".".join(map(str, wrong.errors()[0]["loc"]))
        raise BadWeights(
            f"{header.path} is no checkpoint that this version can read: "
            f"{place}: {wrong.errors()[0]['msg']}"
        ) from None
    except (ValueError, TypeError, OverflowError, RecursionError) as wrong:
        raise BadWeights(f"{header.path} is no checkpoint: {str(wrong)[:200]}") from None
    if min(found.step, found.epoch, found.batch) < 0:
        raise BadWeights(f"{header.path} is no checkpoint: it stands before its beginning")
    return found


def load(path: Path, blueprint: Blueprint) -> tuple[Weights, State, TrainingStanding]:
    """A checkpoint of this network; anything else is refused."""
    header = weight_file.read_header(path)
    standing = standing_of(header)
    return weight_file.load_weights(path, blueprint), weight_file.read_state(header), standing


def random_part(state: State) -> State:
    """Where a rank's random numbers stand."""
    return {name: array for name, array in state.items() if name.startswith(RANDOM)}


def random_of_all(parts: Sequence[State]) -> State:
    """Where the random numbers of all ranks stand; of those after 0 only what is different."""
    return parts[0] | {
        f"{RANDOM}rank-{rank}/{name.removeprefix(RANDOM)}": array
        for rank, part in enumerate(parts[1:], 1)
        for name, array in part.items()
        if name not in parts[0] or not np.array_equal(array, parts[0][name])
    }


def state_of(rank: int, state: State) -> State:
    """What one rank goes on from; one that was not there has rank 0's random numbers."""
    shared = {name: array for name, array in state.items() if not _OTHERS.match(name)}
    own = f"{RANDOM}rank-{rank}/"
    return shared | {
        RANDOM + name.removeprefix(own): array
        for name, array in state.items()
        if name.startswith(own)
    }


def latest(folder: Path) -> Path | None:
    """The newest checkpoint of a folder."""
    found = {int(match[1]): file for file, match in _checkpoints(folder)}
    return found[max(found)] if found else None


def name(step: int) -> str:
    """What a checkpoint's file is called."""
    return f"checkpoint-{step:09d}.safetensors"


def drop_old(folder: Path, keep: int) -> None:
    """Remove all but the newest checkpoints, and what a killed process left half-written."""
    found = sorted(_checkpoints(folder), key=lambda pair: int(pair[1][1]))
    for file, _ in found[:-keep]:
        file.unlink(missing_ok=True)
    clear_parts(folder, "*.safetensors", older=0)


def mark_best(path: Path) -> None:
    """Let `best.safetensors` be this checkpoint, which may be dropped later."""
    best = path.with_name(BEST)
    if best.exists() and best.samefile(path):
        return
    with whole_path(best) as part:
        part.unlink()
        try:
            os.link(path, part)
        except OSError:  # Not every file system has links.
            shutil.copyfile(path, part)


def _checkpoints(folder: Path) -> list[tuple[Path, re.Match[str]]]:
    files = sorted(folder.iterdir()) if folder.is_dir() else []
    return [(file, match) for file in files if (match := NAME.fullmatch(file.name))]

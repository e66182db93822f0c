"""A trained and evaluated network, by the step that is benchmarked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from convdyno.app.benchmark import labels_of
from convdyno.app.cells import one_value
from convdyno.app.place import launcher
from convdyno.app.requests import TrainRequest
from convdyno.app.training_plan import make_training
from convdyno.app.training_run import Trainer, Unwatched
from convdyno.errors import UsageError
from convdyno.report.training import Watcher
from convdyno.stage.progress import SILENCE, Narrator
from convdyno.trial import axes, parse
from convdyno.trial.training import Training, Watching


@dataclass(frozen=True)
class Trained:
    """What came of training: a run for each seed."""

    training: Training
    runs: list[dict[str, Any]]
    """As `train --json` has them; one that was stopped has a `signal`."""


def train(
    request: TrainRequest, watch: Callable[[Path], Watcher] = Unwatched,
    narrator: Narrator = SILENCE,
) -> Trained:  # fmt: skip
    """Train with every seed; `watch` makes what follows the run in a folder."""
    seconds = {
        name: parse.duration(f"--{name.replace('_', '-')}")(axes.word(getattr(request, name)))
        for name in ("save_interval", "summary_interval")
    }
    watching = Watching(
        display_every=request.display_every,
        display_seconds=request.display_seconds,
        save_seconds=seconds["save_interval"],
        summary_seconds=seconds["summary_interval"],
        keep=request.keep,
    )
    labels = labels_of(request.labels)
    silence, patience = request.read("watchdog"), request.read("rank_timeout")
    folders = _folders(request)
    if request.resume and not any(_begun(folder) for folder in folders.values()):
        raise UsageError(f"there is nothing to resume in {_whole(request)}")
    runs: list[dict[str, Any]] = []
    with launcher(narrator=narrator) as there:
        training = make_training(there, request)
        start = partial(there.start, rank_seconds=patience)
        trainer = Trainer(watching, silence, start, request.command, labels)
        for seed, folder in folders.items():
            trial = training.trial.model_copy(update={"seed": seed})
            wanted = training.model_copy(update={"trial": trial})
            runs.append(trainer.run(wanted, folder, watch(folder)))
            if "signal" in runs[-1]:
                break
    return Trained(training, runs)


def _whole(request: TrainRequest) -> Path:
    return request.log_dir or Path("runs") / request.network.replace(":", "-")


def _folders(request: TrainRequest) -> dict[int, Path]:
    """The folder of each seed's run."""
    first, whole = one_value("seed", request.axes), _whole(request)
    seeds = range(first, first + request.seeds)
    return {n: whole / f"seed-{n}" if request.seeds > 1 else whole for n in seeds}


def _begun(folder: Path) -> bool:
    return any(folder.glob("checkpoint-*.safetensors"))

"""The batch of a network for which none was given: what suits the device, chosen once a run."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby

from convdyno.app.cells import make_trials
from convdyno.app.requests import Measurement
from convdyno.errors import TrialFailed
from convdyno.launch.launcher import Launcher, OutOfTime
from convdyno.launch.local import Here
from convdyno.machine import facts
from convdyno.machine.processor import usable_cores
from convdyno.stage.first_look import IMAGES, seconds_per_image, suits, surely_short
from convdyno.stage.progress import Narrator
from convdyno.store.history import read_history
from convdyno.trial.spec import Trial
from convdyno.zoo.registry import build

GPU_BATCH, GPU_PIXELS = 128, 64 * 64
"""On a GPU a step of few images would measure Python: so many, and four times as many of those
that are no larger than that."""
LOOK_SHARE = 0.2
"""Of the budget, what a first look may take."""


@dataclass(frozen=True)
class BatchChoice:
    """A batch, and why."""

    batch: int
    reason: str


def choose_batches(
    there: Launcher, request: Measurement, narrator: Narrator
) -> dict[str, BatchChoice]:
    """For each network the batch of all its cells; nothing where its own will do, or one was given.

    Steps of several seconds would leave a minute too few of them to be precise.
    """
    if request.given.get("batch") is not None or not isinstance(there, Here):
        return {}
    found = {}
    for network, trials in groupby(make_trials(there, request.given), lambda t: t.network):
        if choice := _choose(there, list(trials), request, narrator):
            narrator.tell(f"{network}: a batch of {choice.batch}, because {choice.reason}")
            found[network] = choice
    return found


def _choose(
    there: Here, trials: Sequence[Trial], request: Measurement, narrator: Narrator
) -> BatchChoice | None:
    trial = trials[0]
    if trial.engine in ("clockwork", "reference") or trial.accumulate > 1:
        return None
    if any(one.scaling == "strong" for one in trials):
        return None
    drawn = build(trial.network, trial.image_size, trial.classes, trial.width, trial.auxiliary)
    if facts.uses_gpus(trial.device):
        small = drawn.image[0] * drawn.image[1] <= GPU_PIXELS
        batch = GPU_BATCH * (4 if small else 1)
        why = "a GPU is only busy with many images; give --batch for another"
        return BatchChoice(batch, why) if batch > trial.batch else None
    if surely_short(drawn.macs, trial, len(usable_cores())):
        return None
    one = trial.model_copy(update={"devices": 1, "hosts": 1, "cores": None, "exchange": "default"})
    past = read_history(request.out, facts.machine())[0].cell(one)
    if past is not None:
        seconds, how = past.seconds_per_image, f"measured on {past.created[:10]}"
    else:
        narrator.tell(f"{trial.network}: a first look at how long a step takes ...")
        try:
            with narrator.waiting(f"{trial.network}: a first look"):
                seconds = _look(there, one, request)
        except TrialFailed:  # Whatever it is, the cell will say so.
            return None
        except OutOfTime:
            return BatchChoice(min(IMAGES, trial.batch), "a first look took too long")
        how = f"in a first look with {IMAGES}"
    seconds *= max(one.devices for one in trials)  # Each has its share of the cores.
    batch = suits(seconds, trial.batch)
    if batch == trial.batch:
        return None
    return BatchChoice(
        batch,
        f"a step of {trial.batch} would take about {seconds * trial.batch:.2g} s "
        f"({how}); give --batch for another",
    )


def _look(there: Here, trial: Trial, request: Measurement) -> float:
    start = partial(there.start, rank_seconds=request.read("rank_timeout"))
    until = time.monotonic() + LOOK_SHARE * request.read("budget")
    return seconds_per_image(start, trial, silence=request.read("watchdog"), until=until)

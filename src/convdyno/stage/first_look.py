"""A batch that suits a processor: steps of about half a second, so that a minute holds many."""

from __future__ import annotations

import math
from collections.abc import Callable

from convdyno.launch.launcher import Team
from convdyno.trial.spec import Trial

STEP_SECONDS = 0.5
IMAGES = 4
"""In a step of a first look."""
CERTAIN_FLOPS = 2e10
"""What a core reaches anywhere: whose steps are short at that speed needs no look."""


def suits(seconds_per_image: float, most: int) -> int:
    """The power of two whose step is nearest to half a second; at most the network's own batch."""
    power = max(0, round(math.log2(STEP_SECONDS / seconds_per_image)))
    return min(most, 1 << power)


def surely_short(macs: int, trial: Trial, cores: int) -> bool:
    """Whether a step of a trial is shorter than that on any processor of so many cores."""
    passes = 3 if trial.mode == "train" else 1
    return passes * 2 * macs * trial.batch / (CERTAIN_FLOPS * cores) < STEP_SECONDS


def seconds_per_image(
    start: Callable[[Trial], Team], trial: Trial, *, silence: float, until: float
) -> float:
    """What an image takes, from a few steps of a few images in a process of its own."""
    small = trial.model_copy(update={"batch": min(IMAGES, trial.batch)})
    team = start(small)
    try:
        told = small.model_dump(mode="json", exclude_defaults=True)
        team.ask("open", silence=silence, until=until, trial=told, steps=2)
        answer = team.ask("measure", silence=silence, until=until, turn=0, blocks=2)
    finally:
        team.end()
    steps = (float(block["seconds"]) / int(block["steps"]) for block in answer["blocks"])
    return min(steps) / small.batch

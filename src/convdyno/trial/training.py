"""What to train: a trial, and how long, how fast and how often to look."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from convdyno.trial import axes
from convdyno.trial.schedule import Schedule
from convdyno.trial.spec import Trial

FREE = frozenset(axes.names(resumes=True))
"""What of a trial may change while training is interrupted: how it is computed, not what.

The batch may as long as that of all devices together stays as it is.
"""


class Training(BaseModel):
    """Everything that decides what comes out of training."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    trial: Trial
    """Its optimiser's rate is the base that the schedule multiplies."""
    recipe: str = ""
    """The name of the recipe that the numbers came from."""
    epochs: Annotated[float, Field(gt=0)]
    schedule: Schedule = Schedule()
    evaluate_every: Annotated[float, Field(gt=0)] = 1.0
    """Epochs between evaluations."""
    until: Annotated[float, Field(gt=0, le=1)] | None = None
    """The top-1 accuracy at which training stops."""

    def differs_in(self, other: Training) -> list[str]:
        """What keeps one run from going on where another stopped, in the user's words."""
        names = [name for name in self.trial.differs_in(other.trial) if name not in FREE]
        if self.trial.global_batch != other.trial.global_batch:
            names.append("batch")
        if "optimiser" in names:
            names.remove("optimiser")
            one, another = self.trial.optimiser, other.trial.optimiser
            names += [n for n in type(one).model_fields if getattr(one, n) != getattr(another, n)]
        names += [n for n in ("epochs", "schedule") if getattr(self, n) != getattr(other, n)]
        return [name.replace("_", " ") for name in names]

    def steps(self, per_epoch: int) -> int:
        """How many updates are made in all."""
        return max(1, round(self.epochs * per_epoch))

    def rate(self, epoch: float) -> float:
        """The learning rate at a moment of training."""
        return self.trial.optimiser.rate * self.schedule.multiple(epoch, self.epochs)


class Watching(BaseModel):
    """How often training is looked at and saved; nothing of it changes the outcome."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    display_every: Annotated[int, Field(ge=1)] | None = None
    """Steps; None is by time."""
    display_seconds: Annotated[float, Field(gt=0)] = 1.0
    save_seconds: Annotated[float, Field(gt=0)] = 600.0
    summary_seconds: Annotated[float, Field(gt=0)] = 600.0
    """Between images and histograms for TensorBoard."""
    keep: Annotated[int, Field(ge=1)] = 3
    """How many of the latest checkpoints stay."""

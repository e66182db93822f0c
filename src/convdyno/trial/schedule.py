"""How the learning rate goes over training: multiples of the base rate, time in epochs."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

Kind = Literal["constant", "poly", "cosine", "steps"]


class Schedule(BaseModel):
    """A linear warm-up, then one of four courses.

    constant   1
    poly       (1 - t) ** power, where t runs from 0 after the warm-up to 1 at the end
    cosine     (1 + cos(pi t)) / 2
    steps      1, and from each epoch of `at` on the multiple beside it
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Kind = "constant"
    power: Annotated[float, Field(gt=0)] = 2.0
    at: tuple[tuple[float, float], ...] = ()
    """(epoch, multiple of the base rate from there on), in order."""
    warmup: Annotated[float, Field(ge=0)] = 0.0
    """Epochs in which the rate rises linearly."""
    warmup_from: Annotated[float, Field(ge=0)] = 0.0
    """The multiple that the warm-up begins with."""

    @model_validator(mode="after")
    def _consistent(self) -> Schedule:
        epochs = [epoch for epoch, _ in self.at]
        if self.kind == "steps" and (not epochs or epochs != sorted(set(epochs))):
            raise ValueError("a schedule of steps needs epochs that rise")
        return self

    def same_until(self, epoch: float) -> bool:
        """Whether the rate up to a moment does not depend on how long training goes on."""
        return self.kind in ("constant", "steps") or epoch <= self.warmup

    def multiple(self, epoch: float, epochs: float) -> float:
        """What the base rate is multiplied with at a moment of training, from 0 to `epochs`."""
        if epoch < self.warmup:
            return self.warmup_from + (1 - self.warmup_from) * epoch / self.warmup
        rest = epochs - self.warmup
        gone = min(1.0, (epoch - self.warmup) / rest) if rest > 0 else 1.0
        match self.kind:
            case "poly":
                return float((1 - gone) ** self.power)
            case "cosine":
                return (1 + math.cos(math.pi * gone)) / 2
            case "steps":
                passed = [multiple for start, multiple in self.at if epoch >= start]
                return passed[-1] if passed else 1.0
        return 1.0

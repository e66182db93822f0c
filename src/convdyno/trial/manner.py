"""How a network is computed: all of a trial that can change the result, and nothing that cannot."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from convdyno.trial import choices
from convdyno.trial.spec import Optimiser, Trial

USUAL = Optimiser()
SEVERAL = 2
"""Devices that stand for any number of them: who averages over two averages over more."""


class UpdateRule(BaseModel):
    """The form of an update rule: what it consists of, whatever its numbers are."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: choices.OptimiserKind = "sgd"
    momentum: bool = True
    nesterov: bool = True
    weight_decay: bool = True
    decay_on: str = "all"
    clip_norm: bool = False
    larc: choices.LarcMode | None = None
    label_smoothing: bool = False
    ema: bool = False

    @classmethod
    def of(cls, optimiser: Optimiser) -> UpdateRule:
        """The form of an optimiser; what has no effect in it is left at its default."""
        sgd = optimiser.kind == "sgd"
        momentum = sgd and optimiser.momentum > 0
        return cls(
            kind=optimiser.kind,
            momentum=momentum or not sgd,
            nesterov=optimiser.nesterov if momentum else True,
            weight_decay=optimiser.weight_decay > 0,
            decay_on=optimiser.decay_on if optimiser.weight_decay else "all",
            clip_norm=optimiser.clip_norm is not None,
            larc=optimiser.larc_mode if optimiser.larc_eta is not None else None,
            label_smoothing=optimiser.label_smoothing > 0,
            ema=optimiser.ema is not None,
        )

    @property
    def words(self) -> str:
        """What it consists of, for people."""
        parts: list[str] = [self.kind]
        if self.kind == "sgd" and not self.momentum:
            parts.append("no momentum")
        elif self.kind == "sgd":
            parts.append("nesterov" if self.nesterov else "momentum")
        if self.weight_decay:
            parts.append("decay" if self.decay_on == "all" else "decay of kernels")
        parts += ["clipping"] * self.clip_norm
        parts += [f"larc {self.larc}"] * (self.larc is not None)
        parts += ["smoothing"] * self.label_smoothing
        return " + ".join(parts + ["average"] * self.ema)


class Manner(BaseModel):
    """How a network is computed; what a certificate is for."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kernels: choices.Kernels = "native"
    precision: choices.Precision = "fp32"
    layout: choices.Layout = "auto"
    compile: choices.Switch = "auto"
    feed: choices.Feed = "batch"
    accumulate: int = 1
    devices: int = 1
    """That take a step together, each a process of its own."""
    exchange: choices.Exchange = "default"
    auxiliary: bool = False
    rule: UpdateRule = UpdateRule()

    @classmethod
    def of(cls, trial: Trial) -> Manner:
        """How a trial computes; inference has no update, so that of the usual rule does."""
        training = trial.mode == "train"
        together = training and trial.exchange != "independent" and trial.devices > 1
        names = ("kernels", "precision", "layout", "compile", "feed", "accumulate", "auxiliary")
        return cls(
            rule=UpdateRule.of(trial.optimiser if training else USUAL),
            devices=SEVERAL if together else 1,
            exchange=trial.exchange if together else "default",
            **{name: getattr(trial, name) for name in names},
        )

    @property
    def reference(self) -> Manner:
        """How the reference computes the same: at once, and with the batch of all devices."""
        return Manner(rule=self.rule, accumulate=self.accumulate)

    @property
    def words(self) -> str:
        """For people and for names of files: the kernels, and what else is not as usual."""
        parts = [str(self.kernels)]
        parts += [
            f"{name} {getattr(self, name)}"
            for name in (
                "precision",
                "layout",
                "compile",
                "feed",
                "accumulate",
                "devices",
                "exchange",
            )
            if getattr(self, name) != Manner.model_fields[name].default
        ]
        parts += ["auxiliary heads"] * self.auxiliary
        parts += [self.rule.words] * (self.rule != UpdateRule())
        return ", ".join(parts)

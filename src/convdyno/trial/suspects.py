"""Update rules that are wrong in one part: what an engine's fault is compared with, to name it."""

from __future__ import annotations

from collections.abc import Callable

from convdyno.trial.manner import Manner
from convdyno.trial.spec import Optimiser

Wrong = Callable[[Optimiser], Optimiser]
"""A rule that is wrong in one part, made of one that is right."""


def suspects(manner: Manner) -> dict[str, Wrong]:
    """The parts that a rule has, each with a rule that is wrong in it."""
    rule, sgd = manner.rule, manner.rule.kind == "sgd"
    parts = {"the learning rate": _times("rate", 1.1)}
    if sgd and rule.momentum:
        parts["momentum"] = _times("momentum", 0.95)
        parts["Nesterov's form"] = lambda right: _but(right, nesterov=not right.nesterov)
    if not sgd:
        parts["epsilon"] = _times("epsilon", 1.1)
    if rule.weight_decay:
        parts["weight decay"] = _times("weight_decay", 0.9)
        parts["weight decay, which is missing"] = lambda right: _but(right, weight_decay=0.0)
        parts["what is decayed"] = _decaying_others
    if rule.clip_norm:
        parts["clipping"] = _times("clip_norm", 0.9)
        parts["clipping, which is missing"] = lambda right: _but(right, clip_norm=None)
    if rule.larc is not None:
        parts["LARC's coefficient"] = _times("larc_eta", 0.9)
        parts["LARC's mode"] = _other_larc
    if rule.ema:
        parts["the moving average"] = _times("ema", 0.95)
    return parts


def _times(name: str, factor: float) -> Wrong:
    return lambda right: _but(right, **{name: getattr(right, name) * factor})


def _but(right: Optimiser, **changes: object) -> Optimiser:
    return right.model_copy(update=changes)


def _decaying_others(right: Optimiser) -> Optimiser:
    return _but(right, decay_on="kernels" if right.decay_on == "all" else "all")


def _other_larc(right: Optimiser) -> Optimiser:
    return _but(right, larc_mode="scale" if right.larc_mode == "clip" else "clip")

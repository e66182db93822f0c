"""Numbers at which every part of an update rule shows in what it makes of weights.

A decay of 1e-4 is lost beside a gradient, and a norm that is never reached clips nothing. What is
certified is the form of a rule; its numbers are chosen here, by the sizes of weights and gradients.
"""

from __future__ import annotations

import numpy as np

from convdyno.blueprint.weights import Weights
from convdyno.engines.contract import Optimiser, decays
from convdyno.trial.manner import UpdateRule

MOMENTUM, SMOOTHING, AVERAGE = 0.9, 0.2, 0.9
MOVE = 0.1
"""The share of itself that the last step moves the slowest weight by, at least."""
EPSILON = 0.1
"""Adam's, as a share of what the usual gradient is."""
ALIVE = 1e-4
"""A gradient below this share of the usual one is no gradient, but what rounding left of zero."""


def with_numbers(rule: UpdateRule, weights: Weights, gradients: Weights) -> Optimiser:
    """The optimiser of a rule for weights and their gradients; its rate is that of a large step."""
    sizes = {name: _size(weights[name]) for name in gradients}
    slopes = {name: _size(gradient) for name, gradient in gradients.items()}
    usual = float(np.median([*slopes.values()]))
    alive = [name for name in gradients if slopes[name] > ALIVE * usual and sizes[name] > 0]
    ratios = [slopes[name] / sizes[name] for name in alive]
    plain = Optimiser(
        kind=rule.kind,
        rate=1.0,
        momentum=MOMENTUM if rule.momentum else 0.0,
        nesterov=rule.nesterov,
        weight_decay=float(np.median(ratios)) if rule.weight_decay else 0.0,
        decay_on="kernels" if rule.decay_on == "kernels" else "all",
        label_smoothing=SMOOTHING if rule.label_smoothing else 0.0,
        ema=AVERAGE if rule.ema else None,
    )
    decay = plain.weight_decay
    felt = {
        name: slopes[name] + (decay * sizes[name] if decays(plain, name) else 0.0) for name in alive
    }
    more: dict[str, object] = {"rate": _rate(rule, sizes, felt)}
    if rule.clip_norm:
        total = float(np.linalg.norm([*felt.values()]))
        more["clip_norm"] = total / 2
    if rule.kind == "adam":
        more["epsilon"] = EPSILON * float(np.median([*felt.values()]))
    if rule.larc is not None:
        middle = float(np.median([sizes[name] / felt[name] for name in alive]))
        rate = more["rate"] if rule.larc == "clip" else 1.0
        assert isinstance(rate, float)
        more |= {"larc_mode": rule.larc, "larc_eta": rate / middle}
    return plain.model_copy(update=more)


def _rate(rule: UpdateRule, sizes: dict[str, float], felt: dict[str, float]) -> float:
    if rule.kind == "adam":
        return MOVE * max(sizes.values())
    return MOVE * max(sizes[name] / felt[name] for name in felt)


def _size(array: np.ndarray) -> float:
    return float(np.sqrt(np.square(array, dtype=np.float64).mean()))

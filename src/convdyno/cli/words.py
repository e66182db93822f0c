"""A trial as the words of `convdyno bench` that make it."""

from __future__ import annotations

from typing import Any

from convdyno.trial.spec import Optimiser, Trial

SAID_OTHERWISE = {
    "network", "image_size", "batch", "optimiser", "auxiliary", "latency", "rung", "staged",
    "hosts", "slurm", "engine",
}  # fmt: skip
"""Fields whose words are not simply their name and value, or that where it runs decides."""

DEFAULTS = {name: field.default for name, field in Trial.model_fields.items()}


def bench_words(trial: Trial, *, ladder: bool = False) -> list[str]:
    """What to give to `convdyno bench` to run a trial; what is the default is left out."""
    batch = trial.global_batch if trial.scaling == "strong" else trial.batch
    words = [trial.network, "--engine", trial.engine, "--batch", str(batch)]
    for name, default in DEFAULTS.items():
        value = getattr(trial, name)
        if name not in SAID_OTHERWISE and value != default:
            words += [f"--{name.replace('_', '-')}", _word(value)]
    if trial.image_size is not None:
        words += ["--image-size", "x".join(map(str, trial.image_size))]
    words += _update_rule(trial.optimiser)
    switches = {"--auxiliary": trial.auxiliary, "--latency": trial.latency, "--ladder": ladder}
    return words + [name for name, on in switches.items() if on]


def _update_rule(rule: Optimiser) -> list[str]:
    return ["--optimiser", rule.kind, "--rate", _word(rule.rate)]


def _word(value: Any) -> str:
    return repr(value) if isinstance(value, float) else str(value)

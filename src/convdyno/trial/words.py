"""A trial as the words of `convdyno bench` that make it."""

from __future__ import annotations

import shlex

from convdyno.trial.axes import AXES
from convdyno.trial.spec import Trial

WORDED = {
    axis.name: Trial.model_fields[axis.name].default
    for axis in AXES
    if axis.commands
    and axis.of_trial == axis.name
    and axis.name not in ("engine", "batch", "slurm")
}
"""What is said of a trial where it is not the default, and the default."""


def bench_words(trial: Trial, *, ladder: bool = False) -> list[str]:
    """What to give to `convdyno bench` to run a trial; what is the default is left out."""
    batch = trial.global_batch if trial.scaling == "strong" else trial.batch
    words = [trial.network, "--engine", trial.engine, "--batch", str(batch)]
    for name, default in WORDED.items():
        value = getattr(trial, name)
        if name == "optimiser":
            if trial.mode == "infer":
                continue
            words += ["--optimiser", value.kind, "--rate", repr(value.rate)]
        elif value != default:
            words += [f"--{name.replace('_', '-')}", *([] if value is True else [_word(value)])]
    return words + ["--ladder"] * ladder


def bench_command(trial: Trial, *, ladder: bool = False) -> str:
    """The same as one line for a shell."""
    return shlex.join(["convdyno", "bench", *bench_words(trial, ladder=ladder)])


def _word(value: object) -> str:
    if isinstance(value, tuple):
        return "x".join(map(str, value))
    return repr(value) if isinstance(value, float) else str(value)

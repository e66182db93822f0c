"""`convdyno tune`: the fastest settings of one network and engine, for the same mathematics."""

from __future__ import annotations

import re
import shlex
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from convdyno.cli.borrow import as_bench_has_them, bench_options
from convdyno.errors import NothingMeasured, UsageError

if TYPE_CHECKING:
    from convdyno.report.tune import Tuning
    from convdyno.stage.tuning import Tuner
    from convdyno.trial.spec import Trial

EXAMPLES = """\b
Examples:
  convdyno tune resnet50 --engine torch
  convdyno tune resnet50 --engine torch --batch 32 --precision bf16 --budget 20m --name fast
  convdyno tune deepmnist --batch max --own
  convdyno bench resnet50 --preset resnet50-torch

\b
Exit codes: 0 done, 2 bad usage, 4 nothing was measured, 5 the default settings failed.
"""
FOLDER = "tune"
"""Where the records of searches are, apart from those of benchmarks."""


@bench_options(without=("latency", "label"))
def tune(
    budget: Annotated[str, typer.Option(help="Half to search, half to measure.")] = "10m",
    name: Annotated[
        str | None, typer.Option(help="Of the preset; default: NETWORK-ENGINE.")
    ] = None,
    own: Annotated[
        bool, typer.Option("--own", help="Keep the preset in your configuration folder.")
    ] = False,
    **given: Any,
) -> None:
    """Search layout, compilation, threads, buckets and batch for the most images per second.

    Whatever is given is held. Settings are tried as live processes in turns, and the slower half
    leaves again and again. The winner is then measured in fresh rounds beside the default settings,
    and beside itself with one setting changed, which shows what mattered. It becomes a preset for
    `bench --preset`.
    """
    from convdyno.cli.largest import with_room
    from convdyno.cli.preset import explicit
    from convdyno.launch.local import Here
    from convdyno.report.bench_json import to_json
    from convdyno.report.console import Screen
    from convdyno.results import machines
    from convdyno.results.preset import check_name, own_folder

    words = as_bench_has_them(given) | {"budget": budget, "latency": False}
    there = Here()
    tuner = _tuner(words, there)
    trial = _one_trial(words, there)
    called = check_name(name or _name(trial))
    free = _free(trial, explicit(words, sys.argv[2:]))
    if not free:
        raise UsageError("every setting is given, so there is nothing to search")
    tuner.store.prepare()
    if words["batch"] == "max":
        trial = with_room(there, trial, words)
    found = _run(tuner, trial, free)
    preset = found.preset(called, tuner.machine["host"], machines.kind(tuner.machine))
    kept = preset.write(own_folder() if own else given["out"])
    if given["as_json"]:
        typer.echo(to_json(found.to_data(tuner.store.folder, preset, kept)))
    else:
        found.show(Screen(), kept, called)


def _tuner(words: dict[str, Any], there: Any) -> Tuner:
    from convdyno.cli.bench import how
    from convdyno.results import facts
    from convdyno.results.store import Store
    from convdyno.stage.progress import Narrator
    from convdyno.stage.tuning import Tuner

    goal, limits, patience = how(words)
    return Tuner(
        store=Store(words["out"] / FOLDER),
        narrator=Narrator(),
        machine=facts.machine(),
        command=shlex.join(["convdyno", *sys.argv[1:]]),
        there=there,
        goal=goal,
        budget_seconds=limits.budget_seconds,
        silence_seconds=limits.silence_seconds,
        rank_seconds=patience,
        quiet=words["as_json"],
    )


def _one_trial(words: dict[str, Any], there: Any) -> Trial:
    from convdyno.cli.bench import one_of_two
    from convdyno.cli.cells import make_trials
    from convdyno.engines import registry

    words["networks"] = one_of_two(words["networks"], words["network"])
    batch = None if words["batch"] == "max" else words["batch"]
    trials = make_trials(there, words | {"batch": batch})
    if len(trials) != 1:
        raise UsageError(
            f"tune is for one network, engine and kind of work at a time, not for {len(trials)}: "
            "give one value of each option"
        )
    registry.check(trials[0].engine)
    return trials[0]


def _free(trial: Trial, named: set[str]) -> list[str]:
    from convdyno.stage.tuning import FACTORS

    alone = {"bucket_mb"} if trial.devices == 1 else set()
    return [name for name in FACTORS if name not in named | alone]


def _name(trial: Trial) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", f"{trial.network}-{trial.engine}").strip("-.")


def _run(tuner: Tuner, trial: Trial, free: list[str]) -> Tuning:
    from convdyno.report.tune import tuning

    try:
        found = tuner.tune(trial, free)
    except KeyboardInterrupt:
        raise NothingMeasured("interrupted: the workers were ended, and no preset kept") from None
    finally:
        tuner.narrator.clear()
    if not (found.default.measured and found.winner.measured):
        raise NothingMeasured(
            f"the budget of {tuner.budget_seconds:g} s was too short for rounds after the search: "
            "give a longer --budget"
        )
    contrasts = [(one.factor, one.ours, one.theirs, one.record) for one in found.contrasts]
    seconds = found.search_seconds, found.final_seconds
    return tuning(found.default, found.winner, contrasts, found.tried, seconds)

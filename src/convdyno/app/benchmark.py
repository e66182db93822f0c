"""Images per second of every cell, with intervals that can be trusted."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import MISSING, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

from convdyno.app.batch_choice import choose_batches
from convdyno.app.cells import look_into, looks_anew, refuse_idle, split_of, trials_that_fit
from convdyno.app.certification import certificates, standing
from convdyno.app.makers import maker
from convdyno.app.place import launcher
from convdyno.app.requests import BenchRequest, Measurement
from convdyno.app.result import Result
from convdyno.data import SOURCES
from convdyno.data.staging import staged
from convdyno.engines import registry
from convdyno.errors import UsageError, signal_of
from convdyno.machine import facts, kinds
from convdyno.report.comparisons import Certificates
from convdyno.stage.progress import SILENCE, Narrator
from convdyno.stage.rounds import Limits, Stage, StagedCell
from convdyno.stats.plan import Goal
from convdyno.store.folder import Store
from convdyno.store.preset import find_preset
from convdyno.store.record import new_record
from convdyno.trial import axes, parse
from convdyno.trial.manner import Manner
from convdyno.trial.spec import Trial

ONLY_HERE = (
    "--stage-from copies data on this machine, and --nodes runs elsewhere: copy them there, and "
    "give --data PATH"
)
REAL_DATA = "--stage-from copies real data: give them with --data PATH"


@looks_anew
def bench(request: BenchRequest, narrator: Narrator = SILENCE) -> Result:
    """Measure every combination of what was asked for; signals keep what was measured."""
    if "slurm" in request.axes:
        raise UsageError("cells as jobs of Slurm are submitted, not measured here")
    request = with_preset(request, narrator)
    refuse_idle(request.given)
    goal, limits = goal_of(request), limits_of(request)
    out, patience = request.out, request.read("rank_timeout")
    about = {
        "command": request.command or command_of(request),
        "labels": labels_of(request.labels),
        "preset": request.preset,
    }
    with launcher(request, out, narrator) as there:
        folders = stages(request.axes)
        if folders and request.nodes is not None:
            raise UsageError(ONLY_HERE)
        data = axes.find("data")
        if folders and SOURCES.keys() & set(data.values(request.axes.get("data", data.default))):
            raise UsageError(REAL_DATA)
        chosen = choose_batches(there, request, narrator)
        batches = {name: choice.batch for name, choice in chosen.items()}
        reasons = {name: choice.reason for name, choice in chosen.items()}
        trials = trials_that_fit(there, request, narrator, batches)
        store = Store(out)
        store.prepare()
        proofs = certificates_of(trials, store, narrator)
        asked = [
            trial.model_copy(update={"staged": folder}) for trial in trials for folder in folders
        ]
        with data_in_place(asked or trials, narrator) as placed:
            there.check(placed)
            machine = there.machine()
            cells = [
                StagedCell(
                    new_record(trial, machine=machine, choice=reasons.get(trial.network), **about),
                    there.alone(trial),
                )
                for trial in placed
            ]
            narrator.plan(len(cells), goal.minimum_rounds, goal.within, limits.budget_seconds)
            start = partial(there.start, rank_seconds=patience)
            stage = Stage(cells, goal, limits, store, narrator, start, watched=request.watch)
            stopped = None
            try:
                stage.run()
            except KeyboardInterrupt as end:
                stopped = signal_of(end)
            finally:
                narrator.clear()
    records = [cell.record for cell in cells]
    return Result(records, proofs, out, limits.budget_seconds, stopped, stage.shortfall)


def with_preset(request: BenchRequest, narrator: Narrator) -> BenchRequest:
    """The request with the settings of its preset, if it names one; what is given wins."""
    if not request.preset:
        return request
    preset = find_preset(request.preset, request.out)
    for name, ours in (("network", request.network), ("engine", request.axes.get("engine"))):
        theirs = getattr(preset, name)
        if ours is not None and axes.find(name).values(ours) != [theirs]:
            raise UsageError(f"the preset {preset.name} is for {theirs}, not for {ours}")
    machine = facts.machine()
    if (preset.host, preset.machine) != (machine["host"], kinds.kind(machine)):
        narrator.tell(
            f"mind: the preset {preset.name} was found on {preset.host} ({preset.machine})"
        )
    work = ("mode", "precision", "devices", "engine")
    found = preset.settings.model_dump(exclude_none=True) | {n: getattr(preset, n) for n in work}
    return replace(
        request, network=preset.network, axes=found | dict(request.axes), preset=preset.name
    )


def goal_of(request: Measurement) -> Goal:
    """How precisely to measure."""
    return Goal(request.read("within"), minimum_rounds=request.read("rounds"))


def limits_of(request: Measurement) -> Limits:
    """How long to measure at the most."""
    return Limits(request.read("budget"), request.read("watchdog"))


def labels_of(labels: Mapping[str, str]) -> dict[str, str]:
    """Labels, if records can be called so."""
    return parse.labels(f"{name}={value}" for name, value in labels.items())


def stages(given: axes.Given) -> list[str]:
    """The folders that data are copied to, as `LABEL=FOLDER` each."""
    found = axes.find("stage_from").values(given.get("stage_from"))
    words = [one for one in found if one is not None]
    if words:
        parse.labelled("--stage-from", ",".join(words))
    return words


@contextmanager
def data_in_place(trials: Sequence[Trial], narrator: Narrator) -> Iterator[list[Trial]]:
    """The trials with their data copied to where they shall be read, for as long as they run."""
    with ExitStack() as kept:
        copies: dict[tuple[Path, str], str] = {}
        placed = []
        for trial in trials:
            if trial.staged is not None:
                path = look_into(trial.data, split_of(trial))[0].path
                label, _, folder = trial.staged.partition("=")
                if (path, folder) not in copies:
                    narrator.tell(f"copying {path} to {folder} ({label}) ...")
                    with narrator.waiting(f"copying {path}"):
                        copies[path, folder] = str(kept.enter_context(staged(path, Path(folder))))
                trial = trial.model_copy(update={"staged": f"{label}={copies[path, folder]}"})
            placed.append(trial)
        yield placed


def certificates_of(trials: Sequence[Trial], store: Store, narrator: Narrator) -> Certificates:
    """Before engines are compared: the proofs that they compute the same, stored or made now."""
    able = set(registry.installed_frameworks())
    wanted: dict[str, dict[Manner, set[str]]] = {}
    for trial in trials:
        if trial.engine in able:
            manners = wanted.setdefault(trial.network, {})
            manners.setdefault(Manner.of(trial), set()).add(trial.engine)
    found = {}
    for network, manners in wanted.items():
        pairs = {(engine, m.kernels) for m, engines in manners.items() for engine in engines}
        for manner, engines in manners.items() if len(pairs) > 1 else ():
            asked = f"{network} ({manner.words}): {', '.join(sorted(engines))}"
            makers = {engine: maker(engine) for engine in sorted(engines)}
            stored = store.certificate(network, manner)
            if standing(store, network, manner, makers) is None:
                again = "again, because code, versions or switches have changed " if stored else ""
                narrator.tell(f"certifying {again}{asked} ...")
            with narrator.waiting(f"certifying {network}"):
                (made,) = certificates([(network, manner)], sorted(engines), store)
            found[network, manner] = made
    return found


def command_of(request: BenchRequest) -> str:
    """What repeats a request on the command line."""
    words = ["convdyno", "bench", _list(request.network)]
    for name, value in request.axes.items():
        words += _option(name, value)
    for one in fields(request):
        value = getattr(request, one.name)
        usual = {} if one.default is MISSING else one.default
        if "help" in one.metadata and one.name not in ("labels", "out") and value != usual:
            words += _option(one.name, value)
    for name, value in request.labels.items():
        words += ["--label", f"{name}={value}"]
    return shlex.join(words)


def _option(name: str, value: Any) -> list[str]:
    if isinstance(value, bool) and (name not in axes.BY_NAME or axes.find(name).kind == "flag"):
        return [f"--{name.replace('_', '-')}"] * value
    return [f"--{name.replace('_', '-')}", _list(value, name)]


def _list(value: Any, name: str = "") -> str:
    if isinstance(value, str) or not isinstance(value, Sequence) or name == "image_size":
        return axes.word(value)
    return ",".join(map(axes.word, value))

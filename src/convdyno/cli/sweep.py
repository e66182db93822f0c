"""`convdyno sweep`: many cells from one file; killed and started again, it goes on."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from convdyno.cli import options, parse
from convdyno.errors import NothingMeasured, UsageError

if TYPE_CHECKING:
    from convdyno.cli.plan import Plan
    from convdyno.launch.crew import Launcher
    from convdyno.stage.sweep import SweepRun
    from convdyno.stage.sweep_plan import SweepPlan
    from convdyno.trial.spec import Trial
    from convdyno.trial.sweep import Sweep

EXAMPLES = """\b
Examples:
  convdyno sweep sweep.toml --dry-run
  convdyno sweep sweep.toml
  convdyno sweep sweep.toml --retry failed
  convdyno sweep sweep.toml --set batch=8,16 --set budget=30s --label gpu=k80

\b
The same command again goes on where it stopped. Exit codes: 0 all is done, 2 bad usage,
3 another process is still measuring some of it, 4 a cell was not measured to its end,
5 a trial failed, 130 or 143 stopped by Ctrl-C or SIGTERM (128 + the signal).
"""
NOT_OVER = 3


def sweep(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A sweep as TOML.")],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print every trial of the plan, and run nothing.")
    ] = False,
    retry: Annotated[
        str | None, typer.Option(help="failed: run again what failed or was skipped before.")
    ] = None,
    replace: Annotated[
        list[str] | None,
        typer.Option("--set", help="KEY=VALUE,...: instead of what the file says; again: more."),
    ] = None,
    label: Annotated[
        list[str] | None, typer.Option(help="NAME=VALUE: kept in the records; may be given again.")
    ] = None,
    out: Annotated[Path, typer.Option(help="The folder of the records.")] = Path("results"),
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Measure every combination of a file's values, leaving out what is done already.

    Cells that are neighbours in the plan are measured in turns. SIGTERM and Ctrl-C end it after the
    turn that is being measured; nothing that was measured is lost, however it ends.
    """
    from convdyno.cli.bench import FAR, ONLY_HERE
    from convdyno.cli.plan import make_plan, vocabulary
    from convdyno.cli.sweep_jobs import run_jobs
    from convdyno.cli.where import launcher
    from convdyno.trial.sweep_file import read_sweep

    parse.one_of("retry", ("failed",))(retry or "failed")
    wanted = read_sweep(file, vocabulary(), replace or ())
    wanted.labels |= parse.labels(label or ())
    wanted.title = wanted.title or file.name
    given = _settings(wanted) | {"out": out, "as_json": as_json}
    with launcher(**{name: given[name] for name in FAR}, out=out, quiet=as_json) as there:
        plan = make_plan(wanted, file.name, there, given)
        here = [one.trial for one in plan.planned if one.trial.slurm is None]
        if given["nodes"] is not None and any(trial.staged for trial in here):
            raise UsageError(ONLY_HERE)
        there.check(here)
        agenda = _agenda(plan, out, there.machine(), retry=retry is not None)
        run = _on_stage(agenda, given, there)
        if dry_run:
            _show(run, wanted, as_json)
            return
        _announce(run, wanted, out, as_json)
        if plan.orders:
            run_jobs(agenda, plan, given)
        run.run()
    _report(run, wanted, out, as_json)


def _settings(wanted: Sweep) -> dict[str, Any]:
    """What is given once: the options of `bench`, and the sweep's own."""
    from convdyno.cli.plan import SHUFFLE, TOGETHER

    own = {"together": TOGETHER, "shuffle": SHUFFLE}
    own |= {word: int(wanted.settings[word]) for word in own if word in wanted.settings}
    return options.given({k: v for k, v in wanted.settings.items() if k not in own}) | own


def _agenda(plan: Plan, out: Path, machine: dict[str, Any], *, retry: bool) -> SweepPlan:
    """The plan, and how it stands."""
    from convdyno.errors import BadStore
    from convdyno.results.index import Index
    from convdyno.results.machines import kind
    from convdyno.stage.sweep_plan import SweepPlan
    from convdyno.stats.index_figures import figures

    agenda = SweepPlan(plan.planned, kind(machine), retry=retry)
    try:
        agenda.start(Index(out, figures).heads())
    except BadStore:
        if out.exists():
            raise
        agenda.start([])
    return agenda


def _on_stage(agenda: SweepPlan, given: dict[str, Any], there: Launcher) -> SweepRun:
    from convdyno.cli.bench import how
    from convdyno.results.store import Store
    from convdyno.stage.sweep import Means, SweepRun

    goal, limits, patience = how(given)
    out, quiet = given["out"], given["as_json"]
    trials = [one.trial for one in agenda.planned]
    means = Means(
        goal,
        limits,
        start=partial(there.start, rank_seconds=patience),
        alone=there.alone,
        prepare=lambda group: _ready(group, trials, there, out, quiet),
        machine=there.machine(),
        command=shlex.join(["convdyno", *sys.argv[1:]]),
        together=given["together"],
        seed=given["shuffle"],
        quiet=quiet,
    )
    return SweepRun(agenda, Store(out), means)


@contextmanager
def _ready(
    group: Sequence[Trial], trials: Sequence[Trial], there: Launcher, out: Path, quiet: bool
) -> Iterator[list[Trial]]:
    """What a group needs before it starts: certificates, and data where they are to be read."""
    from convdyno.cli.bench import certificates_of
    from convdyno.cli.cells import look_into, split_of
    from convdyno.data.staging import staged

    networks = {trial.network for trial in group}
    certificates_of([trial for trial in trials if trial.network in networks], out, quiet)
    with ExitStack() as kept:
        copies: dict[tuple[Path, str], str] = {}
        placed = []
        for trial in group:
            if trial.staged is not None:
                path = look_into(trial.data, split_of(trial))[0].path
                label, _, folder = trial.staged.partition("=")
                if (path, folder) not in copies:
                    if not quiet:
                        typer.echo(f"copying {path} to {folder} ({label}) ...", err=True)
                    copy = kept.enter_context(staged(path, Path(folder)))
                    copies[path, folder] = str(copy)
                trial = trial.model_copy(update={"staged": f"{label}={copies[path, folder]}"})
            placed.append(trial)
        there.check(placed)
        yield placed


def _announce(run: SweepRun, wanted: Sweep, out: Path, quiet: bool) -> None:
    """Make sure that results can be written, and say what is about to happen."""
    from convdyno.report.sweep import plan_lines
    from convdyno.results.claims import holders
    from convdyno.results.store import Store

    Store(out).prepare()
    if quiet:
        return
    groups = run.groups()
    for line in plan_lines(run.agenda, groups, run.seconds_left(groups)):
        typer.echo(line, err=True)
    for place in wanted.unused:
        typer.echo(f"mind: {place}: this means none of the combinations", err=True)
    for holder in {h.pid: h for _, h in holders(out) if h.here and h.pid != os.getpid()}.values():
        typer.echo(f"mind: {holder} measures here too: each will disturb the other", err=True)


def _show(run: SweepRun, wanted: Sweep, as_json: bool) -> None:
    """Every trial of the plan, in the order in which it would be run."""
    from convdyno.cli.words import bench_words
    from convdyno.report.bench_json import to_json
    from convdyno.report.console import Screen
    from convdyno.report.sweep import plan_document, plan_lines

    agenda, groups = run.agenda, run.groups()
    times = run.seconds_left(groups)
    commands = {
        one.trial.digest: shlex.join(["convdyno", "bench", *bench_words(one.trial)])
        for one in agenda.planned
    }
    if as_json:
        typer.echo(to_json(plan_document(wanted.title, agenda, groups, times, commands)))
        return
    numbers = {id(one): str(n) for n, group in enumerate(groups, 1) for one in group}
    order = [one for group in groups for one in group]
    order += [one for one in agenda.planned if id(one) not in numbers]
    Screen().table([
        {
            "group": numbers.get(id(one), "-" if one.trial.slurm is None else "job"),
            "standing": one.standing,
            "labels": ",".join(f"{name}={value}" for name, value in one.labels.items()),
            "trial": commands[one.trial.digest].removeprefix("convdyno bench "),
        }
        for one in order
    ])  # fmt: skip
    for line in plan_lines(agenda, groups, times):
        typer.echo(line)
    for place in wanted.unused:
        typer.echo(f"mind: {place}: this means none of the combinations")


def _report(run: SweepRun, wanted: Sweep, out: Path, as_json: bool) -> None:
    """Print how everything stands, and end with the exit code that it deserves."""
    from convdyno.report.bench_json import to_json
    from convdyno.report.console import Screen
    from convdyno.report.sweep import left_words, outcome_document, outcome_lines, outcome_table
    from convdyno.results.store import read_record

    agenda = run.agenda
    stopped = run.signal.name if run.signal else None
    if as_json:
        records = [read_record(out / one.head.file) if one.head else None for one in agenda.planned]
        typer.echo(to_json(outcome_document(wanted.title, agenda, records, stopped, out)))
    else:
        Screen().table(outcome_table(agenda))
        for line in outcome_lines(agenda, stopped, out):
            typer.echo(line)
    if run.signal:
        raise typer.Exit(128 + run.signal)
    if agenda.count("elsewhere"):
        raise typer.Exit(NOT_OVER)
    heads = [one.head.status if one.head else "" for one in agenda.planned]
    if all(status == "refused" for status in heads):
        raise typer.Exit(2)
    if agenda.count("failed", "skipped"):
        raise typer.Exit(5)
    if agenda.left:
        raise NothingMeasured(left_words(agenda))

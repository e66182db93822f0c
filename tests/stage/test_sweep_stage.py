"""A sweep on the stage, with teams that cost nothing: what is measured, taken up, skipped."""

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from players import Troupe

from convdyno.machine.kinds import kind
from convdyno.stage.progress import SILENCE
from convdyno.stage.rounds import Limits
from convdyno.stage.sweep import CROWDED, Means, SweepRun
from convdyno.stats.index_figures import figures
from convdyno.stats.plan import Goal
from convdyno.store.cell_locks import Claim, cell_name, claim
from convdyno.store.folder import Store
from convdyno.store.index import Index
from convdyno.store.record import Record
from convdyno.store.sweep_plan import PlannedTrial, SweepPlan
from convdyno.trial.spec import Trial, make_trial

MACHINE = {"host": "a", "cpu": "fast", "cores_usable": 2}


def a_trial(batch: int = 1, **more: Any) -> Trial:
    return make_trial(**{"network": "trivial", "engine": "clockwork", "batch": batch} | more)


def plan(*batches: int, **more: Any) -> list[PlannedTrial]:
    return [PlannedTrial(a_trial(batch, **more), path=(str(batch),)) for batch in batches]


@contextmanager
def as_it_is(trials: Sequence[Trial]) -> Iterator[Sequence[Trial]]:
    yield trials


def a_run(
    folder: Path, planned: list[PlannedTrial], troupe: Troupe, retry: bool = False, **more: Any
) -> SweepRun:
    """A sweep that has run."""
    agenda = SweepPlan(planned, kind(MACHINE), retry=retry)
    agenda.start(Index(folder, figures).heads())
    means = Means(
        goal=Goal(minimum_rounds=3), limits=Limits(60.0, 60.0), start=troupe.start,
        alone=lambda trial: False, prepare=more.pop("prepare", as_it_is), machine=MACHINE,
        command="convdyno sweep", seed=0, narrator=SILENCE, quiet=True,
        **{"together": 4} | more,
    )  # fmt: skip
    run = SweepRun(agenda, Store(folder), means)
    run.run()
    return run


def records(folder: Path) -> dict[int, Record]:
    found = list(Store(folder).records())
    assert len({r.trial.batch for r in found}) == len(found), "one record for each cell"
    return {record.trial.batch: record for record in found}


def rounds(record: Record) -> list[int]:
    return [process.round for process in record.measured]


def test_every_cell_is_measured_in_groups_of_the_wanted_size(tmp_path: Path) -> None:
    troupe = Troupe()
    run = a_run(tmp_path, plan(1, 2, 3, 4, 5, 6, 7), troupe, together=3)
    found = records(tmp_path)
    assert {r.status for r in found.values()} == {"ok"}
    assert all(len(rounds(r)) >= 3 for r in found.values())
    assert (troupe.most, run.agenda.count("done"), run.signal) == (3, 7, None)
    assert len({record.run for record in found.values()}) == 3


def test_what_is_done_is_not_opened_again(tmp_path: Path) -> None:
    a_run(tmp_path, plan(1, 2), Troupe())
    troupe = Troupe()
    a_run(tmp_path, plan(1, 2, 3), troupe)
    assert {trial.batch for trial in troupe.opened} == {3}
    assert set(records(tmp_path)) == {1, 2, 3}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1])
def test_a_signal_ends_it_after_the_turn_and_it_can_go_on(
    tmp_path: Path, number: signal.Signals
) -> None:
    before = signal.signal(number, signal.SIG_DFL)  # `nohup` has one of them ignored.
    troupe = Troupe(at_turn={8: lambda: os.kill(os.getpid(), number)})
    try:
        run = a_run(tmp_path, plan(1, 2, 3, 4), troupe, together=2)
    finally:
        signal.signal(number, before)
    assert (run.signal, troupe.turns, troupe.alive) == (number, 8, [])
    found = records(tmp_path)
    assert {r.status for r in found.values()} == {"interrupted"}
    assert {r.reason for r in found.values()} == {f"stopped by {number.name}"}
    assert sum(len(p.blocks) for r in found.values() for p in r.processes) == 8
    before = {batch: record.processes for batch, record in found.items()}
    again = a_run(tmp_path, plan(1, 2, 3, 4), Troupe(), together=2)
    found = records(tmp_path)
    assert (again.signal, {r.status for r in found.values()}) == (None, {"ok"})
    for batch, processes in before.items():
        kept = found[batch].processes[: len(processes)]
        assert [p.blocks for p in kept] == [p.blocks for p in processes]
        assert found[batch].reason is None
        assert len(rounds(found[batch])) == len(set(rounds(found[batch]))) >= 3


def test_a_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    def twice() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    troupe = Troupe(at_turn={5: twice})
    run = a_run(tmp_path, plan(1, 2), troupe)
    assert (run.signal, troupe.alive) == (signal.SIGINT, [])
    assert sum(len(p.blocks) for r in records(tmp_path).values() for p in r.processes) == 4


def test_a_signal_while_something_is_prepared_ends_it_before_anything_starts(
    tmp_path: Path,
) -> None:
    @contextmanager
    def slow(trials: Sequence[Trial]) -> Iterator[Sequence[Trial]]:
        os.kill(os.getpid(), signal.SIGTERM)
        yield trials

    troupe = Troupe()
    run = a_run(tmp_path, plan(1), troupe, prepare=slow)
    assert (run.signal, troupe.opened) == (signal.SIGTERM, [])


def test_signals_mean_what_they_meant_before_when_it_is_over(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)
    a_run(tmp_path, plan(1), Troupe())
    assert signal.getsignal(signal.SIGTERM) is before


def test_rounds_of_other_versions_are_replaced_not_mixed(tmp_path: Path) -> None:
    stopped = Troupe(at_turn={3: lambda: os.kill(os.getpid(), signal.SIGTERM)})
    a_run(tmp_path, plan(1), stopped)
    assert len(records(tmp_path)[1].processes) == 2
    a_run(tmp_path, plan(1), Troupe(versions={"made-up": "2"}))
    record = records(tmp_path)[1]
    assert (record.status, record.versions) == ("ok", {"made-up": "2"})
    assert all(process.pid <= 3 for process in record.processes)
    assert len(rounds(record)) >= 3


def test_the_peak_is_probed_again_if_its_round_was_replaced(tmp_path: Path) -> None:
    stopped = Troupe(at_turn={3: lambda: os.kill(os.getpid(), signal.SIGTERM)})
    a_run(tmp_path, plan(1), stopped)
    assert records(tmp_path)[1].peaks
    a_run(tmp_path, plan(1), Troupe(versions={"made-up": "2"}))
    assert records(tmp_path)[1].peaks


def test_another_machine_does_not_take_a_record_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped = Troupe(at_turn={4: lambda: os.kill(os.getpid(), signal.SIGTERM)})
    a_run(tmp_path, plan(1), stopped)
    monkeypatch.setitem(MACHINE, "host", "b")
    a_run(tmp_path, plan(1), Troupe())
    found = list(Store(tmp_path).records())
    assert sorted((r.machine["host"], r.status) for r in found) == [
        ("a", "interrupted"),
        ("b", "ok"),
    ]


def test_larger_batches_than_one_without_room_are_skipped_with_that_reason(tmp_path: Path) -> None:
    troupe = Troupe(largest=4)
    run = a_run(tmp_path, plan(1, 2, 4, 8, 16, 32), troupe, together=1)
    found = records(tmp_path)
    assert {batch: r.status for batch, r in found.items()} == {
        1: "ok", 2: "ok", 4: "ok", 8: "oom", 16: "skipped", 32: "skipped",
    }  # fmt: skip
    assert found[32].reason == f"batch 8 ran out of memory ({found[8].id}), and this is larger"
    assert run.agenda.count("done", "failed", "skipped") == 6


def test_what_was_without_room_is_tried_again_on_request_alone(tmp_path: Path) -> None:
    a_run(tmp_path, plan(4, 8, 16), Troupe(largest=4), together=1)
    a_run(tmp_path, plan(4, 8, 16), Troupe(), together=1)
    assert records(tmp_path)[16].status == "skipped"
    a_run(tmp_path, plan(4, 8, 16), Troupe(largest=8), together=1, retry=True)
    statuses = sorted((r.trial.batch, r.status) for r in Store(tmp_path).records())
    assert statuses == [(4, "ok"), (8, "ok"), (8, "oom"), (16, "oom")]


def test_no_room_beside_others_is_no_result_before_it_was_tried_alone(tmp_path: Path) -> None:
    troupe = Troupe(room=1)
    run = a_run(tmp_path, plan(1, 2, 3, 4, 5, 6), troupe, together=3)
    found = records(tmp_path)
    assert {r.status for r in found.values()} == {"ok"}
    assert run.agenda.count("done") == 6


def test_no_room_for_a_turn_beside_others_is_no_result_either(tmp_path: Path) -> None:
    a_run(tmp_path, plan(1, 2, 3), Troupe(crowd=1))
    assert {r.status for r in records(tmp_path).values()} == {"ok"}


def test_no_room_beside_others_is_no_result_however_it_ends(tmp_path: Path) -> None:
    """What is on the disk at any instant is what a kill would leave."""
    seen: list[Record] = []

    def stop() -> None:
        seen.extend(Store(tmp_path).records())
        os.kill(os.getpid(), signal.SIGTERM)

    a_run(tmp_path, plan(1, 2), Troupe(crowd=1, at_turn={2: stop}))
    assert [(r.status, r.reason) for r in seen] == [("interrupted", CROWDED)]
    assert {r.status for r in records(tmp_path).values()} == {"interrupted"}
    a_run(tmp_path, plan(1, 2), Troupe())
    assert {r.status for r in records(tmp_path).values()} == {"ok"}


def test_no_room_for_a_turn_even_alone_is_a_result(tmp_path: Path) -> None:
    a_run(tmp_path, plan(1, 2), Troupe(crowd=0))
    assert {b: r.status for b, r in records(tmp_path).items()} == {1: "oom", 2: "skipped"}


def test_no_room_even_alone_is_a_result(tmp_path: Path) -> None:
    a_run(tmp_path, plan(1, 2, 9), Troupe(largest=8), together=3)
    found = records(tmp_path)
    assert {batch: r.status for batch, r in found.items()} == {1: "ok", 2: "ok", 9: "oom"}


def test_a_cell_that_another_process_measures_is_left_to_it(tmp_path: Path) -> None:
    taken = claim(tmp_path, cell_name(a_trial(1).digest, kind(MACHINE)), 60)
    assert isinstance(taken, Claim)
    troupe = Troupe()
    run = a_run(tmp_path, plan(1, 2), troupe)
    assert {trial.batch for trial in troupe.opened} == {2}
    assert [one.standing for one in run.agenda.planned] == ["elsewhere", "done"]
    taken.release()
    assert a_run(tmp_path, plan(1, 2), troupe).agenda.count("done") == 2


def test_no_claim_is_left_behind(tmp_path: Path) -> None:
    a_run(tmp_path, plan(1, 2), Troupe())
    assert list((tmp_path / ".claims").iterdir()) == []


def test_labels_are_kept_and_added(tmp_path: Path) -> None:
    one = PlannedTrial(a_trial(1), {"gpu": "k80"})
    stopped = Troupe(at_turn={2: lambda: os.kill(os.getpid(), signal.SIGTERM)})
    a_run(tmp_path, [one], stopped)
    again = PlannedTrial(a_trial(1), {"rack": "3"})
    a_run(tmp_path, [again], Troupe())
    assert records(tmp_path)[1].labels == {"gpu": "k80", "rack": "3"}


def test_the_worker_gets_the_trial_as_it_was_placed_and_the_record_as_it_was_meant(
    tmp_path: Path,
) -> None:
    @contextmanager
    def placed(trials: Sequence[Trial]) -> Iterator[Sequence[Trial]]:
        yield [trial.model_copy(update={"staged": "local=/tmp/copy-123"}) for trial in trials]

    troupe, planned = Troupe(), [PlannedTrial(a_trial(1, staged="local=/tmp"))]
    a_run(tmp_path, planned, troupe, prepare=placed)
    assert {trial.staged for trial in troupe.opened} == {"local=/tmp/copy-123"}
    assert records(tmp_path)[1].trial.staged == "local=/tmp"
    assert a_run(tmp_path, planned, Troupe(), prepare=placed).agenda.count("done") == 1


def test_cells_that_are_parted_when_taken_up_are_no_longer_one_run(tmp_path: Path) -> None:
    stopped = Troupe(at_turn={8: lambda: os.kill(os.getpid(), signal.SIGTERM)})
    a_run(tmp_path, plan(1, 2, 3, 4), stopped, together=4)
    assert len({r.run for r in records(tmp_path).values()}) == 1
    a_run(tmp_path, plan(1, 2, 3, 4), Troupe(), together=2)
    runs = {batch: record.run for batch, record in records(tmp_path).items()}
    assert runs[1] == runs[2] != runs[3] == runs[4]


def test_cells_that_went_on_one_after_the_other_are_no_longer_one_run(tmp_path: Path) -> None:
    stopped = Troupe(at_turn={4: lambda: os.kill(os.getpid(), signal.SIGTERM)})
    a_run(tmp_path, plan(1, 2), stopped)
    a_run(tmp_path, plan(1), Troupe())
    a_run(tmp_path, plan(1, 2), Troupe())
    one, two = records(tmp_path).values()
    assert rounds(one) == rounds(two)
    assert one.run != two.run


def test_a_cell_that_was_measured_alone_is_no_longer_of_the_run_of_its_neighbours(
    tmp_path: Path,
) -> None:
    a_run(tmp_path, plan(1, 2, 3), Troupe(crowd=2))
    runs = {batch: record.run for batch, record in records(tmp_path).items()}
    assert len(set(runs.values())) == 2

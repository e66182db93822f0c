"""A record that somebody else wrote is shown, or refused in a sentence; it is never a traceback."""

import io
import json
import os
from pathlib import Path
from typing import Any

import made_up
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from convdyno.errors import BadStore, UsageError
from convdyno.report.bench_json import to_json
from convdyno.report.cell import cell_of
from convdyno.report.cells import gather
from convdyno.report.columns import cell_data
from convdyno.report.console import Screen
from convdyno.report.csv import write_csv
from convdyno.stats.index_figures import figures
from convdyno.store.cell_locks import FOLDER, Claim, claim, holders
from convdyno.store.folder import Store, read_record
from convdyno.store.index import Index
from convdyno.store.merge import merge
from convdyno.store.record import Rank
from convdyno.store.slurm_jobs import Job, find_run, new_run, read_runs
from convdyno.store.training_runs import begin, claimed, read_history
from convdyno.trial.spec import make_trial
from convdyno.trial.training import Training, Watching

scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5),
    st.sampled_from([0, -1, 10**19, 10**400, 1e308, 5e-324, "..", "/", "ok", "\x1b[2J", "\ud800"]),
)  # fmt: skip
anything = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=4,
)


def a_document() -> dict[str, Any]:
    gpus = [{"name": "K80", "memory_total": "11441 MiB"}]
    record = made_up.made(
        rounds=2, labels={"a": "b"}, machine=made_up.a_machine(gpus=gpus, slurm={"job": "7"}),
        warnings=("hot",),
    )  # fmt: skip
    record = record.but(settings=(record.settings or {}) | {"flags": {"a": 1}})
    rank = Rank(rank=0, host="one", cores=(0, 1), seconds=(1.0,) * 8)
    first, *rest = record.processes
    record = record.but(processes=(first.model_copy(update={"ranks": (rank,)}), *rest))
    document: dict[str, Any] = json.loads(record.model_dump_json())
    return document


def places(part: Any) -> Any:
    """Every place in a document that can be set."""
    keys = range(len(part)) if isinstance(part, list) else part if isinstance(part, dict) else ()
    for key in keys:
        yield part, key
        yield from places(part[key])


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=300
)
@given(data=st.data())
def test_whatever_a_record_says_it_is_shown_or_refused(tmp_path: Path, data: Any) -> None:
    """One place of a good record is replaced by anything."""
    document = a_document()
    at, key = data.draw(st.sampled_from(list(places(document))))
    at[key] = data.draw(anything)
    folder = tmp_path / "results"
    folder.mkdir(exist_ok=True)
    path = folder / "one.json"
    path.write_text(json.dumps(document))
    try:
        record = read_record(path)
    except BadStore as refused:
        assert "is not a record" in str(refused)
        return
    out = io.StringIO()
    shown = cell_of(record)
    Screen(out).record(record, shown)
    write_csv([shown], out)
    to_json(cell_data(shown))
    (head,) = Index(folder, figures).heads()
    assert head.file == "one.json"
    merge(folder, Store(tmp_path / "merged"))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_whatever_a_claim_says_it_can_be_asked(tmp_path: Path, data: Any) -> None:
    said = {"host": "one", "pid": 1, "started": 0.0, "since": 1.0, "until": 2.0}
    said[data.draw(st.sampled_from(list(said)))] = data.draw(anything)
    (tmp_path / FOLDER).mkdir(exist_ok=True)
    (tmp_path / FOLDER / "cell").write_text(json.dumps(said))
    for _, holder in holders(tmp_path):
        assert str(holder)
    held = claim(tmp_path, "cell", 1)
    held.release() if isinstance(held, Claim) else str(held)


def test_nothing_is_claimed_through_a_link(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / "cell").symlink_to(victim)
    (tmp_path / ".lock").symlink_to(victim)
    os.mkfifo(tmp_path / FOLDER / "pipe")
    for cell in ("cell", "pipe"):
        with pytest.raises(BadStore):
            claim(tmp_path, cell, 60)
    with pytest.raises(UsageError), claimed(tmp_path):
        pass
    assert list(holders(tmp_path)) == []
    assert victim.read_text() == "mine"


@pytest.mark.parametrize(
    "change",
    [
        {"name": "../elsewhere"}, {"name": "another"}, {"jobs": [{"id": "--user=root"}]},
        {"jobs": [{"record_ids": ["../../outside"]}]}, {"jobs": [{"collected": ["/etc/x"]}]},
    ],
)  # fmt: skip
def test_a_list_of_jobs_names_no_other_files_and_no_options(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    job = Job(number=1, id="7", what="x", trials=(), record_ids=("one",), asked={})
    run = new_run("x", "convdyno bench").with_jobs([job])
    run.write(tmp_path)
    assert find_run(tmp_path, "last") == run
    document = json.loads(run.model_dump_json())
    if "jobs" in change:
        change = {"jobs": [document["jobs"][0] | change["jobs"][0]]}
    (tmp_path / "jobs" / f"{run.name}.json").write_text(json.dumps(document | change))
    with pytest.raises(BadStore, match="is no list of jobs"):
        read_runs(tmp_path)


def test_a_record_is_written_under_no_other_name(tmp_path: Path) -> None:
    with pytest.raises(BadStore, match="cannot be the name"):
        Store(tmp_path / "results").write(made_up.made().but(id="../outside"))
    assert list(tmp_path.rglob("*.json")) == []


def test_the_longest_name_is_still_one_after_merging(tmp_path: Path) -> None:
    name = "a" * 200
    one, other = Store(tmp_path / "one"), Store(tmp_path / "other")
    one.write(made_up.made(host="one", id=name))
    other.write(made_up.made(host="other", id=name))
    for _ in range(2):
        merge(other.folder, one)
        assert len(list(one.records())) == 2
    assert one.skipped == []


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_whatever_a_history_says_it_is_read(tmp_path: Path, data: Any) -> None:
    lines: list[Any] = [
        {"kind": "evaluated", "step": n, "seconds": 1.0 * n, "top1": 0.5} for n in range(3)
    ]
    at, key = data.draw(st.sampled_from(list(places(lines))))
    at[key] = data.draw(anything)
    path = tmp_path / "history.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + "[" * 99_999)
    found = read_history(path)
    assert 2 <= len(found) <= 3
    assert all(abs(float(line["top1"])) < 1e18 for line in found if line["kind"] == "evaluated")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_whatever_a_run_of_training_says_it_is_told(tmp_path: Path, data: Any) -> None:
    if not (tmp_path / "good").exists():
        folder = tmp_path / "good"
        folder.mkdir()
        trial = make_trial(network="trivial", engine="clockwork", batch=1, data="d")
        record = begin(folder, Training(trial=trial, epochs=1.0), Watching(), None, "c", {})
        result = {"seconds": 3.0, "step": 3, "best": 0.5, "reached": True}
        record.model_copy(update={"result": result}).write(folder)
    document = json.loads((tmp_path / "good" / "run.json").read_text())
    at, key = data.draw(st.sampled_from(list(places(document))))
    at[key] = data.draw(anything)
    bad = tmp_path / "runs" / "bad"
    bad.mkdir(parents=True, exist_ok=True)
    (bad / "run.json").write_text(json.dumps(document))
    (bad / "history.jsonl").write_text('{"kind": "evaluated", "step": 1, "top1": 0.5}\n')
    found = gather([tmp_path / "runs"])
    assert len(found.trainings) + len(found.skipped) == 1

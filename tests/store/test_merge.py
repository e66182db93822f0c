"""Stores are brought together: every record once, none changed, whatever is wrong named."""

from pathlib import Path
from typing import Any

import pytest

from convdyno.errors import BadStore
from convdyno.store.certificate import Certificate
from convdyno.store.folder import Store
from convdyno.store.merge import merge
from convdyno.store.record import Block, Process, Record, new_record
from convdyno.trial.manner import Manner
from convdyno.trial.spec import make_trial


def a_record(host: str, blocks: int = 2, **more: Any) -> Record:
    trial = make_trial(network="trivial", engine="clockwork", batch=1)
    process = Process(round=0, blocks=tuple(Block(seconds=1, steps=1) for _ in range(blocks)))
    facts = {"machine": {"host": host, "cpu": f"cpu of {host}", "cores_usable": 2}}
    return new_record(trial, **facts, status="ok", processes=(process,)).but(**more)


def stores(tmp_path: Path, *names: str) -> list[Store]:
    found = [Store(tmp_path / name) for name in names]
    for store in found:
        store.folder.mkdir()
    return found


def test_records_of_two_machines_stay_as_they_are_side_by_side(tmp_path: Path) -> None:
    a, b, both = stores(tmp_path, "a", "b", "both")
    one, two = a_record("a"), a_record("b")
    a.write(one)
    b.write(two)
    done = [merge(store.folder, both) for store in (a, b)]
    assert sorted(both.records(), key=lambda r: r.id) == sorted([one, two], key=lambda r: r.id)
    assert [list(d.machines) for d in done] == [["a: cpu of a, 2 cores"], ["b: cpu of b, 2 cores"]]


def test_a_second_time_changes_nothing(tmp_path: Path) -> None:
    a, both = stores(tmp_path, "a", "both")
    a.write(a_record("a"))
    merge(a.folder, both)
    before = {path.name: path.read_bytes() for path in both.folder.glob("*.json")}
    again = merge(a.folder, both)
    assert (again.added, again.updated, again.present) == ([], [], 1)
    assert {path.name: path.read_bytes() for path in both.folder.glob("*.json")} == before


def test_two_records_of_one_name_both_stay_however_often_they_are_merged(tmp_path: Path) -> None:
    a, b, both = stores(tmp_path, "a", "b", "both")
    one, two = a_record("a", id="same"), a_record("b", id="same")
    a.write(one)
    b.write(two)
    for store in (a, b, a, b):
        done = merge(store.folder, both)
    assert (done.added, done.renamed) == ([], {})
    assert sorted(r.machine["host"] for r in both.records()) == ["a", "b"]
    # In the other order, and through a third store, nothing doubles either.
    merge(both.folder, b)
    assert sorted(r.machine["host"] for r in b.records()) == ["a", "b"]


def test_a_later_state_of_a_record_replaces_an_earlier_one_and_never_the_other_way(
    tmp_path: Path,
) -> None:
    a, both = stores(tmp_path, "a", "both")
    late = a_record("a", blocks=3)
    early = late.but(processes=a_record("a", blocks=1).processes, status="interrupted")
    a.write(early)
    merge(a.folder, both)
    a.write(late)
    assert merge(a.folder, both).updated == [late.id]
    assert list(both.records()) == [late]
    a.write(early)
    assert merge(a.folder, both).present == 1
    assert list(both.records()) == [late]


@pytest.mark.parametrize("name", ["../evil", "a/b", "/dev/null/evil", "..", ".hidden", "", "a\n"])
def test_a_record_that_names_a_place_is_named_and_left(tmp_path: Path, name: str) -> None:
    a, both = stores(tmp_path, "a", "both")
    record = a_record("a", id=name)
    (a.folder / "plain.json").write_text(record.model_dump_json())
    done = merge(a.folder, both)
    assert not done.added
    assert "plain.json is not a record: id" in done.skipped[0]
    assert not list(both.folder.iterdir())
    assert {path.name for path in tmp_path.iterdir()} == {"a", "both"}


def test_what_is_no_record_is_named_and_left(tmp_path: Path) -> None:
    a, both = stores(tmp_path, "a", "both")
    a.write(a_record("a"))
    (a.folder / "half.json").write_text("{")
    (a.folder / "newer.json").write_text('{"schema_version": 7}')
    done = merge(a.folder, both)
    assert len(done.added) == 1
    assert ["half.json" in done.skipped[0], "schema 7" in done.skipped[1]] == [True, True]
    assert len(list(both.folder.glob("*.json"))) == 1


def a_certificate(parameters: int) -> Certificate:
    about = {"network": "trivial", "form": "small", "digest": "d", "condition": 1.0}
    return Certificate(**about, parameters=parameters, engines=(), created="now")


def test_a_certificate_comes_along_where_there_is_none(tmp_path: Path) -> None:
    a, both = stores(tmp_path, "a", "both")
    a.write_certificate(a_certificate(1))
    assert merge(a.folder, both).skipped == []
    assert both.certificate("trivial", Manner()) == a_certificate(1)
    a.write_certificate(a_certificate(2))
    assert "there is another one already" in merge(a.folder, both).skipped[0]
    assert both.certificate("trivial", Manner()) == a_certificate(1)


def test_a_store_is_not_merged_into_itself(tmp_path: Path) -> None:
    (a,) = stores(tmp_path, "a")
    with pytest.raises(BadStore, match="name another"):
        merge(tmp_path / "a" / ".." / "a", a)

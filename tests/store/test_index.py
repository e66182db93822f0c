"""The heads of a store are read once, and never wrong for having been remembered."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from convdyno.errors import BadStore
from convdyno.report.listing import lines
from convdyno.stats.index_figures import figures
from convdyno.store.archive import archive
from convdyno.store.folder import Store
from convdyno.store.index import NAME, Index
from convdyno.store.record import Block, Process, Record, new_record
from convdyno.store.where import select
from convdyno.trial.spec import make_trial

MACHINE = {"host": "a", "cpu": "fast", "cores_usable": 2, "environment": {"OMP_NUM_THREADS": "2"}}


def a_record(batch: int = 1, **more: Any) -> Record:
    trial = make_trial(network="trivial", engine="clockwork", batch=batch)
    blocks = tuple(Block(seconds=0.2, steps=100, turn=n) for n in range(3))
    processes = tuple(Process(round=n, blocks=blocks) for n in range(3))
    facts = {"machine": MACHINE, "processes": processes, "status": "ok"} | more
    return new_record(trial, **facts)


class Counting:
    """The figures of records, and how many were asked for."""

    def __init__(self) -> None:
        self.read = 0

    def __call__(self, record: Record) -> dict[str, Any]:
        self.read += 1
        return figures(record)


def test_a_head_has_what_its_record_has(tmp_path: Path) -> None:
    record = a_record(4, labels={"gpu": "<k80>"})
    Store(tmp_path).write(record)
    (head,) = Index(tmp_path, figures).heads()
    assert (head.id, head.status, head.digest) == (record.id, "ok", record.trial.digest)
    assert (head.labels, head.kind) == ({"gpu": "<k80>"}, "fast, 2 cores")
    assert head.figures["images_per_second"] == pytest.approx(4 * 100 / 0.2)
    assert head.figures["rounds"] == 3
    assert select([head.record()], ["label.gpu=<k80>", "batch=4", "host=a"])


def test_only_what_is_new_or_changed_is_read(tmp_path: Path) -> None:
    store, counting = Store(tmp_path), Counting()
    first, second = a_record(1), a_record(2)
    store.write(first)
    store.write(second)
    assert len(Index(tmp_path, counting).heads()) == 2
    assert len(Index(tmp_path, counting).heads()) == 2
    assert counting.read == 2
    time.sleep(0.01)
    store.write(first.but(status="failed", reason="x"))
    store.write(a_record(3))
    heads = Index(tmp_path, counting).heads()
    assert (len(heads), counting.read) == (3, 4)
    assert {head.status for head in heads} == {"ok", "failed"}


def test_one_index_sees_what_comes_and_goes(tmp_path: Path) -> None:
    store, index = Store(tmp_path), Index(tmp_path, figures)
    path = store.write(a_record(1))
    assert len(index.heads()) == 1
    store.write(a_record(2))
    assert len(index.heads()) == 2
    path.unlink()
    assert [head.trial["batch"] for head in index.heads()] == [2]


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"made_by": 3}', b"\xff\x00", None])
def test_it_is_safe_to_lose(tmp_path: Path, damage: bytes | None) -> None:
    Store(tmp_path).write(a_record())
    (before,) = Index(tmp_path, figures).heads()
    (tmp_path / NAME).unlink() if damage is None else (tmp_path / NAME).write_bytes(damage)
    assert Index(tmp_path, figures).heads() == [before]


def test_what_is_no_record_is_named_each_time_and_read_once(tmp_path: Path) -> None:
    Store(tmp_path).write(a_record())
    (tmp_path / "half.json").write_text('{"id": ')
    (tmp_path / "newer.json").write_text(json.dumps({"schema_version": 99}))
    for _ in range(2):
        index = Index(tmp_path, figures)
        assert len(index.heads()) == 1
        assert ["half.json" in index.skipped[0], "schema 99" in index.skipped[1]] == [True, True]


def test_a_folder_that_cannot_be_written_can_be_listed(tmp_path: Path) -> None:
    Store(tmp_path).write(a_record())
    tmp_path.chmod(0o555)
    try:
        assert len(Index(tmp_path, figures).heads()) == 1
    finally:
        tmp_path.chmod(0o755)


def test_no_folder_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(BadStore, match="there is no results folder"):
        Index(tmp_path / "none", figures).heads()


def test_an_index_is_not_taken_for_a_record(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.write(a_record())
    Index(tmp_path, figures).heads()
    assert len(list(store.records())) == 1
    assert store.skipped == []


@pytest.mark.parametrize("name", ["../outside.json", "/etc/hostname", "a/../../outside.json"])
def test_an_index_cannot_name_a_file_elsewhere(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "results"
    path = Store(folder).write(a_record())
    outside = tmp_path / "outside.json"
    outside.write_text("mine")
    Index(folder, figures).heads()
    remembered = json.loads((folder / NAME).read_text())
    remembered["files"][path.name][2]["file"] = name
    remembered["files"][name] = remembered["files"][path.name]
    (folder / NAME).write_text(json.dumps(remembered))
    command = [sys.executable, "-m", "convdyno", "results", "archive", "--out", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, outside.read_text()) == (0, "mine")
    assert [file.name for file in folder.rglob("*.json")] == [path.name]
    with pytest.raises(BadStore, match="is no file of"):
        archive(folder, [name], derived=False)
    assert outside.read_text() == "mine"


scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.just(10**400),
    st.sampled_from(["..", "/", "ok", "\x1b[2J", "\ud800"]),
)  # fmt: skip
documents = st.recursive(
    scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_whatever_the_index_says_the_records_are_listed(tmp_path: Path, data: Any) -> None:
    """One place of a good index is replaced by anything."""
    folder = tmp_path / "results"
    if not folder.exists():
        Store(folder).write(a_record(4, labels={"gpu": "k80"}))
        Index(folder, figures).heads()
        shutil.copy(folder / NAME, tmp_path / "good")
        (folder / "half.json").write_text("{")
    remembered = json.loads((tmp_path / "good").read_text())
    at, key = data.draw(st.sampled_from(list(places(remembered))))
    at[key] = data.draw(documents)
    (folder / NAME).write_text(json.dumps(remembered))
    (head,) = Index(folder, figures).heads()
    assert (folder / head.file).is_file()
    assert len(list(lines([head]))) == 2
    (found,) = Index(folder, figures).select([f"batch={head.trial['batch']}"])
    assert found.file == head.file


def places(part: Any) -> Any:
    """Every place in a document that can be set."""
    keys = range(len(part)) if isinstance(part, list) else part if isinstance(part, dict) else ()
    for key in keys:
        yield part, key
        yield from places(part[key])


@pytest.mark.parametrize(
    "content", ["[" * 100_000, '{"made_by": ' + "[" * 100_000, "9" * 5000, "null", '"x"', "3"]
)
def test_an_index_of_another_kind_is_written_anew(tmp_path: Path, content: str) -> None:
    Store(tmp_path).write(a_record())
    (tmp_path / NAME).write_text(content)
    assert len(Index(tmp_path, figures).heads()) == 1
    assert json.loads((tmp_path / NAME).read_text())["files"]


def test_pipes_links_and_folders_are_no_records(tmp_path: Path) -> None:
    Store(tmp_path).write(a_record())
    os.mkfifo(tmp_path / "pipe.json")
    os.mkfifo(tmp_path / NAME)
    (tmp_path / "folder.json").mkdir()
    (tmp_path / "device.json").symlink_to("/dev/zero")
    (tmp_path / "circle.json").symlink_to("circle.json")
    with (tmp_path / "huge.json").open("wb") as file:
        file.truncate(1 << 40)
    index = Index(tmp_path, figures)
    assert len(index.heads()) == 1
    assert [sentence.partition(".json")[0].rpartition("/")[2] for sentence in index.skipped] == [
        "device", "folder", "huge", "pipe",
    ]  # fmt: skip


def test_remembering_writes_through_no_link(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    folder = tmp_path / "results"
    Store(folder).write(a_record())
    (folder / NAME).symlink_to(victim)
    (folder / f"{NAME}-{os.getpid()}.part").symlink_to(victim)
    Index(folder, figures).heads()
    assert victim.read_text() == "mine"


def test_a_record_is_found_by_the_beginning_of_its_id(tmp_path: Path) -> None:
    store, counting = Store(tmp_path), Counting()
    for name in ("20260101-a", "20260101-b", "20260102-a", "20260102-a-2", "20260103"):
        store.write(a_record().but(id=name))
    Index(tmp_path, counting).heads()
    assert Index(tmp_path, counting).find("20260101-a").file == "20260101-a.json"
    assert Index(tmp_path, counting).find("20260102-a").id == "20260102-a"
    assert Index(tmp_path, counting).find("last").id == "20260103"
    with pytest.raises(BadStore, match=r"more than one record .*: 20260101-a, 20260101-b$"):
        Index(tmp_path, counting).find("20260101")
    with pytest.raises(
        BadStore, match=r"no record .* begins with '-b' \(of 5\); 20260101-b has it"
    ):
        Index(tmp_path, counting).find("-b")
    assert counting.read == 5


@pytest.mark.slow
def test_ten_thousand_records_are_listed_from_the_index(tmp_path: Path) -> None:
    """How long that takes is measured by benchmarks/report.py."""
    text = a_record().model_dump_json(indent=1)
    name = json.loads(text)["id"]
    for n in range(10_000):
        other = f"{name}-{n:05d}"
        (tmp_path / f"{other}.json").write_text(text.replace(name, other))
    command = [sys.executable, "-m", "convdyno", "results", "list", "--out", str(tmp_path)]
    for _ in range(2):
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
        assert done.stdout.count(b"\n") == 10_001

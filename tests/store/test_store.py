"""A folder of records is written atomically and read tolerantly."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from convdyno.errors import BadStore
from convdyno.store.folder import Store
from convdyno.store.record import Block, Process, Record, new_record
from convdyno.trial.spec import make_trial


def a_record(batch: int = 1) -> Record:
    trial = make_trial(network="trivial", engine="clockwork", batch=batch)
    blocks = tuple(Block(seconds=0.2 + 1e-17 * n, steps=100, turn=n) for n in range(3))
    return new_record(trial).but(status="ok", processes=(Process(round=0, blocks=blocks),))


def test_a_record_survives_the_disk_unchanged(tmp_path: Path) -> None:
    store = Store(tmp_path)
    record = a_record()
    store.write(record)
    assert list(store.records()) == [record]


def test_writing_again_replaces_the_earlier_state(tmp_path: Path) -> None:
    store = Store(tmp_path)
    record = a_record()
    store.write(record.but(status="interrupted"))
    store.write(record)
    assert [r.status for r in store.records()] == ["ok"]
    assert len(list(tmp_path.iterdir())) == 1


def test_two_records_of_one_trial_have_two_ids() -> None:
    assert a_record().id != a_record().id


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", '{"schema_version": 1}', '{"a": 1}', '"x"', "\x00\x01"],
)
def test_foreign_files_are_named_and_skipped(tmp_path: Path, text: str) -> None:
    store = Store(tmp_path)
    store.write(a_record())
    (tmp_path / "foreign.json").write_text(text)
    assert len(list(store.records())) == 1
    assert len(store.skipped) == 1
    assert "foreign.json" in store.skipped[0]


def test_a_newer_schema_is_said_to_be_newer(tmp_path: Path) -> None:
    data = json.loads(a_record().model_dump_json()) | {"schema_version": 99}
    (tmp_path / "new.json").write_text(json.dumps(data))
    store = Store(tmp_path)
    assert list(store.records()) == []
    assert "schema 99" in store.skipped[0]


def test_a_half_written_record_is_never_seen(tmp_path: Path) -> None:
    store = Store(tmp_path)
    path = store.write(a_record())
    path.write_text(path.read_text()[:100])
    assert list(store.records()) == []
    assert "not complete JSON" in store.skipped[0]


def test_an_unwritable_folder_is_refused_before_measuring(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(BadStore, match="cannot be written"):
        Store(file / "below").prepare()
    with pytest.raises(BadStore, match="cannot be written"):
        Store(Path("/proc/convdyno")).prepare()


def test_a_full_disk_is_refused_before_measuring(tmp_path: Path) -> None:
    # A limit of the size of files is what a test can have in place of a full disk.
    code = (
        "import resource, signal, sys; from pathlib import Path\n"
        "from convdyno.store.folder import Store\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "Store(Path(sys.argv[1])).prepare()\n"
    )
    done = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True)
    assert "BadStore: results cannot be written" in done.stderr
    assert "File too large" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_missing_folder_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(BadStore, match="no results folder"):
        list(Store(tmp_path / "none").records())

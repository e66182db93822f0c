"""Files are there whole or not at all, whatever happens, and are locked by one at a time."""

import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from convdyno.files import (
    ABANDONED_SECONDS,
    clear_parts,
    lock,
    open_lock,
    read_plain,
    whole_file,
    whole_path,
    write_whole,
)

WRITING = """
import sys, time
from pathlib import Path
from convdyno.files import whole_file
with whole_file(Path(sys.argv[1])) as file:
    file.write(b"new" * 100_000)
    file.flush()
    print("writing", flush=True)
    time.sleep(600)
"""


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def a_writer(path: Path) -> subprocess.Popen[str]:
    """A process that has written half of a file."""
    words = [sys.executable, "-c", WRITING, str(path)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "writing\n"
    return process


def test_a_killed_writer_leaves_the_old_file_and_what_it_left_is_cleared(tmp_path: Path) -> None:
    path = write_whole(tmp_path / "file", "old")
    with a_writer(path) as writer:
        (part,) = tmp_path.glob(".*.part")
        clear_parts(tmp_path, older=0)
        assert part.exists(), "it is being written"
        writer.send_signal(signal.SIGKILL)
    assert path.read_text() == "old"
    clear_parts(tmp_path)
    assert part.exists(), "somebody may just have made it"
    clear_parts(tmp_path, "another", older=0)
    assert part.exists()
    clear_parts(tmp_path, older=0)
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


def test_what_nobody_has_written_to_for_long_is_cleared(tmp_path: Path) -> None:
    part = tmp_path / ".file.0123.part"
    part.write_text("")
    then = time.time() - ABANDONED_SECONDS - 1
    os.utime(part, (then, then))
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / ".file.0123.part").write_text("")
    (tmp_path / ".folder.0123.part").mkdir()
    clear_parts(tmp_path)
    assert not part.exists()
    clear_parts(tmp_path, "**/*", older=0)
    assert [file.name for file in tmp_path.rglob("*.part")] == [".folder.0123.part"]


@pytest.mark.parametrize("wrong", [ValueError, KeyboardInterrupt])
def test_what_goes_wrong_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, wrong: type[BaseException]
) -> None:
    path = write_whole(tmp_path / "file", "old")
    with pytest.raises(wrong), whole_file(path) as file:
        file.write(b"new")
        raise wrong
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("file", "old")]


def test_the_mode_of_an_earlier_file_is_kept_and_a_new_one_has_the_usual(tmp_path: Path) -> None:
    usual = tmp_path / "usual"
    usual.touch()
    path = write_whole(tmp_path / "file", "old")
    assert mode(path) == mode(usual)
    path.chmod(0o640)
    write_whole(path, "new")
    assert (path.read_text(), mode(path)) == ("new", 0o640)
    with whole_path(path) as part:  # Some writers make a file of their own.
        part.unlink()
        part.write_text("newer")
        part.chmod(0o600)
    assert (path.read_text(), mode(path)) == ("newer", 0o640)


def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    victim.chmod(0o600)
    path = tmp_path / "file"
    path.symlink_to(victim)
    write_whole(path, "new")
    assert (victim.read_text(), path.read_text(), path.is_symlink()) == ("mine", "new", False)


def test_the_file_and_its_folder_are_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        real(descriptor)
        about = os.fstat(descriptor)
        folder = stat.S_ISDIR(about.st_mode)
        synced.append("folder" if folder else f"{about.st_size} bytes")
        assert (tmp_path / "file").exists() == folder, "the content first, the name afterwards"

    monkeypatch.setattr(os, "fsync", fsync)
    write_whole(tmp_path / "file", "12345")
    assert synced == ["5 bytes", "folder"]
    write_whole(tmp_path / "other", "12345", sync=False)
    assert len(synced) == 2


def test_a_long_name_is_no_hindrance(tmp_path: Path) -> None:
    path = tmp_path / ("n" * 255)
    assert write_whole(path, "new").read_text() == "new"


def test_many_writers_leave_one_whole_file(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from convdyno.files import write_whole\n"
        "for _ in range(50): write_whole(Path(sys.argv[1]), sys.argv[2] * 50_000, sync=False)"
    )
    path = tmp_path / "file"
    words = [sys.executable, "-c", code, str(path)]
    writers = [subprocess.Popen([*words, letter]) for letter in "abc"]
    while any(writer.poll() is None for writer in writers):
        text = path.read_text() if path.exists() else "a" * 50_000
        assert (len(text), len(set(text))) == (50_000, 1)
    assert [writer.returncode for writer in writers] == [0, 0, 0]
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


def test_a_lock_is_held_by_one_and_freed_by_its_end(tmp_path: Path) -> None:
    first, second = open_lock(tmp_path / "lock"), open_lock(tmp_path / "lock")
    assert (lock(first), lock(second)) == (True, False)
    os.close(first)
    assert lock(second) is True
    os.close(second)


def test_only_plain_files_are_read_and_locked(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(write_whole(tmp_path / "file", "text"))
    for name in ("pipe", ".", "none"):
        with pytest.raises(OSError):
            read_plain(tmp_path / name)
    for name in ("pipe", "link", "."):
        with pytest.raises(OSError):
            open_lock(tmp_path / name)
    assert read_plain(tmp_path / "link") == b"text"
    with pytest.raises(OSError, match="4 bytes"):
        read_plain(tmp_path / "file", most=3)

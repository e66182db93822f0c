"""The file by which ranks find each other: this user's alone, of this job, and gone afterwards."""

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from convdyno.errors import UsageError
from convdyno.launch.contact import Board, Contact, given_secret, ports

CONTACT = Contact("127.0.0.1", 4711, "s" * 64)
NOBODY = 65534


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder in which every user of the machine may write, and that all can reach."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    folder.chmod(0o1777)
    yield folder
    shutil.rmtree(folder)


def board(folder: Path, job: str = "job") -> Board:
    return Board(job, {"CONVDYNO_RANKS_DIR": str(folder)}, local=True)


def as_nobody(*acts: Callable[[], object]) -> list[str]:
    """What each of these is to another user of this machine; only root can be another one."""
    ours, theirs = os.pipe()
    if (child := os.fork()) == 0:
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            os.umask(0)
            for act in acts:
                try:
                    said = repr(act())
                except OSError as wrong:
                    said = type(wrong).__name__
                os.write(theirs, f"{said}\n".encode())
        finally:
            os._exit(0)
    os.close(theirs)
    os.waitpid(child, 0)
    with os.fdopen(ours) as said:
        return said.read().splitlines()


def test_the_other_ranks_read_what_rank_0_has_published(tmp_path: Path) -> None:
    first, second = board(tmp_path), board(tmp_path)
    assert second.contacts() == []
    first.publish(CONTACT)
    assert second.contacts() == [CONTACT]
    assert board(tmp_path, "another job").contacts() == []
    first.withdraw()
    assert second.contacts() == []
    assert list(tmp_path.iterdir()) == []


def test_nobody_else_may_read_or_write_it(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        board(tmp_path).publish(CONTACT)
    finally:
        os.umask(old)
    (folder,) = tmp_path.iterdir()
    (file,) = folder.iterdir()
    assert (folder.stat().st_mode & 0o777, file.stat().st_mode & 0o777) == (0o700, 0o600)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can try it as another user")
def test_another_user_of_the_machine_cannot_find_it_out(shared: Path) -> None:
    ours = board(shared)
    ours.publish(CONTACT)
    (folder,) = shared.iterdir()
    (file,) = folder.iterdir()
    attacks = (
        lambda: list(folder.iterdir()),
        folder.rmdir,
        lambda: folder.rename(shared / "moved"),
        (folder / "mine").mkdir,
        file.read_text,
        lambda: file.write_text("{}"),
        file.unlink,
    )
    assert as_nobody(*attacks) == ["PermissionError"] * len(attacks)
    assert as_nobody(lambda: len(list(shared.iterdir()))) == ["1"]  # So far he can see.
    assert board(shared).contacts() == [CONTACT]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can try it as another user")
@pytest.mark.parametrize("mode", [0o700, 0o777])
def test_a_folder_that_another_user_has_put_there_is_not_used(shared: Path, mode: int) -> None:
    name = f"convdyno-ranks-{os.getuid()}"
    file = board(shared)._name
    forged = json.dumps({"address": "127.0.0.1", "port": 1, "secret": "known"})
    folder = shared / name
    assert as_nobody(folder.mkdir, lambda: (folder / file).write_text(forged)) == [
        "None",
        f"{len(forged)}",
    ]
    folder.chmod(mode)
    assert board(shared).contacts() == []
    with pytest.raises(UsageError, match=r"belongs to another user.*CONVDYNO_TOKEN"):
        board(shared).publish(CONTACT)
    assert (folder / file).read_text() == forged


@pytest.mark.parametrize("loose", ["folder", "file", "linked folder", "linked file"])
def test_what_others_might_have_read_or_exchanged_is_not_trusted(
    tmp_path: Path, loose: str
) -> None:
    ours = board(tmp_path)
    ours.publish(CONTACT)
    (folder,) = tmp_path.iterdir()
    (file,) = folder.iterdir()
    match loose:
        case "folder":
            folder.chmod(0o755)
        case "file":
            file.chmod(0o644)
        case "linked folder":
            folder.rename(tmp_path / "elsewhere").joinpath("x")
            folder.symlink_to(tmp_path / "elsewhere")
        case "linked file":
            file.rename(tmp_path / "elsewhere")
            file.symlink_to(tmp_path / "elsewhere")
    other = board(tmp_path)
    assert other.contacts() == []
    assert "(" in other.said()


def test_what_a_dead_job_has_left_is_replaced_and_swept(tmp_path: Path) -> None:
    dead, older = board(tmp_path), board(tmp_path, "older")
    for one in (dead, older):
        one.publish(CONTACT)
        for _, held in one._shown:
            os.close(held)  # As the end of a process does.
        one._shown.clear()
    folder = dead.folders[0]
    for file in folder.iterdir():
        os.utime(file, (0, 0))
    fresh = Contact("127.0.0.1", 4712, "t" * 64)
    now = board(tmp_path)
    now.publish(fresh)
    assert board(tmp_path).contacts() == [fresh]
    assert len(list(folder.iterdir())) == 1
    now.withdraw()


def test_a_second_run_of_the_same_name_does_not_take_the_ranks_of_the_first(
    tmp_path: Path,
) -> None:
    first = board(tmp_path)
    first.publish(CONTACT)
    with pytest.raises(UsageError, match="another run of the same job"):
        board(tmp_path).publish(CONTACT)
    first.withdraw()
    board(tmp_path).publish(CONTACT)


def test_without_a_home_that_can_be_written_the_working_folder_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    home = {"HOME": str(tmp_path / "file")}
    first = Board("job", home, local=True)
    first.publish(CONTACT)
    assert Board("job", {"HOME": "/elsewhere"}, local=True).contacts() == [CONTACT]
    first.withdraw()
    assert [one.name for one in tmp_path.iterdir()] == ["file"]


def test_hosts_may_share_the_home_or_the_working_folder_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "home"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "a")
    first = Board("job", {"HOME": str(tmp_path / "home")}, local=False)
    first.publish(CONTACT)
    assert Board("job", {"HOME": str(tmp_path / "b")}, local=False).contacts() == [CONTACT]
    monkeypatch.chdir(tmp_path / "b")
    assert Board("job", {"HOME": str(tmp_path / "home")}, local=False).contacts() == [CONTACT]
    monkeypatch.chdir(tmp_path / "a")
    first.withdraw()


@pytest.mark.parametrize("token", ["secret", "x" * 31])
def test_a_short_token_is_refused(token: str) -> None:
    with pytest.raises(UsageError, match="could be guessed"):
        given_secret({"CONVDYNO_TOKEN": token})


def test_ports_follow_from_the_token_alone() -> None:
    one, other = ports("a" * 32, {}), ports("b" * 32, {})
    assert one == ports("a" * 32, {"SLURM_JOB_ID": "17"}) != other
    assert all(20000 <= port < 30000 for port in one + other)
    assert ports("a" * 32, {"CONVDYNO_PORT": "4711"}) == [4711]
    for wrong in ("x", "0", "70000"):
        with pytest.raises(UsageError, match="CONVDYNO_PORT must be"):
            ports("a" * 32, {"CONVDYNO_PORT": wrong})

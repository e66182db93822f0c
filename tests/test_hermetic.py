"""What `hermetic` promises: tests have a home of their own, and who writes elsewhere is named."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hermetic import MARK, OWN, SESSION

INSIDE = """
import subprocess, sys, tempfile
from pathlib import Path

def test_writes_in_its_own_places():
    code = "from pathlib import Path; (Path.home() / '.keras').mkdir()"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert (Path.home() / ".keras").is_dir()
    Path(tempfile.mkdtemp(prefix="convdyno-"), "file").touch()
"""
WRITES = """
import pytest
from pathlib import Path

@pytest.mark.parametrize("path", {paths})
def test_writes(path):
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).touch()
"""


class Machine:
    """A user's home, temporary folder and checkout, in which the tests of a file are run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("home", "tmp", "checkout/tests"):
            (folder / name).mkdir(parents=True)
        (folder / "home/.cache/convdyno").mkdir(parents=True)
        shutil.copy(Path(__file__).with_name("hermetic.py"), folder / "checkout/tests")
        (folder / "checkout/tests/conftest.py").write_text(
            "from hermetic import pytest_sessionfinish, pytest_terminal_summary\n"
        )
        kept = {name: value for name, value in os.environ.items() if name not in {*OWN, MARK}}
        self._environment = kept | {"HOME": str(folder / "home"), "TMPDIR": str(folder / "tmp")}

    def test(self, code: str, *words: str, ci: str = "") -> subprocess.CompletedProcess[str]:
        (self.folder / "checkout/tests/test_it.py").write_text(code)
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "xdist", *words]
        checkout = self.folder / "checkout"
        return subprocess.run(
            command,
            cwd=checkout,
            env=self._environment | {"CI": ci, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
            capture_output=True,
            text=True,
        )


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_this_session_has_places_of_its_own() -> None:
    assert {SESSION / place for place in OWN.values()} == {Path(os.environ[name]) for name in OWN}
    assert Path.home() == SESSION / "home"
    assert "CONVDYNO_DATA" not in os.environ


def test_what_is_written_inside_is_gone_afterwards(machine: Machine) -> None:
    done = machine.test(INSIDE)
    assert done.returncode == 0, done.stdout
    assert not list((machine.folder / "tmp").iterdir())


def test_what_is_written_elsewhere_fails_the_session(machine: Machine) -> None:
    places = (
        "home/.keras/keras.json",
        "home/.cache/convdyno/data/mnist/file",
        "home/.config/convdyno/default.toml",
        "home/.somebody",
        "tmp/convdyno-ssh-1",
        "checkout/results/record.json",
    )
    paths = sorted(str(machine.folder / place) for place in places)
    done = machine.test(WRITES.format(paths=paths), "-n1", ci="true")
    assert f"{len(paths)} passed" in done.stdout
    assert done.returncode == pytest.ExitCode.TESTS_FAILED
    named = [line for line in done.stdout.splitlines() if line.startswith(str(machine.folder))]
    assert named == paths


def test_what_somebody_elses_convdyno_writes_is_theirs(machine: Machine) -> None:
    theirs = [sys.executable, "-c", "import time; time.sleep(600)", "convdyno"]
    with subprocess.Popen(theirs, env={}) as other:
        code = WRITES.format(paths=[str(machine.folder / "tmp/convdyno-1")])
        found = machine.test(code)
        other.kill()
    assert found.returncode == 0, found.stdout


def test_what_other_programs_write_is_theirs(machine: Machine) -> None:
    (machine.folder / "home/.mozilla").mkdir()
    theirs = ("tmp/tmp1234", "home/.mozilla/lock", "home/.somebody", "checkout/.make/x")
    done = machine.test(WRITES.format(paths=[str(machine.folder / path) for path in theirs]))
    assert done.returncode == 0, done.stdout
